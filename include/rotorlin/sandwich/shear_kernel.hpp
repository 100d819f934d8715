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

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/sandwich/detail/shear_columns.hpp"
#include "rotorlin/sandwich/sandwich_kernel.hpp"

namespace rotorlin::detail {

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

  static constexpr std::string_view name = "shears";
  static constexpr bool single_rotor_only = true;
  static constexpr bool transforms = false;
  static constexpr bool fastest(int, bool, Index) { return true; }
  static double work(int n) { return std::ldexp(n * n / 2.0, n); }
  static Index scratch_size(int n) { return Index{1} << n; }
  static Index singles_per_tile(int n) { return n <= 6 ? 1 : n <= 8 ? 3 : 8; }

  template <class Wide>
  static void prepare(const RotorPair<Wide>& pair, Wide alpha, bool with_adjoint, Weights& weights,
                      PackBuffer<Wide>&) {
    fill<Wide>(pair, false, alpha, weights.forward);
    if (with_adjoint) fill<Wide>(pair, true, Wide(1), weights.adjoint);
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
  static Index singles_of_gradient(int) { return 0; }

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
  using Order = std::array<int, max_dimension>;

  /// A square matrix of at most max_dimension rows, and its factors P A Q = L U.
  template <class T>
  struct Factors {
    T lu[max_dimension][max_dimension];  ///< [row][column]: L below the diagonal, U on it and above
    Order rows, columns;                 ///< row k of P A is row rows[k] of A, columns likewise

    /// Gauss with pivots from the whole rest (Golub and Van Loan 2013, 3.4.8).
    void factor(int n) {
      for (int k = 0; k < n; ++k) rows[at(k)] = columns[at(k)] = k;
      for (int k = 0; k < n; ++k) {
        int row = k, column = k;
        for (int j = k; j < n; ++j) {
          for (int i = k; i < n; ++i) {
            if (std::abs(lu[i][j]) > std::abs(lu[row][column])) row = i, column = j;
          }
        }
        std::swap(rows[at(k)], rows[at(row)]);
        std::swap(columns[at(k)], columns[at(column)]);
        for (int j = 0; j < n; ++j) std::swap(lu[k][j], lu[row][j]);
        for (int i = 0; i < n; ++i) std::swap(lu[i][k], lu[i][column]);
        for (int i = k + 1; i < n; ++i) {
          lu[i][k] /= lu[k][k];
          for (int j = k + 1; j < n; ++j) lu[i][j] -= lu[i][k] * lu[k][j];
        }
      }
    }
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Where the permutation e_k -> e_to(k) of the vectors takes each blade, and its sign: calls
  /// visit(blade, image, sign).
  template <class Visit>
  static void permute_blades(int n, const Order& to, const Visit& visit) {
    for (unsigned m = 0; m < 1u << n; ++m) {
      unsigned image = 0;
      int sign = 1;
      for (unsigned rest = m; rest != 0; rest &= rest - 1) {
        const unsigned next = 1u << to[at(std::countr_zero(rest))];
        if (std::popcount(image & ~(next - 1)) & 1) sign = -sign;  // it must pass the larger ones before it
        image |= next;
      }
      visit(m, image, sign);
    }
  }

  template <class Wide>
  static void fill(const RotorPair<Wide>& pair, bool transposed, Wide alpha, Operator& op) {
    const int n = pair.n;
    const BladeTable& blades = blade_table(n);
    const Index size = Index{1} << n;
    Factors<Wide> f;
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < n; ++i) f.lu[i][j] = pair.rotation[transposed ? i * n + j : j * n + i];
    }
    f.factor(n);
    op.shears.resize(n, n);
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < n; ++i)
        op.shears(i, j) = static_cast<S>(i < j ? f.lu[i][j] / f.lu[j][j] : f.lu[i][j]);
    }

    Order in{}, out{};  // Q^-1: vector columns[k] -> k; P^-1: vector k -> rows[k]
    for (int k = 0; k < n; ++k) {
      in[at(f.columns[at(k)])] = k;
      out[at(k)] = f.rows[at(k)];
    }
    op.in_source.resize(static_cast<std::size_t>(size));
    op.in_scale.resize(size);
    permute_blades(n, in, [&](unsigned blade, unsigned image, int sign) {
      Wide scale = static_cast<Wide>(sign);
      for (unsigned rest = image; rest != 0; rest &= rest - 1) {
        const int k = std::countr_zero(rest);
        scale *= f.lu[k][k];
      }
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

static_assert(SandwichKernel<ShearKernel<float>, float>);

}  // namespace rotorlin::detail
