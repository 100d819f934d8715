// SPDX-License-Identifier: MIT
/// \file
/// A factor of a Gram matrix: F with G = F F^T, also where G is singular.
///
/// With inputs x of second moment G = E[x x^T], the mean squared difference of two linear maps is
/// E|W x - M x|^2 = tr((W - M) G (W - M)^T) = |(W - M) F|_F^2: the columns of F stand for all samples.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <concepts>
#include <limits>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/symmetric_eigen.hpp"
#include "rotorlin/core/types.hpp"

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
  if (gram.rows() != gram.cols() || gram.rows() == 0) {
    detail::throw_invalid(who, ": the Gram matrix is ", detail::shape(gram), ", expected in x in");
  }
  if (!detail::all_finite(gram)) detail::throw_domain(who, ": the Gram matrix has NaN or infinite entries");
  const T largest_entry = gram.cwiseAbs().maxCoeff(), tolerance = static_cast<T>(std::sqrt(epsilon));
  if (largest_entry == 0)
    detail::throw_invalid(who, ": the Gram matrix is zero, every map fits equally well");
  const Matrix<T> scaled = gram / largest_entry;  // lest squares of its entries overflow
  const T asymmetry = (scaled - scaled.transpose()).cwiseAbs().maxCoeff();
  if (asymmetry > tolerance) {
    detail::throw_invalid(who, ": the Gram matrix is not symmetric, it differs from its transpose by ",
                          asymmetry * largest_entry);
  }

  const detail::SymmetricEigen<T> solver = detail::symmetric_eigen<T>((scaled + scaled.transpose()) / 2);
  const VectorX<T>& values = solver.values;  // ascending
  const T largest = values[values.size() - 1];
  if (!solver.success || values[0] < -tolerance * largest) {
    detail::throw_invalid(who, ": the Gram matrix is not positive semidefinite, its eigenvalues reach from ",
                          values[0] * largest_entry, " to ", largest * largest_entry);
  }
  const T cut = static_cast<T>(static_cast<double>(gram.rows()) * epsilon) * largest;
  const Index rank = (values.array() > cut).count();
  const VectorX<T> lengths = values.tail(rank).cwiseSqrt() * std::sqrt(largest_entry);
  return (solver.vectors.rightCols(rank) * lengths.asDiagonal()).rowwise().reverse();
}

}  // namespace rotorlin
