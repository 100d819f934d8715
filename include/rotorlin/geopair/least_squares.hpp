// SPDX-License-Identifier: MIT
/// \file
/// Least squares of minimum norm, from a complete orthogonal factorisation F = Q T Z^T: Q and Z with
/// orthonormal columns, T square and invertible. Blocked Householder QR where F has full column rank (Z = I);
/// only where it shows none, the small factor R is factored again with pivoting, and what lies below 1e-10 of
/// the largest pivot counts as dependent.
#pragma once

#include <Eigen/Core>
#include <Eigen/QR>
#include <algorithm>
#include <limits>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

class LeastSquares {
 public:
  /// Factors F, m x n with m, n >= 1, in place; entries must be finite.
  template <class = void>
  explicit LeastSquares(Matrix<double> f) : storage_(std::move(f)), qr_(storage_), rank_(storage_.cols()) {
    if (has_full_rank()) return;
    const Index rows = std::min(qr_.rows(), qr_.cols());
    complete_.setThreshold(1e-10);
    complete_.compute(qr_.matrixQR().topRows(rows).triangularView<Eigen::Upper>().toDenseMatrix());
    rank_ = complete_.rank();
    pivoted_ = true;
  }

  LeastSquares(const LeastSquares&) = delete;
  LeastSquares& operator=(const LeastSquares&) = delete;

  Index rank() const { return rank_; }

  /// The X (n x columns of b) of least |F X - B|_F, and among those of least |X|_F.
  template <class = void>
  Matrix<double> solve(const ConstMatrixRef<double>& b) const {
    if (b.rows() != qr_.rows()) {
      detail::throw_invalid("LeastSquares::solve: F has ", qr_.rows(), " rows, B is ", detail::shape(b));
    }
    Matrix<double> projected = b;
    qr_.householderQ().adjoint().applyThisOnTheLeft(projected);
    if (pivoted_) return complete_.solve(projected.topRows(complete_.rows()));
    return triangle().solve(projected.topRows(rank_));
  }

  /// Q, m x rank: an orthonormal basis of the columns of F.
  template <class = void>
  Matrix<double> basis() const {
    if (rank_ == 0) return Matrix<double>(qr_.rows(), 0);
    Matrix<double> q = Matrix<double>::Identity(qr_.rows(), rank_);
    if (pivoted_) {
      q.topRows(complete_.rows()) =
          complete_.householderQ() * Matrix<double>::Identity(complete_.rows(), rank_);
    }
    qr_.householderQ().applyThisOnTheLeft(q);
    return q;
  }

  /// Z T^-1 X, n x columns of x (rank x columns): what F maps to Q X, free of F's null space.
  template <class = void>
  Matrix<double> pull_back(const ConstMatrixRef<double>& x) const {
    if (!pivoted_) return triangle().solve(x);
    Matrix<double> y = Matrix<double>::Zero(qr_.cols(), x.cols());
    if (rank_ == 0) return y;
    y.topRows(rank_) =
        complete_.matrixT().topLeftCorner(rank_, rank_).triangularView<Eigen::Upper>().solve(x);
    if (rank_ < qr_.cols()) y = complete_.matrixZ().transpose() * y;
    return complete_.colsPermutation() * y;
  }

 private:
  template <class = void>
  Eigen::TriangularView<const Eigen::Block<const Matrix<double>>, Eigen::Upper> triangle() const {
    return storage_.topLeftCorner(rank_, rank_).triangularView<Eigen::Upper>();
  }

  /// Whether every column stands clear of the space of those before it.
  template <class = void>
  bool has_full_rank() const {
    if (qr_.rows() < qr_.cols()) return false;
    constexpr double clear = 1e-8;
    for (Index j = 0; j < qr_.cols(); ++j) {
      if (!(std::abs(qr_.matrixQR()(j, j)) > clear * qr_.matrixQR().col(j).head(j + 1).norm())) return false;
    }
    return true;
  }

  Matrix<double> storage_;
  Eigen::HouseholderQR<Eigen::Ref<Matrix<double>>> qr_;
  Eigen::CompleteOrthogonalDecomposition<Matrix<double>> complete_;
  Index rank_;
  bool pivoted_ = false;
};

}  // namespace rotorlin
