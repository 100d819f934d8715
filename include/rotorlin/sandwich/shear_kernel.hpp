// SPDX-License-Identifier: MIT
/// \file
/// The sandwich x -> alpha r x r~ of a single rotor as an outermorphism.
///
/// With both sides equal the map keeps grades and the outer product: it is the outermorphism of the rotation
/// M in SO(n). A pivoted factorisation M = P L U'' D Q (L, U'' unit triangular) turns it into a signed,
/// scaled permutation of the blades, n(n-1) elementary shears e_j -> e_j + a e_i, and another signed
/// permutation. One shear adds a multiple of the blades that hold e_j to those that hold e_i instead: a fused
/// multiply-add on a quarter of the coefficients, 2^n n(n-1)/4 in all.
#pragma once

#include <Eigen/LU>
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/sandwich/rotor_pair.hpp"

namespace rotorlin::detail {

/// body(integral_constant<int, value>) for 0 <= value < Count.
template <int Count, class F>
inline void with_constant(int value, F&& body) {
  unroll<Count>([&](auto constant) {
    if (value == decltype(constant)::value) body(constant);
  });
}

/// The shears e_j -> e_j + sum_i a(i, j) e_i of triangular matrices on 2^n coefficients in binary order, a
/// column j at a time. A coefficient without e_j receives, for every e_i that it holds, a(i, j) times the
/// coefficient with e_j in the place of e_i; the sign counts the factors between the two. So every
/// coefficient is written once a column, and the factors are walked through once for a block of 2^BlockBits
/// coefficients.
///
/// Bits of a mask from the lowest: LaneBits run through the lanes of a pack (one sample), or none (V samples
/// side by side); BlockBits through a block; the others through the blocks.
template <class S, int V, int LaneBits, int BlockBits>
class ShearColumns {
  using P = Pack<S, V>;
  static constexpr int block = 1 << BlockBits;
  static constexpr int low_bits = LaneBits + BlockBits;

 public:
  ShearColumns(int n, const Matrix<S>& a, S* data)
      : n_(n), blocks_(1u << (n - low_bits)), a_(a), data_(data) {}

  /// Strictly upper part, column after column (i < j).
  void upper() {
    upper_lanes();
    for (int j = std::max(LaneBits, 1); j < n_; ++j) {
      if (j >= low_bits) {
        upper_column(j);
      } else {
        with_constant<BlockBits>(j - LaneBits,
                                 [&](auto column) { upper_block_column<decltype(column)::value>(); });
      }
    }
  }

  /// Strictly lower part, last column first (i > j).
  void lower() {
    for (int j = n_ - 2; j >= 0; --j) {
      if (j >= low_bits) {
        lower_column(j);
      } else if (j >= LaneBits) {
        with_constant<BlockBits>(j - LaneBits,
                                 [&](auto column) { lower_block_column<decltype(column)::value>(); });
      } else {
        with_constant<LaneBits>(j, [&](auto column) { lower_lane_column<decltype(column)::value>(); });
      }
    }
  }

 private:
  static constexpr bool odd(unsigned mask) { return (std::popcount(mask) & 1) != 0; }
  S* at(unsigned h) const { return data_ + static_cast<Index>(h) * block * V; }
  static void load_block(const S* from, P (&values)[block]) {
    ROTORLIN_UNROLL
    for (int l = 0; l < block; ++l) values[l] = load<S, V>(from + l * V);
  }
  static void store_block(S* to, const P (&values)[block]) {
    ROTORLIN_UNROLL
    for (int l = 0; l < block; ++l) store<S, V>(to + l * V, values[l]);
  }

  /// What the lanes of a pack receive, by lane: 0 or +-a(target, source), for at least one of the two in the
  /// lanes.
  P lane_coefficients(int target, int source) const {
    return lane_coefficients(target, source, a_(target, source));
  }
  static P lane_coefficients(int target, int source, S value) {
    const int low = std::min(target, source);
    const int high = std::min(std::max(target, source), LaneBits);
    S lanes[V];
    for (int l = 0; l < V; ++l) {
      const auto lane = static_cast<unsigned>(l);
      const bool holds =
          (target >= LaneBits || ((lane >> target) & 1u)) && (source >= LaneBits || !((lane >> source) & 1u));
      const unsigned between = (lane & ((1u << high) - 1)) >> (low + 1);
      lanes[l] = !holds ? S(0) : odd(between) ? -value : value;
    }
    return load<S, V>(lanes);
  }

