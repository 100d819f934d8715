// SPDX-License-Identifier: MIT
/// \file
/// Rotors: even elements r with r r~ = 1. The sandwich r x r~ is a rotation, and r and -r are the same
/// rotation: the rotors of Cl(n) are the double cover of SO(n).
#pragma once

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <utility>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/element.hpp"
#include "rotorlin/algebra/products.hpp"
#include "rotorlin/algebra/rotation_matrix.hpp"
#include "rotorlin/algebra/vector.hpp"
#include "rotorlin/algebra/versor.hpp"
#include "rotorlin/core/finite.hpp"

namespace rotorlin {

namespace detail {

/// Newton's iteration x <- x (3 - x* x)/2 for the x with x* x = 1 next to the given one; excess(x) is x* x -
/// 1 and size(y) the largest coefficient of y. Throws std::invalid_argument where it does not converge.
template <class X, class Excess, class Size>
X nearest_unitary(X x, Excess excess, Size size) {
  using Scalar = decltype(size(x));
  Scalar error = std::numeric_limits<Scalar>::infinity();
  for (int step = 0; step < 40; ++step) {
    const X deviation = excess(x);
    const Scalar previous = std::exchange(error, size(deviation));
    if (error == Scalar(0) || (step > 8 && !(error < previous))) break;
    const X correction = x * deviation;
    x -= correction / Scalar(2);
  }
  if (!(error <= std::sqrt(std::numeric_limits<Scalar>::epsilon()))) {
    throw_invalid("Rotor::normalized: no rotor is near, the deviation from r~ r = 1 stays at ", error);
  }
  return x;
}

}  // namespace detail

/// 2^(n-1) coefficients: the blades of even grade in graded order. The type holds any even element (a
/// gradient with respect to a rotor, say); what makes it a rotor is r r~ = 1, which products keep up to
/// rounding and `normalized` restores.
template <class Scalar, int P, int Q, int R>
class Rotor : public detail::Element<Rotor, Part::even, Scalar, P, Q, R> {
  using Base = detail::Element<rotorlin::Rotor, Part::even, Scalar, P, Q, R>;
  static constexpr int N = Base::static_dimension;

 public:
  using Base::Base;
  using typename Base::SignatureType;
  /// n x n; column j is the image of e_j.
  using RotationMatrix = detail::SmallSquare<Scalar, N>;

  /// The identity.
  Rotor() : Rotor(SignatureType{}) {}
  explicit Rotor(const SignatureType& signature) : Base(signature) { (*this)[0] = Scalar(1); }

  /// r x r~, grade by grade: vectors go to vectors and bivectors to bivectors.
  template <AlgebraElement X>
  X apply(const X& x) const {
    this->check_same_algebra("Rotor::apply", x);
    if constexpr (detail::turns_in_lanes<Scalar, SignatureType, X::part>) {
      X y(detail::Uninitialized{}, this->signature());
      detail::lane_sandwich<SignatureType, X::part>(this->coeffs().data(), x.coeffs().data(),
                                                    y.coeffs().data());
      return y;
    } else {
      return detail::product_part_of<Product::geometric, X::part>("Rotor::apply", *this * x,
                                                                  this->reversed());
    }
  }

  /// The matrix of v -> r v r~ in SO(n), M_ij = <(e_i r)(r e_j)~>_0. Euclidean only.
  RotationMatrix to_rotation_matrix() const {
    if (!this->signature().is_euclidean()) {
      detail::throw_invalid("Rotor::to_rotation_matrix: rotor of ", this->signature(),
                            ", expected a Euclidean one");
    }
    return detail::rotation_matrix<Scalar, N>(this->coeffs().data(), this->dimension());
  }

  /// The rotor of a rotation matrix; of the two, the one with scalar part >= 0. Exact to rounding for every
  /// rotation, by pi or by equal angles too. For matrices that are farther from a rotation: `nearest_rotor`.
  /// \throws std::invalid_argument unless the matrix is n x n, orthogonal to the square root of the rounding
  /// unit, and of determinant 1; std::domain_error where it has entries that are NaN or infinite.
  template <class M>
  requires(SignatureType::is_always_euclidean&& std::floating_point<Scalar>) static Rotor
      from_rotation_matrix(const Eigen::MatrixBase<M>& matrix) {
    constexpr const char* who = "Rotor::from_rotation_matrix";
    const int n = static_cast<int>(matrix.rows());
    if (matrix.cols() != n || (N != Dynamic && n != N) || n > max_dimension) {
      detail::throw_invalid(who, ": matrix of ", detail::shape(matrix),
                            ", expected n x n, n <= ", max_dimension,
                            N == Dynamic ? std::string() : detail::concatenate(" with n = ", N));
    }
    return from_square(who, matrix.derived());
  }

