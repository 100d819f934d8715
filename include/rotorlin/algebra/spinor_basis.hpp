// SPDX-License-Identifier: MIT
/// \file
/// The even subalgebra of Cl(n) as an algebra of small matrices.
///
/// Rotors are even, and the even subalgebra of Cl(n) is isomorphic to Cl(0, n-1): D x D matrices over K in
/// {R, C, H}, for n = 4, 8, 12 two independent copies of them. With h the pseudoscalar (n odd) or e_n (n
/// even), every multivector is x = x_0 + x_1 h with even halves x_0, x_1, and
///
///     r x s~ = (r x_0 s~) + (r x_1 (h s h^-1)~) h :
///
/// two sandwiches of even elements, Y = R X S^H in matrices, instead of one matrix of 2^n x 2^n. For n odd h
/// commutes with everything and both halves meet the same R and S; for n even h s h^-1 turns the sign of
/// every generator f_i = e_i e_n.
///
/// Each blade of the even subalgebra is +-X^a Z^b u with X^a Z^b |i> = (-1)^(b.i) |i xor a> and u one of the
/// units 1, i, j, k. So coefficients become a matrix by a signed permutation, a Walsh-Hadamard transform over
/// b and M(i xor a, i) = sum_b (-1)^(b.i) T(a, b); reversion becomes the conjugate transpose, and the inverse
/// is the same transform divided by its length.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// Matrix form of the even subalgebra of Cl(n) and the way from coefficients to matrices and back.
///
/// Matrices lie as [half][copy][column i][unit u][row r], 2^n scalars in all. Before the Walsh-Hadamard
/// transform the coefficients lie as [half][u][a][t], t = copy * D + b running fastest.
struct SpinorBasis {
  int n = 0;
  int field = 1;   ///< real dimension of K: 1 real, 2 complex, 4 quaternion
  int order = 1;   ///< D, the order of the matrices
  int copies = 1;  ///< independent copies (n = 4, 8, 12: two)

  Index size() const { return Index{1} << n; }
  /// Length of the transform: copies * D.
  Index length() const { return Index{copies} * order; }
  /// Scalars in the matrix of one half and one copy, D * D * K.
  Index block() const { return Index{order} * order * field; }
  /// The real order of the matrices that act on columns or rows: K * D.
  Index real_order() const { return Index{order} * field; }

  std::vector<std::uint16_t> source;       ///< 2^n: position before the transform -> blade in graded order
  std::vector<float> sign;                 ///< 2^n: and its sign
  std::vector<std::uint16_t> even_source;  ///< 2^(n-1): the same of half 0 -> index among the even blades

  // One sample by itself is transformed along memory: there the coefficients lie as [half][u][t][a].
  std::vector<std::uint16_t> row_source;    ///< 2^n: position -> blade in graded order
  std::vector<float> row_sign;              ///< 2^n: and its sign
  std::vector<std::uint16_t> row_position;  ///< 2^n: blade in graded order -> position
};

