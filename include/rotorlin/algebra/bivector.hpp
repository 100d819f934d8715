// SPDX-License-Identifier: MIT
/// \file
/// Bivectors: the planes of rotation, with their angles. In a Euclidean algebra they are the skew matrices:
/// A_ij is the coefficient of e_ij for i < j, and the contraction of a vector v with B is the row vector v^T
/// A.
#pragma once

#include <cmath>

#include "rotorlin/algebra/element.hpp"

namespace rotorlin {

namespace detail {

/// The bivector of the skew part (A - A^T)/2 of an n x n matrix.
template <class B, class M>
B skew_part(const typename B::SignatureType& signature, const M& matrix) {
  using Scalar = typename M::Scalar;
  B result(signature);
  for (Index i = 0, k = 0; i < signature.n(); ++i) {
    for (Index j = i + 1; j < signature.n(); ++j, ++k) result[k] = (matrix(i, j) - matrix(j, i)) / Scalar(2);
  }
  return result;
}

}  // namespace detail

/// n(n-1)/2 coefficients, in the order e12, e13, ..., e1n, e23, ...
template <class Scalar, int P, int Q, int R>
class Bivector : public detail::Element<Bivector, Part::bivector, Scalar, P, Q, R> {
  using Base = detail::Element<rotorlin::Bivector, Part::bivector, Scalar, P, Q, R>;

 public:
  using Base::Base;
  using SkewMatrix =
      Eigen::Matrix<Scalar, Base::static_dimension, Base::static_dimension, Eigen::ColMajor,
                    Base::static_dimension == Dynamic ? max_dimension : Base::static_dimension,
                    Base::static_dimension == Dynamic ? max_dimension : Base::static_dimension>;

  /// The n x n matrix A = -A^T with A_ij the coefficient of e_ij for i < j.
  SkewMatrix to_skew_matrix() const {
    const Index n = this->dimension();
    SkewMatrix matrix(n, n);
    for (Index i = 0, k = 0; i < n; ++i) {
      matrix(i, i) = Scalar(0);
      for (Index j = i + 1; j < n; ++j, ++k) {
        matrix(i, j) = this->coeffs()[k];
        matrix(j, i) = Scalar(-this->coeffs()[k]);
      }
    }
    return matrix;
  }

  /// The way back from an n x n matrix A = -A^T; what rounding has left of A + A^T is dropped.
  /// \throws std::invalid_argument unless the matrix is n x n, and where an |A_ij + A_ji| exceeds
  /// sqrt(epsilon) times the largest |A_ij|. NaN passes through.
  template <class M>
  static Bivector from_skew_matrix(const typename Base::SignatureType& signature,
                                   const Eigen::MatrixBase<M>& matrix) {
    const Index n = signature.n();
    if (matrix.rows() != n || matrix.cols() != n) {
      detail::throw_invalid("Bivector::from_skew_matrix: matrix of ", detail::shape(matrix), ", expected ", n,
                            " x ", n);
    }
    using std::abs, std::sqrt;
    const auto& a = matrix.eval();
    Scalar largest(0), error(0);
    Index row = 0, col = 0;
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) {
        const Scalar size = abs(a(i, j)), sum = abs(a(i, j) + a(j, i));
        if (size > largest) largest = size;
        if (sum > error) {
          error = sum;
          row = i;
          col = j;
        }
      }
    }
    if (error > largest * sqrt(Eigen::NumTraits<Scalar>::epsilon())) {
      detail::throw_invalid("Bivector::from_skew_matrix: A(", row, ", ", col, ") = ", a(row, col), " and A(",
                            col, ", ", row, ") = ", a(col, row),
                            ", expected A = -A^T; for the skew part of a matrix give (A - A^T)/2");
    }
    return detail::skew_part<Bivector>(signature, a);
  }
  template <class M>
  static Bivector from_skew_matrix(const Eigen::MatrixBase<M>& matrix) requires(
      Base::SignatureType::is_always_euclidean) {
    return from_skew_matrix(typename Base::SignatureType(static_cast<int>(matrix.rows())), matrix);
  }
};

}  // namespace rotorlin