  /// The sum over the targets in the lanes, all lower than the source.
  static P lane_sum(const P (&coefficients)[LaneBits + 1], const P& source) {
    P sum{};
    unroll<LaneBits>([&](auto i) ROTORLIN_INLINE_LAMBDA {
      sum += coefficients[i] * xor_lanes<S, V, 1 << decltype(i)::value>(source);
    });
    return sum;
  }

  void upper_lanes() {
    if constexpr (LaneBits > 1) {
      P coefficients[LaneBits][LaneBits];
      for (int j = 1; j < LaneBits; ++j) {
        for (int i = 0; i < j; ++i) coefficients[j][i] = lane_coefficients(i, j);
      }
      for (unsigned pack = 0; pack < blocks_ * block; ++pack) {
        S* to = data_ + static_cast<Index>(pack) * V;
        P x = load<S, V>(to);
        unroll<LaneBits>([&](auto column) ROTORLIN_INLINE_LAMBDA {
          constexpr int j = decltype(column)::value;
          unroll<j>([&](auto row) ROTORLIN_INLINE_LAMBDA {
            constexpr int i = decltype(row)::value;
            x += coefficients[j][i] * xor_lanes<S, V, (1 << i) | (1 << j)>(x);
          });
        });
        store<S, V>(to, x);
      }
    }
  }

  void upper_column(int j) {
    const unsigned bit = 1u << (j - low_bits);
    P lanes[LaneBits + 1];
    for (int i = 0; i < LaneBits; ++i) lanes[i] = lane_coefficients(i, j);
    for (unsigned h = 0; h < blocks_; ++h) {
      if (h & bit) continue;
      const unsigned below = h & (bit - 1);
      P sum[block];
      P source[block];
      load_block(at(h), sum);
      load_block(at(h | bit), source);
      const bool flip = odd(below);
      ROTORLIN_UNROLL
      for (int i = 0; i < BlockBits; ++i) {
        const S value = flip ? -a_(LaneBits + i, j) : a_(LaneBits + i, j);
        ROTORLIN_UNROLL
        for (int l = 0; l < block; ++l) {
          if ((l >> i) & 1)
            sum[l] += source[l ^ (1 << i)] * (odd(static_cast<unsigned>(l) >> (i + 1)) ? -value : value);
        }
      }
      if constexpr (LaneBits > 0) {
        ROTORLIN_UNROLL
        for (int l = 0; l < block; ++l) {
          const P part = lane_sum(lanes, source[l]);
          sum[l] += flip != odd(static_cast<unsigned>(l)) ? -part : part;
        }
      }
      for (unsigned rest = below; rest != 0; rest &= rest - 1) {
        const int i = std::countr_zero(rest);
        const S value = odd(rest & (rest - 1)) ? -a_(low_bits + i, j) : a_(low_bits + i, j);
        const S* from = at((h ^ (1u << i)) | bit);
        ROTORLIN_UNROLL
        for (int l = 0; l < block; ++l) sum[l] += load<S, V>(from + l * V) * value;
      }
      store_block(at(h), sum);
    }
  }

  /// A column j = LaneBits + J within the block.
  template <int J>
  void upper_block_column() {
    constexpr int bit = 1 << J;
    const int j = LaneBits + J;
    P lanes[LaneBits + 1];
    for (int i = 0; i < LaneBits; ++i) lanes[i] = lane_coefficients(i, j);
    for (unsigned h = 0; h < blocks_; ++h) {
      P x[block];
      load_block(at(h), x);
      ROTORLIN_UNROLL
      for (int l = 0; l < block; ++l) {
        if (l & bit) continue;
        ROTORLIN_UNROLL
        for (int i = 0; i < J; ++i) {
          if (!((l >> i) & 1)) continue;
          const bool flip = odd((static_cast<unsigned>(l) & (bit - 1)) >> (i + 1));
          x[l] += x[(l ^ (1 << i)) | bit] * (flip ? -a_(LaneBits + i, j) : a_(LaneBits + i, j));
        }
        if constexpr (LaneBits > 0) {
          const P part = lane_sum(lanes, x[l | bit]);
          x[l] += odd(static_cast<unsigned>(l) & (bit - 1)) ? -part : part;
        }
      }
      store_block(at(h), x);
    }
  }

