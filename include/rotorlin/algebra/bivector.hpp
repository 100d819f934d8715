// SPDX-License-Identifier: MIT
/// \file
/// Bivectors: the planes of rotation, with their angles. In a Euclidean algebra they are the skew matrices:
/// A_ij is the coefficient of e_ij for i < j, and the contraction of a vector v with B is the row vector v^T
/// A.
#pragma once

#include <cmath>

#include "rotorlin/algebra/element.hpp"

namespace rotorlin {

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

  /// The bivector of the skew part (A - A^T)/2 of an n x n matrix.
  /// \throws std::invalid_argument unless the matrix is n x n.
  template <class M>
  static Bivector from_skew_matrix(const typename Base::SignatureType& signature,
                                   const Eigen::MatrixBase<M>& matrix) {
    const Index n = signature.n();
    if (matrix.rows() != n || matrix.cols() != n) {
      detail::throw_invalid("Bivector::from_skew_matrix: matrix of ", detail::shape(matrix), ", expected ", n,
                            " x ", n);
    }
    Bivector result(signature);
    for (Index i = 0, k = 0; i < n; ++i) {
      for (Index j = i + 1; j < n; ++j, ++k) result[k] = (matrix(i, j) - matrix(j, i)) / Scalar(2);
    }
    return result;
  }
  template <class M>
  static Bivector from_skew_matrix(const Eigen::MatrixBase<M>& matrix) requires(
      Base::SignatureType::is_always_euclidean) {
    return from_skew_matrix(typename Base::SignatureType(static_cast<int>(matrix.rows())), matrix);
  }
};

}  // namespace rotorlin
