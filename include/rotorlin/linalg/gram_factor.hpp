// SPDX-License-Identifier: MIT
/// \file
/// A factor of a Gram matrix: F with G = F F^T, also where G is singular.
///
/// With inputs x of second moment G = E[x x^T], the mean squared difference of two linear maps is
/// E|W x - M x|^2 = tr((W - M) G (W - M)^T) = |(W - M) F|_F^2: the columns of F stand for all samples.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/symmetric_eigen.hpp"

namespace rotorlin {

/// F (in x rank) with F F^T = gram, from the eigendecomposition; the columns are orthogonal, longest first.
/// Eigenvalues below in * epsilon of the largest count as zero; epsilon is the relative error of gram's
/// entries.
///
/// `who` begins the message of the exceptions: std::domain_error when gram is not finite,
/// std::invalid_argument when it is not square, not symmetric or not positive semidefinite (beyond rounding,
/// sqrt(epsilon) of its largest entry or eigenvalue), or zero.
template <std::floating_point T>
Matrix<T> factor_gram(const Matrix<T>& gram, const char* who,
                      double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon())) {
  const Index n = gram.rows();
  if (n != gram.cols() || n == 0) {
    detail::throw_invalid(who, ": the Gram matrix is ", detail::shape(gram), ", expected in x in");
  }
  if (!detail::all_finite(gram)) detail::throw_domain(who, ": the Gram matrix has NaN or infinite entries");
  const T largest_entry = linalg::largest_magnitude<T>(gram), tolerance = static_cast<T>(std::sqrt(epsilon));
  if (largest_entry == 0)
    detail::throw_invalid(who, ": the Gram matrix is zero, every map fits equally well");
  Matrix<T> scaled = gram;
  for (Index j = 0; j < n; ++j) {  // lest squares of its entries overflow
    for (Index i = 0; i < n; ++i) scaled(i, j) /= largest_entry;
  }
  const T asymmetry = linalg::asymmetry<T>(scaled);
  if (asymmetry > tolerance) {
    detail::throw_invalid(who, ": the Gram matrix is not symmetric, it differs from its transpose by ",
                          asymmetry * largest_entry);
  }
  for (Index j = 0; j < n; ++j) {
    for (Index i = j + 1; i < n; ++i) scaled(i, j) = (scaled(i, j) + scaled(j, i)) / 2;
  }

  const linalg::SymmetricEigen<T> solver = linalg::symmetric_eigen<T>(std::move(scaled));
  const VectorX<T>& values = solver.values;  // ascending
  const T largest = values[n - 1];
  if (!solver.success || values[0] < -tolerance * largest) {
    detail::throw_invalid(who, ": the Gram matrix is not positive semidefinite, its eigenvalues reach from ",
                          values[0] * largest_entry, " to ", largest * largest_entry);
  }
  const T cut = static_cast<T>(static_cast<double>(n) * epsilon) * largest;
  Index rank = 0;
  while (rank < n && values[n - 1 - rank] > cut) ++rank;
  Matrix<T> factor(n, rank);
  for (Index j = 0; j < rank; ++j) {
    const T length = std::sqrt(values[n - 1 - j]) * std::sqrt(largest_entry);
    for (Index i = 0; i < n; ++i) factor(i, j) = length * solver.vectors(i, n - 1 - j);
  }
  return factor;
}

}  // namespace rotorlin