namespace detail {

/// sign * X^a Z^b times the unit (0: 1, 1: i, 2: j, 3: k).
struct SpinorGenerator {
  int sign;
  unsigned a;
  unsigned b;
  unsigned unit;
};

/// Sign of the product of two quaternion units; the unit of the product is u xor v.
constexpr int unit_sign(unsigned u, unsigned v) {
  constexpr int table[4][4] = {{1, 1, 1, 1}, {1, -1, 1, -1}, {1, -1, -1, 1}, {1, 1, -1, -1}};
  return table[u][v];
}

constexpr SpinorGenerator operator*(const SpinorGenerator& x, const SpinorGenerator& y) {
  const int crossing = std::popcount(x.b & y.a) & 1 ? -1 : 1;
  return {x.sign * y.sign * crossing * unit_sign(x.unit, y.unit), x.a ^ y.a, x.b ^ y.b, x.unit ^ y.unit};
}

/// Generators f_1 .. f_(n-1) of Cl(0, n-1), n <= 9, and the order of their matrices.
struct SpinorPeriod {
  int field;
  int order;
  int copies;
  std::vector<SpinorGenerator> generators;
};

inline SpinorPeriod spinor_period(int n) {
  const std::vector<SpinorGenerator> seven = {{1, 1, 1, 0}, {1, 2, 3, 0}, {1, 3, 6, 0}, {1, 4, 7, 0},
                                              {1, 5, 4, 0}, {1, 6, 5, 0}, {-1, 7, 2, 0}};
  switch (n) {
    case 1:
      return {1, 1, 1, {}};
    case 2:
      return {2, 1, 1, {{1, 0, 0, 1}}};
    case 3:
      return {4, 1, 1, {{1, 0, 0, 1}, {1, 0, 0, 2}}};
    case 4:
      return {4, 1, 2, {{1, 0, 0, 1}, {1, 0, 0, 2}, {1, 0, 0, 3}}};
    case 5:
      return {4, 2, 1, {{1, 1, 1, 0}, {1, 0, 1, 1}, {1, 0, 1, 2}, {1, 0, 1, 3}}};
    case 6:
      return {2, 4, 1, {{1, 1, 1, 0}, {1, 2, 3, 0}, {1, 0, 3, 1}, {1, 1, 0, 1}, {1, 2, 1, 1}}};
    case 7:
      return {1, 8, 1, {seven.begin(), seven.begin() + 6}};
    case 8:
      return {1, 8, 2, seven};
    default: {  // 9
      std::vector<SpinorGenerator> f(seven.begin(), seven.begin() + 6);
      f.push_back({1, 7, 10, 0});
      f.push_back({1, 15, 2, 0});
      return {1, 16, 1, f};
    }
  }
}

/// From n = 10 on: Cl(0, k + 8) = Cl(0, 8) (x) Cl(0, k), the eight generators of Cl(0, 8) times 1, then their
/// product times the generators of Cl(0, k).
inline SpinorPeriod spinor_generators(int n) {
  if (n <= 9) return spinor_period(n);
  const SpinorPeriod eight = spinor_period(9);
  const SpinorPeriod rest = spinor_period(n - 8);
  SpinorGenerator volume{1, 0, 0, 0};
  for (const SpinorGenerator& f : eight.generators) volume = volume * f;
  SpinorPeriod result{rest.field, 16 * rest.order, rest.copies, eight.generators};
  for (const SpinorGenerator& f : rest.generators) {
    result.generators.push_back(volume * SpinorGenerator{f.sign, f.a << 4, f.b << 4, f.unit});
  }
  return result;
}

inline std::unique_ptr<const SpinorBasis> make_spinor_basis(int n) {
  const SpinorPeriod period = spinor_generators(n);
  const BladeTable& blades = blade_table(n);
  auto basis = std::make_unique<SpinorBasis>();
  basis->n = n;
  basis->field = period.field;
  basis->order = period.order;
  basis->copies = period.copies;
  const auto size = static_cast<std::size_t>(basis->size());
  basis->source.resize(size);
  basis->sign.resize(size);
  basis->even_source.resize(size / 2);
  basis->row_source.resize(size);
  basis->row_sign.resize(size);
  basis->row_position.resize(size);

  const unsigned last = n > 1 ? 1u << (n - 1) : 0u;  // e_n
  const unsigned full = (1u << n) - 1;
  const unsigned h = n % 2 == 1 ? full : last;
  for (unsigned mask = 0; mask < size; ++mask) {
    const bool odd = std::popcount(mask) % 2 == 1;
    // mask = +-(even blade) h; the even blade is a product of the f_i over its factors below e_n.
    const unsigned even = odd ? mask ^ h : mask;
    int sign = odd ? reorder_sign(even, h) : 1;
    const unsigned factors = even & ~last;
    if (std::popcount(factors) % 4 >= 2) sign = -sign;  // f_i f_j = -e_i e_j
    SpinorGenerator product{sign, 0, 0, 0};
    for (int i = 0; i < n - 1; ++i) {
      if ((factors >> i) & 1u) product = product * period.generators[static_cast<std::size_t>(i)];
    }
    const auto order = static_cast<std::size_t>(basis->order);
    const auto length = static_cast<std::size_t>(basis->length());
    const std::size_t t = (basis->copies == 2 && ((factors >> (n - 2)) & 1u) ? order : 0) + product.b;
    const std::size_t half = odd ? size / 2 : 0;
    const std::size_t position = half + (product.unit * order + product.a) * length + t;
    const std::size_t row_position = half + (product.unit * length + t) * order + product.a;
    const std::uint16_t blade = blades.index[mask];
    basis->source[position] = basis->row_source[row_position] = blade;
    basis->sign[position] = basis->row_sign[row_position] = static_cast<float>(product.sign);
    basis->row_position[blade] = static_cast<std::uint16_t>(row_position);
    if (!odd) basis->even_source[position] = blades.even_index[mask];
  }
  return basis;
}

}  // namespace detail

/// The matrix form for n basis vectors, built once a process (thread-safe).
/// \throws std::invalid_argument unless 1 <= n <= max_dimension.
inline const SpinorBasis& spinor_basis(int n) {
  if (n < 1 || n > max_dimension) {
    detail::throw_invalid("spinor_basis: n = ", n, ", expected 1 <= n <= ", max_dimension);
  }
  return detail::once_per_dimension<SpinorBasis, detail::make_spinor_basis>(n);
}

}  // namespace rotorlin
