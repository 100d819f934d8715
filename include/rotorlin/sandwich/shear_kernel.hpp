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

/// e_source -> e_source + a e_target on 2^n coefficients in binary order. The lowest log2(V) bits of a mask
/// run through the lanes of a pack when Memory is true (one sample); otherwise every coefficient is a pack (V
/// samples).
template <class S, int V, bool Memory>
void shear(int n, S* data, int target, int source, S a) {
  using P = Pack<S, V>;
  constexpr int lane_bits = Memory ? std::countr_zero(static_cast<unsigned>(V)) : 0;
  const Index packs = Index{1} << (n - lane_bits);
  const int low = std::min(target, source);
  const int high = std::max(target, source);
  // the sign counts the factors strictly between the two; those within the lanes go into a pack of
  // coefficients
  const auto lane_coefficients = [&](auto&& holds) {
    S lanes[V];
    for (int l = 0; l < V; ++l) {
      const auto lane = static_cast<unsigned>(l);
      const unsigned between = (lane >> (low + 1)) & ((1u << std::min(high - low - 1, 8)) - 1);
      lanes[l] = !holds(lane) ? S(0) : std::popcount(between) & 1 ? -a : a;
    }
    return load<S, V>(lanes);
  };
  const auto bit = [](unsigned mask, int k) { return ((mask >> k) & 1u) != 0; };

  if (high < lane_bits) {
    const P coefficients = lane_coefficients([&](unsigned l) { return bit(l, target) && !bit(l, source); });
    with_constant<V>((1 << target) | (1 << source), [&](auto mask) {
      for (Index m = 0; m < packs; ++m) {
        const P x = load<S, V>(data + m * V);
        store<S, V>(data + m * V, x + coefficients * xor_lanes<S, V, decltype(mask)::value>(x));
      }
    });
    return;
  }
  const Index high_step = Index{1} << (high - lane_bits);
  const Index target_step = target == high ? high_step : 0;
  const Index source_step = source == high ? high_step : 0;
  if (low < lane_bits) {
    const P positive = lane_coefficients(
        [&](unsigned l) { return bit(l, target == low ? target : source) == (target == low); });
    const P negative = -positive;
    with_constant<V>(1 << low, [&](auto mask) {
      for (Index above = 0; above < packs; above += 2 * high_step) {
        for (Index below = 0; below < high_step; ++below) {
          S* to = data + (above + below + target_step) * V;
          const S* from = data + (above + below + source_step) * V;
          const P& coefficients = std::popcount(static_cast<std::size_t>(below)) & 1 ? negative : positive;
          store<S, V>(
              to, load<S, V>(to) + coefficients * xor_lanes<S, V, decltype(mask)::value>(load<S, V>(from)));
        }
      }
    });
    return;
  }
  const Index low_step = Index{1} << (low - lane_bits);
  const Index to_step = target_step + (target == low ? low_step : 0);
  const Index from_step = source_step + (source == low ? low_step : 0);
  for (Index above = 0; above < packs; above += 2 * high_step) {
    for (Index between = 0; between < high_step; between += 2 * low_step) {
      const S coefficient = std::popcount(static_cast<std::size_t>(between / (2 * low_step))) & 1 ? -a : a;
      S* to = data + (above + between + to_step) * V;
      const S* from = data + (above + between + from_step) * V;
      for (Index below = 0; below < low_step; ++below, to += V, from += V) {
        store<S, V>(to, load<S, V>(to) + load<S, V>(from) * coefficient);
      }
    }
  }
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
    if constexpr (W > 1) {
      shear_all<W, false>(n, op, scratch);
    } else if (size >= native_lanes<S>) {
      shear_all<native_lanes<S>, true>(n, op, scratch);
    } else {
      shear_all<1, false>(n, op, scratch);
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
  template <int V, bool Memory>
  static void shear_all(int n, const Operator& op, S* data) {
    for (int j = 1; j < n; ++j) {
      for (int i = 0; i < j; ++i) shear<S, V, Memory>(n, data, i, j, op.shears(i, j));
    }
    for (int j = n - 2; j >= 0; --j) {
      for (int i = j + 1; i < n; ++i) shear<S, V, Memory>(n, data, i, j, op.shears(i, j));
    }
  }

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
        const unsigned next = 1u << to[std::countr_zero(rest)];
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
