// SPDX-License-Identifier: MIT
/// \file
/// The sandwich x -> alpha r x s~ of one rotor pair as two small matrix products, Y = R X S^H, in the matrix
/// form of the even subalgebra (spinor_basis.hpp), forward and backward.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>

#include "rotorlin/algebra/spinor_basis.hpp"
#include "rotorlin/algebra/spinor_transform.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/sandwich/detail/outer_products.hpp"
#include "rotorlin/sandwich/sandwich_kernel.hpp"

namespace rotorlin::detail {

/// The spinor kernel: `W` samples side by side, or one sample by itself (W = 1), vectorised along its
/// matrices.
template <class S>
struct SpinorKernel {
  /// One rotor pair, ready for use; `adjoint` maps a gradient back: g -> r~ g s, without alpha.
  struct Operator {
    VectorX<S> left;    ///< [copy] panels of the (K D) x (K D) matrix that acts on rows
    VectorX<S> left_t;  ///< [copy] its transpose, unpacked, for a single sample
    VectorX<S> right;   ///< [half, one where both are equal][copy] panels of the matrix that acts on columns
  };
  struct Weights {
    Operator forward;
    Operator adjoint;
  };

  static constexpr std::string_view name = "spinor";
  static constexpr bool single_rotor_only = false;
  static constexpr bool transforms = true;
  static constexpr bool fastest(int n, bool single_rotor, Index width) {
    return !single_rotor || (n >= 8 && n <= 10) || (n == 7 && width > 1);
  }
  static double work(int n) { return std::ldexp(2.0, n + n / 2); }
  static Index scratch_size(int n) { return Index{1} << n; }
  /// How many samples one by one take as long as a whole tile of native width (measured).
  static Index singles_per_tile(int n) { return n <= 6 ? 3 : n <= 8 ? 7 : 11; }

  /// Weights of alpha r x s~, with the adjoint where gradients will be asked for.
  template <class Wide>
  static void prepare(const RotorPair<Wide>& pair, Wide alpha, bool with_adjoint, Weights& weights,
                      PackBuffer<Wide>& memory) {
    const SpinorBasis& basis = spinor_basis(pair.n);
    const Index half_size = basis.size() / 2;
    const int right_halves = pair.n % 2 == 1 ? 1 : 2;
    Wide* r = memory.reserve(4 * half_size);
    Wide* s = r + half_size;
    spinor_enter_once(basis, basis.even_source.data(), 1, pair.left_even, r);
    spinor_enter_once(basis, basis.even_source.data(), 1, pair.right_even, s);
    if (right_halves == 2) {  // h s h^-1 turns the sign of the blades that hold e_n
      const BladeTable& blades = blade_table(pair.n);
      Wide* turned = s + 2 * half_size;
      for (Index i = 0; i < half_size; ++i) {
        const bool last = (blades.even[static_cast<std::size_t>(i)] >> (pair.n - 1)) & 1;
        turned[i] = last ? -pair.right_even[i] : pair.right_even[i];
      }
      spinor_enter_once(basis, basis.even_source.data(), 1, turned, s + half_size);
    }
    fill(basis, r, s, right_halves, alpha, false, weights.forward);
    if (with_adjoint) fill(basis, r, s, right_halves, Wide(1), true, weights.adjoint);
  }

  /// Coefficients (graded order) to matrices; returns where they are.
  template <int W>
  static const S* enter(int n, const S* coefficients, S* matrices, S* scratch) {
    const SpinorBasis& basis = spinor_basis(n);
    if constexpr (W == 1) {
      spinor_enter_single<S>(basis, coefficients, matrices, scratch);
    } else {
      spinor_enter<S, W>(basis, basis.source.data(), 2, coefficients, matrices);
    }
    return matrices;
  }

  /// Matrices to coefficients; returns where they are.
  template <int W>
  static const S* leave(int n, const S* matrices, S* coefficients, S* scratch) {
    const SpinorBasis& basis = spinor_basis(n);
    if constexpr (W == 1) {
      spinor_leave_single<S>(basis, matrices, coefficients, scratch);
    } else {
      spinor_leave<S, W>(basis, basis.source.data(), 2, matrices, coefficients);
    }
    return coefficients;
  }

