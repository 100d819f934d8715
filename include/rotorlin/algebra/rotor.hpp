// SPDX-License-Identifier: MIT
/// \file
/// Rotors: even elements r with r r~ = 1. The sandwich r x r~ is a rotation, and r and -r are the same
/// rotation: the rotors of Cl(n) are the double cover of SO(n).
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <utility>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/element.hpp"
#include "rotorlin/algebra/products.hpp"
#include "rotorlin/algebra/vector.hpp"
#include "rotorlin/algebra/versor.hpp"
#include "rotorlin/core/finite.hpp"

namespace rotorlin {

namespace detail {

inline constexpr int octet = 8;

/// An even (or odd) element in binary order: entry m >> 1 belongs to blade m, whose lowest bit follows from
/// its parity. Column h of eight rows holds the entries 8h .. 8h+7.
template <class Scalar, int N>
using Octets =
    Eigen::Matrix<Scalar, octet, N == Dynamic ? Dynamic : (N > 4 ? 1 << (N - 4) : 1), Eigen::ColMajor, octet,
                  N == Dynamic ? 1 << (max_dimension - 4) : (N > 4 ? 1 << (N - 4) : 1)>;

/// +1 or -1, by the number of set bits.
inline int parity_sign(unsigned mask) { return std::popcount(mask) & 1 ? -1 : 1; }

/// out = x * v for a vector v of n coefficients. Entry j of the result takes v_k times entry j ^ 2^(k-1) (for
/// k = 0: entry j), signed by the bits of j from k on. The bits within an octet make an 8 x 8 matrix.
template <class Scalar, int N>
void multiply_by_vector(const Octets<Scalar, N>& x, const Scalar* v, Index n, Octets<Scalar, N>& out) {
  Scalar low[octet][octet] = {};  // [column][row]
  for (unsigned j = 0; j < octet; ++j) {
    low[j][j] = Scalar(parity_sign(j)) * v[0];
    for (unsigned k = 1; k < 4 && k < n; ++k)
      low[j ^ (1u << (k - 1))][j] = Scalar(parity_sign(j >> k)) * v[k];
  }
  for (unsigned h = 0; h < x.cols(); ++h) {
    Scalar sum[octet] = {};
    const auto add = [&](const Scalar* values, Scalar factor) {
      for (int i = 0; i < octet; ++i) sum[i] += factor * values[i];
    };
    const Scalar* own = x.data() + h * octet;
    for (int j = 0; j < octet; ++j) add(low[j], Scalar(parity_sign(h)) * own[j]);
    for (unsigned k = 4; k < n; ++k)
      add(x.data() + (h ^ (1u << (k - 4))) * octet, Scalar(parity_sign(h >> (k - 3))) * v[k]);
    std::copy(sum, sum + octet, out.data() + h * octet);
  }
}

/// Even coefficients in graded order from octets.
template <class Scalar, int N, class Coeffs>
void copy_even(const Octets<Scalar, N>& from, int n, Coeffs&& coeffs) {
  const Blades even = blades_of(Part::even, n);
  for (Index i = 0; i < even.size; ++i) coeffs[i] = from.data()[even.mask[i] >> 1];
}

/// x e_1, ..., x e_n (or e_1 x, ..., e_n x) for an even x, as columns: entry m >> 1 belongs to the odd blade
/// m.
template <Side side, class Scalar, int P>
Matrix<Scalar> times_basis_vectors(const Rotor<Scalar, P>& x) {
  const Blades even = x.blades();
  Matrix<Scalar> products(x.size(), x.dimension());
  for (unsigned k = 0; k < static_cast<unsigned>(x.dimension()); ++k) {
    const unsigned vector = 1u << k;
    for (Index i = 0; i < even.size; ++i) {
      const unsigned blade = even.mask[i];
      const int sign = side == Side::left ? reorder_sign(vector, blade) : reorder_sign(blade, vector);
      products((blade ^ vector) >> 1, k) = sign > 0 ? x[i] : Scalar(-x[i]);
    }
  }
  return products;
}

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
  static constexpr int max_n = N == Dynamic ? max_dimension : N;

