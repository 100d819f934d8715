// SPDX-License-Identifier: MIT
/// \file
/// A factor of a Gram matrix: F with G = F F^T, also where G is singular.
///
/// With inputs x of second moment G = E[x x^T], the mean squared difference of two linear maps is
/// E|W x - M x|^2 = tr((W - M) G (W - M)^T) = |(W - M) F|_F^2: the columns of F stand for all samples.
#pragma once

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <cmath>
#include <limits>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// F (in x rank) with F F^T = gram, from the eigendecomposition; the columns are orthogonal, longest first.
/// Eigenvalues below in * epsilon of the largest count as zero, epsilon being that of the Gram matrix's
/// scalar.
///
/// `who` begins the message of the exceptions: std::domain_error when gram is not finite,
/// std::invalid_argument when it is not square, not symmetric or not positive semidefinite (beyond rounding,
/// sqrt(epsilon) of its largest entry or eigenvalue), or zero.
template <class Derived>
Matrix<double> factor_gram(const Eigen::MatrixBase<Derived>& gram, const char* who) {
  const double epsilon = static_cast<double>(std::numeric_limits<typename Derived::Scalar>::epsilon());
  const Matrix<double> g = gram.template cast<double>();
  if (g.rows() != g.cols() || g.rows() == 0) {
    detail::throw_invalid(who, ": the Gram matrix is ", detail::shape(g), ", expected in x in");
  }
  if (!detail::all_finite(g)) detail::throw_domain(who, ": the Gram matrix has NaN or infinite entries");
  const double largest_entry = g.cwiseAbs().maxCoeff();
  if (largest_entry == 0)
    detail::throw_invalid(who, ": the Gram matrix is zero, every map fits equally well");
  const double asymmetry = (g - g.transpose()).cwiseAbs().maxCoeff();
  if (asymmetry > std::sqrt(epsilon) * largest_entry) {
    detail::throw_invalid(who, ": the Gram matrix is not symmetric, G and its transpose differ by ",
                          asymmetry);
  }

  // Scaled, lest squares of its entries overflow.
  const Eigen::SelfAdjointEigenSolver<Matrix<double>> solver((g + g.transpose()) / (2 * largest_entry));
  const auto& values = solver.eigenvalues();  // ascending
  const double largest = values[values.size() - 1];
  if (solver.info() != Eigen::Success || values[0] < -std::sqrt(epsilon) * largest) {
    detail::throw_invalid(who, ": the Gram matrix is not positive semidefinite, its eigenvalues reach from ",
                          values[0] * largest_entry, " to ", largest * largest_entry);
  }
  const Index rank = (values.array() > static_cast<double>(g.rows()) * epsilon * largest).count();
  const VectorX<double> lengths = (values.tail(rank) * largest_entry).cwiseSqrt();
  return (solver.eigenvectors().rightCols(rank) * lengths.asDiagonal()).rowwise().reverse();
}

}  // namespace rotorlin
