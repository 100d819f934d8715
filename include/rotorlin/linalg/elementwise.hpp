// SPDX-License-Identifier: MIT
/// \file
/// What is done to the entries of matrices, rows and columns: as functions, because every expression of
/// Eigen's is compiled anew.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/vectors.hpp"

namespace rotorlin::linalg {

/// A^T, of any shape.
template <std::floating_point T>
Matrix<T> transposed(const ConstMatrixRef<T>& a) {
  constexpr Index width = 16;  // blocks of both stay in the cache
  Matrix<T> b(a.cols(), a.rows());
  for (Index first = 0; first < a.cols(); first += width) {
    for (Index top = 0; top < a.rows(); top += width) {
      const Index end = std::min(first + width, a.cols()), bottom = std::min(top + width, a.rows());
      for (Index j = first; j < end; ++j) {
        for (Index i = top; i < bottom; ++i) b(j, i) = a(i, j);
      }
    }
  }
  return b;
}

/// A <- diag(factors) A.
template <std::floating_point T>
void scale_rows(const VectorX<T>& factors, MatrixRef<T> a) {
  for (Index j = 0; j < a.cols(); ++j) {
    for (Index i = 0; i < a.rows(); ++i) a(i, j) *= factors[i];
  }
}
/// A <- A diag(factors).
template <std::floating_point T>
void scale_columns(const VectorX<T>& factors, MatrixRef<T> a) {
  for (Index j = 0; j < a.cols(); ++j) {
    for (Index i = 0; i < a.rows(); ++i) a(i, j) *= factors[j];
  }
}

/// The sum of a_ij b_ij.
template <std::floating_point T>
T inner(const ConstMatrixRef<T>& a, const ConstMatrixRef<T>& b) {
  T sum = 0;
  for (Index j = 0; j < a.cols(); ++j) {
    sum += dot<T>(a.rows(), a.data() + j * a.outerStride(), b.data() + j * b.outerStride());
  }
  return sum;
}
template <std::floating_point T>
T squared_norm(const ConstMatrixRef<T>& a) {
  return inner<T>(a, a);
}
/// |a_j|^2 of every column.
template <std::floating_point T>
VectorX<T> column_energies(const ConstMatrixRef<T>& a) {
  VectorX<T> energies(a.cols());
  for (Index j = 0; j < a.cols(); ++j) {
    const T* const column = a.data() + j * a.outerStride();
    energies[j] = dot<T>(a.rows(), column, column);
  }
  return energies;
}
/// The largest |a_ij|, 0 of an empty matrix.
template <std::floating_point T>
T largest_magnitude(const ConstMatrixRef<T>& a) {
  T largest = 0;
  for (Index j = 0; j < a.cols(); ++j) {
    for (Index i = 0; i < a.rows(); ++i) largest = std::max(largest, std::abs(a(i, j)));
  }
  return largest;
}

/// The largest |a_ij - a_ji|.
template <std::floating_point T>
T asymmetry(const ConstMatrixRef<T>& a) {
  T largest = 0;
  for (Index j = 0; j < a.cols(); ++j) {
    for (Index i = j + 1; i < a.rows(); ++i) largest = std::max(largest, std::abs(a(i, j) - a(j, i)));
  }
  return largest;
}

/// sqrt(max(v, 0)) and 1 / v, 0 where v is not positive.
template <std::floating_point T>
VectorX<T> positive_roots(const VectorX<T>& v) {
  VectorX<T> roots(v.size());
  for (Index i = 0; i < v.size(); ++i) roots[i] = v[i] > 0 ? std::sqrt(v[i]) : T(0);
  return roots;
}
template <std::floating_point T>
VectorX<T> positive_inverses(const VectorX<T>& v) {
  VectorX<T> inverses(v.size());
  for (Index i = 0; i < v.size(); ++i) inverses[i] = v[i] > 0 ? 1 / v[i] : T(0);
  return inverses;
}
template <std::floating_point T>
VectorX<T> diagonal_of(const ConstMatrixRef<T>& a) {
  VectorX<T> diagonal(std::min(a.rows(), a.cols()));
  for (Index i = 0; i < diagonal.size(); ++i) diagonal[i] = a(i, i);
  return diagonal;
}

}  // namespace rotorlin::linalg