  void lower_column(int j) {
    const unsigned bit = 1u << (j - low_bits);
    for (unsigned h = 0; h < blocks_; ++h) {
      const unsigned above = h & ~(2 * bit - 1);
      if ((h & bit) || above == 0) continue;
      P sum[block];
      load_block(at(h), sum);
      bool flip = false;
      for (unsigned rest = above; rest != 0; rest &= rest - 1, flip = !flip) {
        const int i = std::countr_zero(rest);
        const S value = flip ? -a_(low_bits + i, j) : a_(low_bits + i, j);
        const S* from = at((h ^ (1u << i)) | bit);
        ROTORLIN_UNROLL
        for (int l = 0; l < block; ++l) sum[l] += load<S, V>(from + l * V) * value;
      }
      store_block(at(h), sum);
    }
  }

  template <int J>
  void lower_block_column() {
    constexpr int bit = 1 << J;
    const int j = LaneBits + J;
    for (unsigned h = 0; h < blocks_; ++h) {
      P x[block];
      load_block(at(h), x);
      ROTORLIN_UNROLL
      for (int l = 0; l < block; ++l) {
        if (l & bit) continue;
        ROTORLIN_UNROLL
        for (int i = J + 1; i < BlockBits; ++i) {
          if (!((l >> i) & 1)) continue;
          const bool flip = odd((static_cast<unsigned>(l) & ((1u << i) - 1)) >> (J + 1));
          x[l] += x[(l ^ (1 << i)) | bit] * (flip ? -a_(LaneBits + i, j) : a_(LaneBits + i, j));
        }
      }
      bool flip = false;
      for (unsigned rest = h; rest != 0; rest &= rest - 1, flip = !flip) {
        const int i = std::countr_zero(rest);
        const S value = flip ? -a_(low_bits + i, j) : a_(low_bits + i, j);
        const S* from = at(h ^ (1u << i));
        ROTORLIN_UNROLL
        for (int l = 0; l < block; ++l) {
          if (l & bit) continue;
          x[l] +=
              load<S, V>(from + (l | bit) * V) * (odd(static_cast<unsigned>(l) >> (J + 1)) ? -value : value);
        }
      }
      store_block(at(h), x);
    }
  }

  template <int J>
  void lower_lane_column() {
    const P across = lane_coefficients(LaneBits, J, S(1));
    P within[LaneBits + 1];
    for (int i = J + 1; i < LaneBits; ++i) within[i] = lane_coefficients(i, J);
    for (unsigned h = 0; h < blocks_; ++h) {
      P x[block];
      P sum[block] = {};
      load_block(at(h), x);
      ROTORLIN_UNROLL
      for (int i = 0; i < BlockBits; ++i) {
        const S value = a_(LaneBits + i, J);
        ROTORLIN_UNROLL
        for (int l = 0; l < block; ++l) {
          if (!((l >> i) & 1)) continue;
          sum[l] += x[l ^ (1 << i)] * (odd(static_cast<unsigned>(l) & ((1u << i) - 1)) ? -value : value);
        }
      }
      bool flip = false;
      for (unsigned rest = h; rest != 0; rest &= rest - 1, flip = !flip) {
        const int i = std::countr_zero(rest);
        const S value = flip ? -a_(low_bits + i, J) : a_(low_bits + i, J);
        const S* from = at(h ^ (1u << i));
        ROTORLIN_UNROLL
        for (int l = 0; l < block; ++l) {
          sum[l] += load<S, V>(from + l * V) * (odd(static_cast<unsigned>(l)) ? -value : value);
        }
      }
      ROTORLIN_UNROLL
      for (int l = 0; l < block; ++l) {
        P result = x[l] + across * xor_lanes<S, V, 1 << J>(sum[l]);
        unroll<LaneBits>([&](auto row) ROTORLIN_INLINE_LAMBDA {
          constexpr int i = decltype(row)::value;
          if constexpr (i > J) result += within[i] * xor_lanes<S, V, (1 << i) | (1 << J)>(x[l]);
        });
        x[l] = result;
      }
      store_block(at(h), x);
    }
  }

