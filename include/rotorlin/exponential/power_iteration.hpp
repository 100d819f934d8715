// SPDX-License-Identifier: MIT
/// \file
/// The paper's decomposition of a bivector into simple parts (Algorithms 1 and 2): a power iteration finds
/// the plane of the largest angle, its part is subtracted, and so on; what is left counts as the last part.
/// Kept to compare with: where two angles are close the iteration stops early and the parts neither commute
/// nor are they simple.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <utility>
#include <vector>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// floor(n/2) parts that sum to the bivector. An object keeps its last vectors, and starts from them again
/// when it next computes in the same dimension (the paper's warm start).
template <std::floating_point Scalar, int N = Dynamic>
class PowerIteration {
 public:
  using BivectorType = Bivector<Scalar, N>;

  int max_steps = 20;
  Scalar tolerance = Scalar(1e-5);  ///< ends when |v + v_previous| is smaller

  /// The same from given vectors, the columns of a matrix of n x (floor(n/2) - 1).
  /// \throws std::invalid_argument where the matrix has another shape.
  void compute(const BivectorType& b, const Matrix<Scalar>& start) {
    const Index extractions = num_extractions(b);
    if (start.rows() != b.dimension() || start.cols() != extractions) {
      detail::throw_invalid("PowerIteration: start vectors of ", detail::shape(start), ", expected ",
                            b.dimension(), " x ", extractions);
    }
    vectors_ = start;
    compute(b);
  }

  /// \throws std::domain_error where a coefficient is NaN or infinite.
  void compute(const BivectorType& b) {
    if (!b.all_finite()) {
      detail::throw_domain("PowerIteration: the bivector of ", b.signature(),
                           " has coefficients that are NaN or infinite");
    }
    const Index n = b.dimension(), extractions = num_extractions(b);
    const bool warm = vectors_.rows() == n && vectors_.cols() == extractions;
    if (!warm) vectors_.setZero(n, extractions);
    parts_.clear();
    steps_.clear();
    BivectorType rest = b;
    for (Index p = 0; p < extractions; ++p) {
      const Matrix<Scalar> skew = rest.to_skew_matrix();
      VectorX<Scalar> v = vectors_.col(p);
      if (v.isZero(0)) v = default_start(skew);
      steps_.push_back(iterate(skew, v));
      vectors_.col(p) = v;
      const VectorX<Scalar> u = skew.transpose() * v;  // v . B
      const Matrix<Scalar> part = v * u.transpose() - u * v.transpose();
      parts_.push_back(detail::skew_part<BivectorType>(b.signature(), part));
      rest -= parts_.back();
    }
    if (n >= 2) parts_.push_back(std::move(rest));
  }

  /// The vectors v that the iterations ended with.
  const Matrix<Scalar>& vectors() const { return vectors_; }
  /// Steps that each of the floor(n/2) - 1 iterations took.
  const std::vector<int>& steps() const { return steps_; }
  const std::vector<BivectorType>& parts() const { return parts_; }

  /// The product of cos|s| + sin|s| s/|s| over the parts s.
  Rotor<Scalar, N> rotor() const {
    if (parts_.empty()) return Rotor<Scalar, N>(Signature<N>(static_cast<int>(vectors_.rows())));
    Rotor<Scalar, N> product(parts_.front().signature());
    for (const BivectorType& part : parts_) {
      const Scalar angle = part.norm();
      Rotor<Scalar, N> factor = part.even_part() * (angle == Scalar(0) ? Scalar(1) : std::sin(angle) / angle);
      factor[0] = std::cos(angle);
      product = product * factor;
    }
    return product;
  }

 private:
  static Index num_extractions(const BivectorType& b) { return std::max<Index>(b.dimension() / 2, 1) - 1; }

  /// The longest row of the skew matrix: a vector that B does not annihilate.
  static VectorX<Scalar> default_start(const Matrix<Scalar>& skew) {
    Index longest = 0;
    skew.rowwise().squaredNorm().maxCoeff(&longest);
    return skew.row(longest).transpose();
  }

  int iterate(const Matrix<Scalar>& skew, VectorX<Scalar>& v) const {
    for (int step = 1; step <= max_steps; ++step) {
      const VectorX<Scalar> next = (skew * (skew * v)).stableNormalized();  // (v . B) . B
      const Scalar change = (next + v).norm();
      v = next;
      if (change < tolerance) return step;
    }
    return max_steps;
  }

  Matrix<Scalar> vectors_;
  std::vector<int> steps_;
  std::vector<BivectorType> parts_;
};

}  // namespace rotorlin