  /// Y = R X S^H or, with Add, Y += R X S^H. `scratch` holds R X.
  template <int W, bool Add>
  static void apply(int n, const Operator& op, const S* x, S* y, S* scratch) {
    const SpinorBasis& basis = spinor_basis(n);
    const Index order = basis.order;
    const Index real = basis.real_order();
    const Index block = basis.block();
    const Index half_size = basis.size() / 2;
    const bool shared = n % 2 == 1;
    if constexpr (W > 1) {
      for (Index half = 0; half < 2; ++half) {
        for (Index copy = 0; copy < basis.copies; ++copy) {
          const Index offset = half * half_size + copy * block;
          const S* right = op.right.data() + ((shared ? 0 : half * basis.copies) + copy) * real * real;
          multiply<S, W>(op.left.data() + copy * real * real, real, real, {x + offset * W, W, real * W},
                         order, {scratch, W, real * W});
          multiply<S, W, Add>(right, real, real, {scratch, order * W, W}, order,
                              {y + offset * W, order * W, W});
        }
      }
    } else {
      with_row_lanes<S>(order, [&](auto lanes) {
        constexpr int V = decltype(lanes)::value;
        for (Index part = 0; part < 2 * basis.copies; ++part) {
          const Index copy = part % basis.copies;
          multiply_unpacked<S, V>(x + part * block, real, order, real,
                                  {op.left_t.data() + copy * real * real, real, V}, real / V,
                                  {scratch + part * block, real, V});
        }
        for (Index copy = 0; copy < basis.copies; ++copy) {
          const S* right = op.right.data() + copy * real * real;
          const Index offset = copy * block;
          if (shared && order == V) {  // both halves at once
            multiply<S, V, Add>(right, real, real, {scratch + offset, order, half_size}, 2,
                                {y + offset, order, half_size});
            continue;
          }
          for (Index half = 0; half < 2; ++half) {
            const Index at = offset + half * half_size;
            const S* own = right + (shared ? 0 : half * basis.copies) * real * real;
            multiply<S, V, Add>(own, real, real, {scratch + at, order, V}, order / V, {y + at, order, V});
          }
        }
      });
    }
  }

  /// Scalars that `gradient` accumulates: the matrices of <gx x~> and, for each half, of <gx~ x>.
  static Index gradient_size(int n) { return 3 * (Index{1} << (n - 1)); }
  static Index gradient_scratch_size(int n) { return Index{1} << n; }
  static Index singles_of_gradient(int n) { return n <= 6 ? 2 : 4; }

  /// Adds sum over the W samples of GX X^H (of both halves) and GX^H X (half by half) to `sums`.
  template <int W>
  static void gradient(int n, const S* gx, const S* x, S* sums, [[maybe_unused]] S* scratch) {
    const SpinorBasis& basis = spinor_basis(n);
    const Index real = basis.real_order();
    const Index half_size = basis.size() / 2;
    for (Index part = 0; part < 2 * basis.copies; ++part) {
      const Index offset = part * basis.block();
      const S* g = gx + offset * W;
      const S* v = x + offset * W;
      S* left = sums + (part % basis.copies) * basis.block();
      S* right = sums + half_size + offset;
      if constexpr (W == 1) {
        gradient_of_sample(basis, g, v, left, right, scratch);
      } else {
        outer_product<S, W, false>(basis, {g, W, real * W}, {v, W, real * W}, left, 1, real);
        outer_product<S, W, true>(basis, {g, real * W, W}, {v, real * W, W}, right, 1, real);
      }
    }
  }

  /// The bivector parts <gx x~>_2 and <gx~ x>_2 (n(n-1)/2 each) and the scalar <gx, x> out of the sums.
  template <class Wide>
  static void finish_gradient(int n, const S* sums, Wide* left, Wide* right, Wide& dot,
                              PackBuffer<Wide>& memory) {
    const SpinorBasis& basis = spinor_basis(n);
    const BladeTable& blades = blade_table(n);
    const Index size = basis.size();
    const Index bivectors = Index{n} * (n - 1) / 2;
    Wide* matrices = memory.reserve(size / 2 + size);
    Wide* coefficients = matrices + size / 2;
    const auto transform = [&](const S* even) {
      for (Index i = 0; i < size / 2; ++i) matrices[i] = static_cast<Wide>(even[i]);
      spinor_leave_once(basis, basis.source.data(), 1, matrices, coefficients);
    };
    transform(sums);
    dot = coefficients[0];
    std::copy(coefficients + n + 1, coefficients + n + 1 + bivectors, left);
    std::fill(right, right + bivectors, Wide(0));
    for (int half = 0; half < 2; ++half) {
      transform(sums + (half + 1) * (size / 2));
      for (Index i = 0; i < bivectors; ++i) {  // h^-1 (.) h turns the sign of the blades that hold e_n
        const Index blade = n + 1 + i;
        const bool last = (blades.mask[static_cast<std::size_t>(blade)] >> (n - 1)) & 1;
        right[i] += half == 1 && n % 2 == 0 && last ? -coefficients[blade] : coefficients[blade];
      }
    }
  }