  int n_;
  unsigned blocks_;
  const Matrix<S>& a_;
  S* data_;
};

/// Upper and then lower shears of `a` on 2^n coefficients.
template <class S, int V, int LaneBits>
void shear(int n, const Matrix<S>& a, S* data) {
  const auto run = [&](auto columns) {
    columns.upper();
    columns.lower();
  };
  if (n >= LaneBits + 3) return run(ShearColumns<S, V, LaneBits, 3>(n, a, data));
  run(ShearColumns<S, V, LaneBits, 0>(n, a, data));
}

/// The shear kernel: `W` samples side by side, or one sample by itself (W = 1). Coefficients stay in graded
/// order outside `apply`.
template <class S>
struct ShearKernel {
  struct Operator {
    std::vector<std::uint16_t> in_source;   ///< binary position -> blade in graded order
    VectorX<S> in_scale;                    ///< with sign and D
    std::vector<std::uint16_t> out_source;  ///< blade in graded order -> binary position
    VectorX<S> out_scale;                   ///< with sign and alpha
    Matrix<S> shears;                       ///< strictly lower: L, strictly upper: U''
  };
  struct Weights {
    Operator forward;
    Operator adjoint;
  };

  static constexpr bool transforms = false;
  static Index scratch_size(int n) { return Index{1} << n; }
  static Index singles_per_tile(int n) { return n <= 6 ? 1 : n <= 8 ? 3 : 8; }

  template <class Wide>
  static void prepare(const RotorPair<Wide>& pair, Wide alpha, bool with_adjoint, Weights& weights,
                      PackBuffer<Wide>&) {
    const SmallMatrix<Wide> rotation = Eigen::Map<const Matrix<Wide>>(pair.rotation, pair.n, pair.n);
    fill<Wide>(pair.n, rotation, alpha, weights.forward);
    if (with_adjoint) fill<Wide>(pair.n, rotation.transpose(), Wide(1), weights.adjoint);
  }

  template <int W>
  static const S* enter(int, const S* coefficients, S*, S*) {
    return coefficients;
  }
  template <int W>
  static const S* leave(int, const S* coefficients, S*, S*) {
    return coefficients;
  }

  template <int W, bool Add>
  static void apply(int n, const Operator& op, const S* x, S* y, S* scratch) {
    const Index size = Index{1} << n;
    for (Index m = 0; m < size; ++m) {
      const Index from = op.in_source[static_cast<std::size_t>(m)];
      store<S, W>(scratch + m * W, load<S, W>(x + from * W) * op.in_scale[m]);
    }
    constexpr int native = native_lanes<S>;
    constexpr int lane_bits = std::countr_zero(static_cast<unsigned>(native));
    if constexpr (W > 1) {
      shear<S, W, 0>(n, op.shears, scratch);
    } else if (n >= lane_bits) {
      shear<S, native, lane_bits>(n, op.shears, scratch);
    } else {
      shear<S, 1, 0>(n, op.shears, scratch);
    }
    for (Index blade = 0; blade < size; ++blade) {
      const Index from = op.out_source[static_cast<std::size_t>(blade)];
      Pack<S, W> value = load<S, W>(scratch + from * W) * op.out_scale[blade];
      if constexpr (Add) value += load<S, W>(y + blade * W);
      store<S, W>(y + blade * W, value);
    }
  }

  /// n(n-1)/2 values of <gx x~ + gx~ x>_2, then <gx, x>.
  static Index gradient_size(int n) { return Index{n} * (n - 1) / 2 + 1; }

