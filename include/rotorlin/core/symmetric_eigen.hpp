// SPDX-License-Identifier: MIT
/// \file
/// Eigenvalues and eigenvectors of symmetric matrices: Eigen's, or, where Eigen may use LAPACKE
/// (EIGEN_USE_LAPACKE), LAPACK's divide and conquer, several times faster than the QR iteration that Eigen
/// binds.
#pragma once

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <concepts>
#include <utility>

#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

template <std::floating_point T>
struct SymmetricEigen {
  VectorX<T> values;  ///< ascending
  Matrix<T> vectors;  ///< columns, orthonormal
  bool success;
};

/// Of the lower triangle of a square matrix.
template <std::floating_point T>
SymmetricEigen<T> symmetric_eigen(Matrix<T> a) {
#if defined(EIGEN_USE_LAPACKE)
  if constexpr (std::same_as<T, double>) {
    VectorX<T> values(a.rows());
    const auto n = static_cast<lapack_int>(a.rows());
    const bool success = LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'L', n, a.data(), n, values.data()) == 0;
    return {std::move(values), std::move(a), success};
  }
#endif
  const Eigen::SelfAdjointEigenSolver<Matrix<T>> solver(a);
  return {solver.eigenvalues(), solver.eigenvectors(), solver.info() == Eigen::Success};
}

}  // namespace rotorlin::detail
