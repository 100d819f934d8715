// SPDX-License-Identifier: MIT
/// \file
/// Elementary shears of the vectors, applied to multivectors.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"

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
  static void load_block(const S* from, P (&values)[to_size(block)]) {
    ROTORLIN_UNROLL
    for (int l = 0; l < block; ++l) values[l] = load<S, V>(from + l * V);
  }
  static void store_block(S* to, const P (&values)[to_size(block)]) {
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
    S lanes[to_size(V)];
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
  static P lane_sum(const P (&coefficients)[to_size(LaneBits + 1)], const P& source) {
    P sum{};
    unroll<LaneBits>([&](auto i) ROTORLIN_INLINE_LAMBDA {
      sum += coefficients[i] * xor_lanes<S, V, 1 << decltype(i)::value>(source);
    });
    return sum;
  }

  void upper_lanes() {
    if constexpr (LaneBits > 1) {
      P coefficients[to_size(LaneBits)][to_size(LaneBits)];
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
    P lanes[to_size(LaneBits + 1)];
    for (int i = 0; i < LaneBits; ++i) lanes[i] = lane_coefficients(i, j);
    for (unsigned h = 0; h < blocks_; ++h) {
      if (h & bit) continue;
      const unsigned below = h & (bit - 1);
      P sum[to_size(block)];
      P source[to_size(block)];
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
    P lanes[to_size(LaneBits + 1)];
    for (int i = 0; i < LaneBits; ++i) lanes[i] = lane_coefficients(i, j);
    for (unsigned h = 0; h < blocks_; ++h) {
      P x[to_size(block)];
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
      P sum[to_size(block)];
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
      P x[to_size(block)];
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
    P within[to_size(LaneBits + 1)];
    for (int i = J + 1; i < LaneBits; ++i) within[i] = lane_coefficients(i, J);
    for (unsigned h = 0; h < blocks_; ++h) {
      P x[to_size(block)];
      P sum[to_size(block)] = {};
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

}  // namespace rotorlin::detail