 private:
  static void gradient_of_sample(const SpinorBasis& basis, const S* g, const S* v, S* left, S* right,
                                 S* scratch) {
    const Index order = basis.order, field = basis.field, real = basis.real_order();
    for (Index column = 0; column < order; ++column) {  // GX with its rows and columns exchanged
      for (Index unit = 0; unit < field; ++unit) {
        const S* from = g + (column * field + unit) * order;
        for (Index row = 0; row < order; ++row) scratch[(row * field + unit) * order + column] = from[row];
      }
    }
    with_row_lanes<S>(order, [&](auto lanes) {
      constexpr int V = decltype(lanes)::value;
      const auto both = [&](auto units) {
        constexpr int K = decltype(units)::value;
        outer_of_sample<S, V, K, false>(order, g, real, {v, 1, real}, left, real);
        outer_of_sample<S, V, K, true>(order, scratch, real, {v, real, 1}, right, real);
      };
      if (field == 1) return both(std::integral_constant<int, 1>{});
      if (field == 2) return both(std::integral_constant<int, 2>{});
      both(std::integral_constant<int, 4>{});
    });
  }

  template <class Wide>
  static void fill(const SpinorBasis& basis, const Wide* r, const Wide* s, int right_halves, Wide alpha,
                   bool adjoint, Operator& op) {
    const Index order = basis.order;
    const Index field = basis.field;
    const Index real = basis.real_order();
    const Index block = basis.block();
    const Index entries = real * real;
    op.left.resize(basis.copies * entries);
    op.left_t.resize(basis.copies * entries);
    op.right.resize(right_halves * basis.copies * entries);
    S* const plain = op.left_t.data();  // one matrix, column by column
    const auto pack = [&](S* panels) {
      const Index row_step = adjoint ? real : 1, column_step = adjoint ? 1 : real;
      pack_panels(
          real, real, [&](Index row, Index column) { return plain[row * row_step + column * column_step]; },
          panels);
    };
    // Entry (row, column), unit u of a matrix of the basis lies at ((column field) + u) order + row.
    for (Index part = 0; part < right_halves * basis.copies; ++part) {
      // (Z S^H)(r', j)_c' = sum of Z(r', i)_c conj(S(j, i))_u over c xor u = c'
      for (Index i = 0; i < order; ++i) {
        for (Index c = 0; c < field; ++c) {
          for (Index u = 0; u < field; ++u) {
            const int sign =
                unit_sign(static_cast<unsigned>(c), static_cast<unsigned>(u)) * (u == 0 ? 1 : -1);
            const Wide* from = s + part * block + (i * field + u) * order;
            S* to = plain + (i * field + c) * real + (c ^ u);
            for (Index j = 0; j < order; ++j)
              to[j * field] = static_cast<S>(static_cast<Wide>(sign) * from[j]);
          }
        }
      }
      pack(op.right.data() + part * entries);
    }
    for (Index copy = basis.copies - 1; copy >= 0; --copy) {  // the first one last: it stays where it is made
      // (R X)(r', i)_c' = sum of unit_sign(u, c) R(r', r)_u X(r, i)_c over u xor c = c'
      for (Index c = 0; c < field; ++c) {
        for (Index row = 0; row < order; ++row) {
          for (Index u = 0; u < field; ++u) {
            const Wide factor =
                alpha * static_cast<Wide>(unit_sign(static_cast<unsigned>(u), static_cast<unsigned>(c)));
            const Wide* from = r + copy * block + (row * field + u) * order;
            S* to = plain + (c * order + row) * real + (c ^ u) * order;
            for (Index k = 0; k < order; ++k) to[k] = static_cast<S>(factor * from[k]);
          }
        }
      }
      pack(op.left.data() + copy * entries);
      if (adjoint) {
        for (Index j = 0; j < real; ++j) {
          for (Index i = 0; i < j; ++i) std::swap(plain[i * real + j], plain[j * real + i]);
        }
      }
      if (copy > 0) std::copy(plain, plain + entries, plain + copy * entries);
    }
  }
};

static_assert(SandwichKernel<SpinorKernel<float>, float>);

}  // namespace rotorlin::detail
