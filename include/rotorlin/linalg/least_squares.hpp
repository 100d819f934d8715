// SPDX-License-Identifier: MIT
/// \file
/// Least squares of minimum norm, from a complete orthogonal factorisation F = Q T Z^T: Q and Z with
/// orthonormal columns, T square and invertible. Blocked Householder QR where F has full column rank (Z = I);
/// only where it shows none, the small factor R is factored again with pivoting, and what lies below 1e-10 of
/// the largest pivot counts as dependent.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <optional>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/qr.hpp"
#include "rotorlin/linalg/triangular.hpp"

namespace rotorlin {

namespace linalg {

/// F P = Q R by pivoting, and R = T^T Z^T by a QR factorisation of R^T.
template <std::floating_point T>
class CompleteOrthogonal {
 public:
  /// What lies below `threshold` of the largest pivot counts as dependent.
  CompleteOrthogonal(Matrix<T> f, T threshold)
      : pivoted_(std::move(f), threshold), right_(rows_of_r_transposed(pivoted_)) {}

  /// The number of columns that are linearly independent, beside rounding.
  Index rank() const { return pivoted_.rank(); }
  /// B <- Q B or Q^T B: the first rank() columns of Q span the columns of F.
  void apply_q(Op op, MatrixRef<T> b) const { pivoted_.apply_q(op, b); }
  /// P Z T^-T X, n x columns of x (rank x columns): what F maps to Q X, free of F's null space.
  Matrix<T> pull_back(const ConstMatrixRef<T>& x) const;
  /// The X of least |F X - B|_F, and among those of least |X|_F.
  Matrix<T> solve(Matrix<T> b) const {
    apply_q(Op::transposed, b);
    return pull_back(b.topRows(rank()));
  }

 private:
  static Matrix<T> rows_of_r_transposed(const PivotedQr<T>& pivoted) {
    const Matrix<T>& packed = pivoted.packed();
    Matrix<T> transposed(packed.cols(), pivoted.rank());
    for (Index i = 0; i < transposed.cols(); ++i) {
      for (Index j = 0; j < transposed.rows(); ++j) transposed(j, i) = i <= j ? packed(i, j) : T(0);
    }
    return transposed;
  }

  PivotedQr<T> pivoted_;
  Qr<T> right_;
};

template <std::floating_point T>
Matrix<T> CompleteOrthogonal<T>::pull_back(const ConstMatrixRef<T>& x) const {
  const Matrix<T> solved = upper_solution<T>(right_.packed().topRows(rank()), Op::transposed, x);
  Matrix<T> y(right_.rows(), x.cols()), z(right_.rows(), x.cols());
  y.setZero();
  y.topRows(rank()) = solved;
  right_.apply_q(Op::plain, y);
  for (Index j = 0; j < y.cols(); ++j) {
    for (Index i = 0; i < y.rows(); ++i) z(pivoted_.order()[static_cast<std::size_t>(i)], j) = y(i, j);
  }
  return z;
}

}  // namespace linalg

class LeastSquares {
 public:
  /// Factors F, m x n with m, n >= 1; entries must be finite.
  template <class = void>
  explicit LeastSquares(Matrix<double> f) : qr_(std::move(f)), rank_(qr_.cols()) {
    if (has_full_rank()) return;
    complete_.emplace(qr_.r(std::min(qr_.rows(), qr_.cols())), 1e-10);
    rank_ = complete_->rank();
  }

  /// The number of directions that count, beside rounding.
  Index rank() const { return rank_; }

  /// The X (n x columns of b) of least |F X - B|_F, and among those of least |X|_F.
  template <class = void>
  Matrix<double> solve(const ConstMatrixRef<double>& b) const {
    if (b.rows() != qr_.rows()) {
      detail::throw_invalid("LeastSquares::solve: F has ", qr_.rows(), " rows, B is ", detail::shape(b));
    }
    Matrix<double> projected = b;
    qr_.apply_q(linalg::Op::transposed, projected);
    if (complete_) return complete_->solve(projected.topRows(std::min(qr_.rows(), qr_.cols())));
    return pull_back(projected.topRows(rank_));
  }

  /// Q, m x rank: an orthonormal basis of the columns of F.
  template <class = void>
  Matrix<double> basis() const {
    if (!complete_) return qr_.q(rank_);
    Matrix<double> q(qr_.rows(), rank_);
    q.setIdentity();
    complete_->apply_q(linalg::Op::plain, q.topRows(std::min(qr_.rows(), qr_.cols())));
    qr_.apply_q(linalg::Op::plain, q);
    return q;
  }

  /// Z T^-1 X, n x columns of x (rank x columns): what F maps to Q X, free of F's null space.
  template <class = void>
  Matrix<double> pull_back(const ConstMatrixRef<double>& x) const {
    if (complete_) return complete_->pull_back(x);
    return linalg::upper_solution<double>(qr_.packed().topRows(rank_), linalg::Op::plain, x);
  }

 private:
  /// Whether every column stands clear of the space of those before it.
  template <class = void>
  bool has_full_rank() const {
    if (qr_.rows() < qr_.cols()) return false;
    constexpr double clear = 1e-8;
    for (Index j = 0; j < qr_.cols(); ++j) {
      const double* const column = qr_.packed().data() + j * qr_.rows();
      const double length = std::sqrt(linalg::dot<double>(j + 1, column, column));
      if (!(std::abs(column[j]) > clear * length)) return false;
    }
    return true;
  }

  linalg::Qr<double> qr_;
  std::optional<linalg::CompleteOrthogonal<double>> complete_;
  Index rank_;
};

}  // namespace rotorlin