  /// Adds, over W samples, <gx, [e_ij, x]> for all i < j. With m and m' alike but for e_i in one and e_j in
  /// the other, [e_ij, e_m] = -2 s e_m' and [e_ij, e_m'] = 2 s e_m, s the sign of the factors between i and
  /// j.
  template <int W>
  static void gradient(int n, const S* gx, const S* x, S* sums, S* scratch) {
    const BladeTable& blades = blade_table(n);
    const Index size = Index{1} << n;
    S* g = scratch;
    S* v = scratch + size * W;
    Pack<S, W> dot{};
    for (Index m = 0; m < size; ++m) {
      const Index from = blades.index[static_cast<std::size_t>(m)];
      const Pack<S, W> a = load<S, W>(gx + from * W);
      const Pack<S, W> b = load<S, W>(x + from * W);
      dot += a * b;
      store<S, W>(g + m * W, a);
      store<S, W>(v + m * W, b);
    }
    Index out = 0;
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j, ++out) {
        const Index bit_i = Index{1} << i;
        const Index bit_j = Index{1} << j;
        Pack<S, W> sum[2] = {};
        for (Index above = 0; above < size; above += 2 * bit_j) {
          for (Index between = 0; between < bit_j; between += 2 * bit_i) {
            const bool odd = std::popcount(static_cast<std::size_t>(between / (2 * bit_i))) & 1;
            Pack<S, W> positive{};
            Pack<S, W> negative{};
            for (Index below = 0; below < bit_i; ++below) {
              const Index base = above + between + below;
              positive += load<S, W>(g + (base + bit_i) * W) * load<S, W>(v + (base + bit_j) * W);
              negative += load<S, W>(g + (base + bit_j) * W) * load<S, W>(v + (base + bit_i) * W);
            }
            sum[odd] += positive - negative;
          }
        }
        sums[out] += 2 * sum_lanes<S, W>(sum[0] - sum[1]);
      }
    }
    sums[out] += sum_lanes<S, W>(dot);
  }
  static Index gradient_scratch_size(int n) { return Index{2} << n; }

  template <class Wide>
  static void finish_gradient(int n, const S* sums, Wide* left, Wide* right, Wide& dot, PackBuffer<Wide>&) {
    const Index bivectors = Index{n} * (n - 1) / 2;
    for (Index i = 0; i < bivectors; ++i) {
      left[i] = static_cast<Wide>(sums[i]);
      right[i] = Wide(0);
    }
    dot = static_cast<Wide>(sums[bivectors]);
  }

 private:
  template <class T>
  using SmallMatrix = Eigen::Matrix<T, Dynamic, Dynamic, Eigen::ColMajor, max_dimension, max_dimension>;

  /// Where the permutation e_k -> e_to(k) of the vectors takes each blade, and its sign: calls
  /// visit(blade, image, sign).
  template <class Permutation, class Visit>
  static void permute_blades(int n, const Permutation& to, Visit&& visit) {
    for (unsigned m = 0; m < 1u << n; ++m) {
      unsigned image = 0;
      int sign = 1;
      for (unsigned rest = m; rest != 0; rest &= rest - 1) {
        const unsigned next = 1u << to[static_cast<std::size_t>(std::countr_zero(rest))];
        if (std::popcount(image & ~(next - 1)) & 1) sign = -sign;  // it must pass the larger ones before it
        image |= next;
      }
      visit(m, image, sign);
    }
  }

  template <class Wide>
  static void fill(int n, const SmallMatrix<Wide>& rotation, Wide alpha, Operator& op) {
    const BladeTable& blades = blade_table(n);
    const Index size = Index{1} << n;
    const Eigen::FullPivLU<SmallMatrix<Wide>> lu(rotation);  // P rotation Q = L U
    SmallMatrix<Wide> factors = lu.matrixLU();
    Eigen::Matrix<Wide, Dynamic, 1, Eigen::ColMajor, max_dimension, 1> diagonal = factors.diagonal();
    for (Index j = 0; j < n; ++j) factors.col(j).head(j) /= diagonal[j];
    op.shears = factors.template cast<S>();

    std::array<int, max_dimension> in{};   // Q^-1: vector Q(k) -> k
    std::array<int, max_dimension> out{};  // P^-1
    for (int k = 0; k < n; ++k) {
      in[static_cast<std::size_t>(lu.permutationQ().indices()[k])] = k;
      out[static_cast<std::size_t>(lu.permutationP().indices()[k])] = k;
    }
    op.in_source.resize(static_cast<std::size_t>(size));
    op.in_scale.resize(size);
    permute_blades(n, in, [&](unsigned blade, unsigned image, int sign) {
      Wide scale = static_cast<Wide>(sign);
      for (unsigned rest = image; rest != 0; rest &= rest - 1) scale *= diagonal[std::countr_zero(rest)];
      op.in_source[image] = blades.index[blade];
      op.in_scale[image] = static_cast<S>(scale);
    });
    op.out_source.resize(static_cast<std::size_t>(size));
    op.out_scale.resize(size);
    permute_blades(n, out, [&](unsigned blade, unsigned image, int sign) {
      op.out_source[blades.index[image]] = static_cast<std::uint16_t>(blade);
      op.out_scale[blades.index[image]] = static_cast<S>(alpha * static_cast<Wide>(sign));
    });
  }
};

}  // namespace rotorlin::detail