 public:
  using Base::Base;
  using typename Base::SignatureType;
  /// n x n; column j is the image of e_j.
  using RotationMatrix = Eigen::Matrix<Scalar, N, N, Eigen::ColMajor, max_n, max_n>;

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
    }
    return detail::product_part_of<Product::geometric, X::part>("Rotor::apply", *this * x, this->reversed());
  }

  /// The matrix of v -> r v r~ in SO(n), M_ij = <(e_i r)(r e_j)~>_0. Euclidean only.
  RotationMatrix to_rotation_matrix() const {
    if (!this->signature().is_euclidean()) {
      detail::throw_invalid("Rotor::to_rotation_matrix: rotor of ", this->signature(),
                            ", expected a Euclidean one");
    }
    const Rotor<Scalar, N> r(this->dimension(), this->coeffs());
    return detail::times_basis_vectors<detail::Side::left>(r).transpose() *
           detail::times_basis_vectors<detail::Side::right>(r);
  }

  /// The rotor of a rotation matrix; of the two, the one with scalar part >= 0. By reflections that take the
  /// matrix to a diagonal of signs: exact to rounding for every rotation, by pi or by equal angles too.
  /// \throws std::invalid_argument unless the matrix is n x n, orthogonal to the square root of the rounding
  /// unit, and of determinant 1.
  static Rotor from_rotation_matrix(const ConstMatrixRef<Scalar>& matrix) requires(
      SignatureType::is_always_euclidean&& std::floating_point<Scalar>) {
    const int n = static_cast<int>(matrix.rows());
    if (matrix.cols() != n || (N != Dynamic && n != N) || n > max_dimension) {
      detail::throw_invalid("Rotor::from_rotation_matrix: matrix of ", detail::shape(matrix),
                            ", expected n x n, n <= ", max_dimension,
                            N == Dynamic ? std::string() : detail::concatenate(" with n = ", N));
    }
    if (!detail::all_finite(matrix))
      detail::throw_domain("Rotor::from_rotation_matrix: the matrix has NaN or infinite entries");
    RotationMatrix rest = matrix;
    const Scalar error =
        n == 0 ? Scalar(0)
               : (rest.transpose().lazyProduct(rest) - RotationMatrix::Identity(n, n)).cwiseAbs().maxCoeff();
    if (!(error <= std::sqrt(std::numeric_limits<Scalar>::epsilon()))) {
      detail::throw_invalid("Rotor::from_rotation_matrix: the matrix is not orthogonal, |M^T M - 1| = ",
                            error);
    }
    using Octets = detail::Octets<Scalar, N>;
    using Column = Eigen::Matrix<Scalar, N, 1, Eigen::ColMajor, max_n, 1>;
    Octets rotor = Octets::Zero(detail::octet, n > 4 ? Index{1} << (n - 4) : 1), product = rotor;
    rotor(0, 0) = Scalar(1);
    int reflections = 0;
    const auto multiply = [&](const Column& vector) {
      detail::multiply_by_vector<Scalar, N>(rotor, vector.data(), n, product);
      rotor.swap(product);
      ++reflections;
    };
    Column w;
    for (int j = 0; j + 1 < n; ++j) {  // the reflection in w takes column j to e_j or -e_j, the farther one
      w.setZero(n);
      w.tail(n - j) = rest.col(j).tail(n - j);
      w[j] += std::copysign(w.norm(), w[j]);
      w.normalize();
      const Column image = Scalar(2) * rest.transpose().lazyProduct(w);
      rest -= w.lazyProduct(image.transpose());
      multiply(w);
    }
    for (int j = 0; j < n; ++j) {
      if (rest(j, j) < Scalar(0)) multiply(Column::Unit(n, j));
    }
    if (reflections % 2 != 0) {
      detail::throw_invalid("Rotor::from_rotation_matrix: the determinant is -1, expected 1");
    }
    Rotor result{SignatureType(n)};
    detail::copy_even<Scalar, N>(rotor, n, result.coeffs());
    return result[0] < Scalar(0) ? -result : result;
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
      if (square >= least && square <= std::numeric_limits<Scalar>::max()) return *this / std::sqrt(square);
    }
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