  /// The rotor next to an even element that has drifted from r r~ = 1, its length included. For n <= 3 that
  /// is a division by the norm. From n = 4 on r r~ may have a part of grade 4. n = 4 and 5, in any signature:
  /// the polar part r (r~ r)^(-1/2). n >= 6, Euclidean: the rotor of the rotation matrix nearest to v -> r v
  /// r~, which is the nearest rotor up to the square of the drift.
  ///
  /// \throws std::domain_error where r has coefficients that are NaN or infinite;
  ///         std::invalid_argument where no rotor is near, and for n >= 6 in other signatures.
  Rotor normalized() const requires(std::floating_point<Scalar>) {
    if constexpr (SignatureType::is_always_euclidean && N != Dynamic && N <= 3) {
      const Scalar square = this->squared_norm();
      constexpr Scalar least = std::numeric_limits<Scalar>::min() / std::numeric_limits<Scalar>::epsilon();
      if (detail::is_finite(square) && square >= least) return *this / std::sqrt(square);
    }
    this->check_not_moved();
    if (!this->all_finite()) {
      detail::throw_domain("Rotor::normalized: rotor of ", this->signature(),
                           " with NaN or infinite coefficients");
    }
    if (this->dimension() <= 5) return detail::polar_rotor(*this);
    if constexpr (SignatureType::is_always_euclidean) {
      const Scalar largest = this->coeffs().cwiseAbs().maxCoeff();
      if (!(largest > Scalar(0))) {
        detail::throw_invalid("Rotor::normalized: the rotor of ", this->signature(), " is zero");
      }
      const Rotor scaled = *this / largest;  // squares neither over- nor underflow
      return (scaled / scaled.norm()).nearest_rotor();
    } else {
      if (!this->signature().is_euclidean()) {
        detail::throw_invalid("Rotor::normalized: rotor of ", this->signature(),
                              ", expected n <= 5 or Cl(n)");
      }
      const Rotor<Scalar, N> euclidean(this->dimension(), this->coeffs());
      return {this->signature(), euclidean.normalized().coeffs()};
    }
  }

 private:
  static Rotor from_square(const char* who, const RotationMatrix& matrix) {
    Rotor result(detail::Uninitialized{}, SignatureType(static_cast<int>(matrix.rows())));
    if constexpr (N == 3) {
      if (!detail::rotor_of_rotation(matrix, result.coeffs().data())) [[unlikely]] {
        detail::check_rotation(who, matrix, detail::determinant(matrix));
        result /= result.coeffs().norm();
      }
      return result;
    } else {
      detail::check_rotation(who, matrix, Scalar(1));
      if (!detail::rotor_of_rotation(matrix, result.coeffs().data())) [[unlikely]]
        detail::check_rotation(who, matrix, Scalar(-1));
      return result[0] < Scalar(0) ? -result : result;
    }
  }

  Rotor nearest_rotor() const {
    const RotationMatrix rotation = detail::nearest_unitary(
        to_rotation_matrix(),
        [](const RotationMatrix& m) -> RotationMatrix {
          return m.transpose().lazyProduct(m) - RotationMatrix::Identity(m.rows(), m.cols());
        },
        [](const RotationMatrix& m) { return m.cwiseAbs().maxCoeff(); });
    const Rotor nearest = from_rotation_matrix(rotation);
    return nearest.coeffs().dot(this->coeffs()) < Scalar(0) ? -nearest : nearest;
  }
};

/// r x s~: the action of a pair of rotors. It mixes the grades of x, and is linear and orthogonal in Cl(n).
template <class Scalar, int P, int Q, int R>
Multivector<Scalar, P, Q, R> sandwich(const Rotor<Scalar, P, Q, R>& r, const Multivector<Scalar, P, Q, R>& x,
                                      const Rotor<Scalar, P, Q, R>& s) {
  return r * x * s.reversed();
}

}  // namespace rotorlin
