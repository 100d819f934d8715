// SPDX-License-Identifier: MIT
/// \file
/// The geometric product of a Euclidean algebra as products of small matrices (spinor_basis.hpp). With
/// x = x_0 + x_1 h and y' = h y h^-1 (times h^2 = -1 in its second half where that is so),
///
///     x y = (x_0 y_0 + x_1 y'_1) + (x_0 y_1 + x_1 y'_0) h,
///
/// four products of D x D matrices over R, C or H, where a table of blades takes 4^n multiplications.
#pragma once

#include <bit>
#include <cstdint>

#include "rotorlin/algebra/element.hpp"
#include "rotorlin/algebra/spinor_basis.hpp"
#include "rotorlin/algebra/spinor_transform.hpp"
#include "rotorlin/core/simd.hpp"

namespace rotorlin::detail {

/// The real matrix of z -> X z on the columns of z, transposed: [(unit, row)][(unit, row)], K D x K D, row
/// after row.
template <class S>
void left_multiplication(const SpinorBasis& basis, const S* matrix, S* out) {
  const Index order = basis.order;
  const Index real = basis.real_order();
  for (Index column = 0; column < order; ++column) {
    for (Index from = 0; from < basis.field; ++from) {
      for (Index to = 0; to < basis.field; ++to) {
        const Index unit = to ^ from;
        const auto sign = static_cast<S>(unit_sign(static_cast<unsigned>(unit), static_cast<unsigned>(from)));
        const S* entries = matrix + (column * basis.field + unit) * order;
        S* row = out + (from * order + column) * real + to * order;
        for (Index r = 0; r < order; ++r) row[r] = sign * entries[r];
      }
    }
  }
}

/// A multivector (part `all`) or an even element (`even`) as matrices, 2^n scalars with scratch of as many
/// behind them; the second half of an even element is left out.
template <Part part, class S>
void to_matrices(const SpinorBasis& basis, const S* coefficients, S* matrices) {
  if constexpr (part == Part::all) {
    spinor_enter_single<S>(basis, coefficients, matrices, matrices + basis.size());
  } else {
    spinor_enter<S, 1>(basis, basis.even_source.data(), 1, coefficients, matrices);
  }
}

/// Kept by each thread: products allocate once.
template <class S>
PackBuffer<S>& product_scratch() {
  thread_local PackBuffer<S> memory;
  return memory;
}

/// c = a b in Cl(n), n >= 1, for multivectors and even elements (c even where both are), coefficients in
/// graded order.
template <Part A, Part B, class S>
void matrix_product(int n, const S* a, const S* b, S* c) {
  constexpr Part C = A == Part::even && B == Part::even ? Part::even : Part::all;
  const SpinorBasis& basis = spinor_basis(n);
  const Index size = basis.size();
  const Index half = size / 2;
  const Index real = basis.real_order();
  PackBuffer<S>& memory = product_scratch<S>();
  const Index square = Index{basis.copies} * real * real;
  S* x = memory.reserve(8 * size + 2 * square);
  S* y = x + 2 * size;
  S* y_turned = y + 2 * size;
  S* z = y_turned + 2 * size;
  S* left = z + 2 * size;

  to_matrices<A>(basis, a, x);
  to_matrices<B>(basis, b, y);
  for (Index part = 0; part < (A == Part::all ? 2 : 1); ++part) {
    for (Index copy = 0; copy < basis.copies; ++copy) {
      left_multiplication(basis, x + part * half + copy * basis.block(),
                          left + part * square + copy * real * real);
    }
  }
  if constexpr (A == Part::all) {  // y' out of the coefficients of y: z is free for them
    const Blades blades = blades_of(B, n);
    const unsigned last = 1u << (n - 1);
    const bool square_of_h = n % 4 == 1 || n % 2 == 0;  // +1
    for (Index i = 0; i < blades.size; ++i) {
      const unsigned blade = blades.mask[i];
      const bool odd = (std::popcount(blade) & 1) != 0;
      const bool flip = n % 2 == 0 ? odd != ((blade & last) != 0) : odd && !square_of_h;
      z[i] = flip ? -b[i] : b[i];
    }
    to_matrices<B>(basis, z, y_turned);
  }

  with_row_lanes<S>(real, [&](auto lanes) {
    constexpr int V = decltype(lanes)::value;
    // z_out (+)= x_part y, copy by copy
    const auto add = [&](auto adding, Index part, const S* right, Index out) {
      for (Index copy = 0; copy < basis.copies; ++copy) {
        const Index offset = copy * basis.block();
        multiply_unpacked<S, V, decltype(adding)::value>(right + offset, real, basis.order, real,
                                                         {left + part * square + copy * real * real, real, V},
                                                         real / V, {z + out * half + offset, real, V});
      }
    };
    constexpr std::false_type set;
    constexpr std::true_type more;
    add(set, 0, y, 0);
    if constexpr (C == Part::all && B == Part::all) add(set, 0, y + half, 1);
    if constexpr (A == Part::all && B == Part::all) {
      add(more, 1, y_turned + half, 0);
      add(more, 1, y_turned, 1);
    } else if constexpr (A == Part::all) {
      add(set, 1, y_turned, 1);
    }
  });
  if constexpr (C == Part::all) {
    spinor_leave_single<S>(basis, z, c, x);
  } else {
    spinor_leave<S, 1>(basis, basis.even_source.data(), 1, z, c);
  }
}

/// From this n on the matrices are faster than the terms (measured; docs/performance.md).
inline constexpr int matrix_product_from = 5;

}  // namespace rotorlin::detail
