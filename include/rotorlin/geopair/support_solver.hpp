// SPDX-License-Identifier: MIT
/// \file
/// What sparse coding needs of small normal equations: atoms scaled to length 1, the largest eigenvalue of
/// their Gram matrix, and least squares on all atoms or on the supports of columns.
#pragma once

#include <cmath>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/least_squares.hpp"

namespace rotorlin::detail {

/// An estimate of the largest eigenvalue of a positive semidefinite matrix by the power method, from below.
template <class = void>
double largest_eigenvalue(const Matrix<double>& k) {
  const VectorX<double> energies = linalg::column_energies<double>(k);
  VectorX<double> v(k.cols()), image(k.cols());
  for (Index i = 0; i < v.size(); ++i)
    v[i] = std::sqrt(energies[i]) * (1 + 0.3 * std::cos(static_cast<double>(i + 1)));  // in no symmetry
  double length = std::sqrt(linalg::squared_norm<double>(v));
  if (!(length > 0)) return 0;
  double value = 0;
  for (int step = 0; step < 60; ++step) {
    v /= length;
    linalg::gemm<double>(1, k, linalg::Op::plain, v, linalg::Op::plain, 0, image);
    const double next = linalg::inner<double>(v, image);
    if (next <= value * (1 + 1e-9)) break;
    value = next;
    v.swap(image);
    length = std::sqrt(linalg::squared_norm<double>(v));
  }
  return value;
}

/// K becomes diag(s) K diag(s) with a diagonal of ones (zeros, where an atom is zero); returns s.
template <class = void>
VectorX<double> normalize_gram(Matrix<double>& k) {
  const VectorX<double> inverse =
      linalg::positive_inverses<double>(linalg::positive_roots<double>(linalg::diagonal_of<double>(k)));
  linalg::scale_rows<double>(inverse, k);
  linalg::scale_columns<double>(inverse, k);
  return inverse;
}

/// Below this curvature c^T K c / |c|^2 atoms of length 1 count as dependent: their coefficients would be so
/// large that the error is lost in rounding.
inline constexpr double dependent_curvature = 1e-8;

/// argmin c^T K c - 2 b^T c for every column b, of minimum norm where atoms (of length 1) are dependent.
template <class = void>
Matrix<double> solve_normal_equations(const Matrix<double>& k, const Matrix<double>& b) {
  Matrix<double> factor = k;
  if (linalg::cholesky_upper<double>(factor) &&
      linalg::diagonal_of<double>(factor).minCoeff() > std::sqrt(dependent_curvature)) {
    Matrix<double> c = b;
    linalg::solve_upper<double>(factor, linalg::Op::transposed, c);
    linalg::solve_upper<double>(factor, linalg::Op::plain, c);
    return c;
  }
  return linalg::CompleteOrthogonal<double>(k, dependent_curvature).solve(b);
}

/// The same for every column under its mask, by a factorisation a column.
template <class = void>
Matrix<double> solve_on_supports(const Matrix<double>& k, const Matrix<double>& b,
                                 const Matrix<double>& mask) {
  Matrix<double> c = Matrix<double>::Zero(b.rows(), b.cols()), gram, right;
  std::vector<Index> support;
  for (Index j = 0; j < b.cols(); ++j) {
    support.clear();
    for (Index i = 0; i < b.rows(); ++i) {
      if (mask(i, j) != 0) support.push_back(i);
    }
    const Index count = static_cast<Index>(support.size());
    if (count == 0) continue;
    gram.resize(count, count);
    right.resize(count, 1);
    for (Index a = 0; a < count; ++a) {
      const double* const column = k.data() + support[static_cast<std::size_t>(a)] * k.rows();
      for (Index i = 0; i < count; ++i) gram(i, a) = column[support[static_cast<std::size_t>(i)]];
      right(a, 0) = b(support[static_cast<std::size_t>(a)], j);
    }
    const Matrix<double> solved = solve_normal_equations(gram, right);
    for (Index a = 0; a < count; ++a) c(support[static_cast<std::size_t>(a)], j) = solved(a, 0);
  }
  return c;
}

}  // namespace rotorlin::detail
