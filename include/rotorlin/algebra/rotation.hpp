// SPDX-License-Identifier: MIT
/// \file
/// Rotors of rotations as other libraries have them: quaternions, axis and angle, Euler's angles; between two
/// vectors, nearest to a matrix, random; and one rotor on many vectors.
///
/// The unit quaternion w + x i + y j + z k is the rotor w - x e23 + y e13 - z e12: both turn vectors alike,
/// and products go over to products.
#pragma once

#include <Eigen/Geometry>
#include <Eigen/SVD>
#include <cmath>
#include <concepts>

#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"

namespace rotorlin {

/// The rotor that turns vectors as the quaternion does; not normalized.
template <class Scalar, int Options>
Rotor<Scalar, 3> to_rotor(const Eigen::Quaternion<Scalar, Options>& q) {
  return {{}, {q.w(), Scalar(-q.z()), q.y(), Scalar(-q.x())}};
}
/// The same for an axis of unit length and an angle in radians, by the right-hand rule.
template <class Scalar>
Rotor<Scalar, 3> to_rotor(const Eigen::AngleAxis<Scalar>& turn) {
  return to_rotor(Eigen::Quaternion<Scalar>(turn));
}
template <class Scalar>
Eigen::Quaternion<Scalar> to_quaternion(const Rotor<Scalar, 3>& r) {
  return {r[0], Scalar(-r[3]), r[2], Scalar(-r[1])};
}
/// Axis and angle of a rotor, the angle in [0, pi]; the axis of the identity is e1.
template <class Scalar>
Eigen::AngleAxis<Scalar> to_angle_axis(const Rotor<Scalar, 3>& r) {
  return Eigen::AngleAxis<Scalar>(to_quaternion(r));
}

/// The rotation about an axis of any length by an angle in radians, by the right-hand rule.
/// \throws std::invalid_argument where the axis is zero or not finite.
template <std::floating_point Scalar>
Rotor<Scalar, 3> from_axis_angle(const Vector<Scalar, 3>& axis, std::type_identity_t<Scalar> angle) {
  const Scalar length = axis.coeffs().stableNorm();
  if (!(length > Scalar(0)) || !(length <= std::numeric_limits<Scalar>::max())) {
    detail::throw_invalid("from_axis_angle: the axis is ", axis, ", expected a finite one that is not zero");
  }
  const Eigen::Matrix<Scalar, 3, 1> unit = axis.coeffs() / length;
  return to_rotor(Eigen::AngleAxis<Scalar>(angle, unit));
}

/// Euler's angles in radians: the rotation by angles[2] about e_axes[2], then by angles[1] about e_axes[1],
/// then by angles[0] about e_axes[0]; all about the fixed axes. Axes are 1, 2, 3; {3, 2, 1} with {yaw, pitch,
/// roll} is the custom of aviation.
/// \throws std::invalid_argument where an axis is none of them.
template <std::floating_point Scalar>
Rotor<Scalar, 3> from_euler_angles(const Eigen::Matrix<Scalar, 3, 1>& angles, const Eigen::Vector3i& axes) {
  Rotor<Scalar, 3> product;
  for (int k = 0; k < 3; ++k)
    product = product * from_axis_angle(Vector<Scalar, 3>::basis(axes[k]), angles[k]);
  return product;
}
/// The way back: angles in the ranges of Eigen's `eulerAngles`, [0, pi] x [-pi, pi] x [-pi, pi].
/// \throws std::invalid_argument where an axis is none of 1, 2, 3, or two neighbours are equal.
template <std::floating_point Scalar>
Eigen::Matrix<Scalar, 3, 1> to_euler_angles(const Rotor<Scalar, 3>& r, const Eigen::Vector3i& axes) {
  if ((axes.array() < 1).any() || (axes.array() > 3).any() || axes[0] == axes[1] || axes[1] == axes[2]) {
    detail::throw_invalid("to_euler_angles: axes ", axes.transpose(),
                          ", expected each of 1, 2, 3 and neighbours that differ");
  }
  return r.to_rotation_matrix().eulerAngles(axes[0] - 1, axes[1] - 1, axes[2] - 1);
}

/// The rotor of the shortest turn of the direction of a to that of b, in any Euclidean algebra; where they
/// are opposite, by pi in one of the planes that have a in them. \throws std::invalid_argument where a or b
/// is zero or not finite, in other signatures, and for opposite vectors of one dimension.
template <std::floating_point Scalar, int P, int Q, int R>
Rotor<Scalar, P, Q, R> between(const Vector<Scalar, P, Q, R>& a, const Vector<Scalar, P, Q, R>& b) {
  using V = Vector<Scalar, P, Q, R>;
  a.check_same_algebra("between", b);
  if (!a.signature().is_euclidean()) {
    detail::throw_invalid("between: vectors of ", a.signature(), ", expected a Euclidean algebra");
  }
  const Scalar length_a = a.coeffs().stableNorm(), length_b = b.coeffs().stableNorm();
  if (!(length_a > Scalar(0)) || !(length_b > Scalar(0)) || !a.all_finite() || !b.all_finite()) {
    detail::throw_invalid("between: ", a, " and ", b, ", expected finite vectors that are not zero");
  }
  const V from = a / length_a, to = b / length_b;
  V half = from + to;  // r = h a with the unit vector h half way
  const Scalar length = half.coeffs().norm();
  if (length > Scalar(1e-3)) return (half * from).even_part() / length;
  if (a.dimension() < 2) {
    detail::throw_invalid("between: opposite vectors of ", a.signature(), ": there is no plane to turn in");
  }
  // nearly opposite: turn by pi in a plane of a, then the rest of the way
  Index smallest = 0;
  from.coeffs().cwiseAbs().minCoeff(&smallest);
  V normal = V::basis(a.signature(), static_cast<int>(smallest) + 1);
  V rest = to + from;  // at right angles to `from` but for its square
  rest -= from * scalar_product(rest, from);
  if (rest.coeffs().norm() > std::numeric_limits<Scalar>::epsilon()) normal = rest;
  normal -= from * scalar_product(normal, from);
  normal /= normal.coeffs().norm();
  normal -= from * scalar_product(normal, from);
  normal /= normal.coeffs().norm();
  const Scalar cosine = scalar_product(from, to), sine = scalar_product(normal, to);
  const Scalar angle = std::atan2(sine, cosine) / Scalar(2);
  Rotor<Scalar, P, Q, R> r = (normal * from).even_part() * std::sin(angle);
  r[0] += std::cos(angle);
  return r;
}

/// The rotor of the rotation nearest to a matrix in the sum of squares, by the polar decomposition; the
/// determinant of the matrix may be negative. Strict is `Rotor::from_rotation_matrix`.
/// \throws std::invalid_argument unless the matrix is n x n, and where the nearest rotation is not unique
/// (two singular values that vanish, or, of a negative determinant, the smallest two equal);
/// std::domain_error where it has entries that are NaN or infinite.
template <class R, class M>
requires std::same_as<R, Rotor<typename R::Scalar, R::static_dimension>> R
nearest_rotor(const Eigen::MatrixBase<M>& matrix) {
  using Scalar = typename R::Scalar;
  using Square = typename R::RotationMatrix;
  const Index n = matrix.rows();
  if (matrix.cols() != n || n < 1 || (R::static_dimension != Dynamic && n != R::static_dimension) ||
      n > max_dimension) {
    detail::throw_invalid("nearest_rotor: matrix of ", detail::shape(matrix),
                          ", expected n x n, 1 <= n <= ", max_dimension, ", with the n of the rotor");
  }
  Square square = matrix;
  if (!detail::all_finite(square)) {
    detail::throw_domain("nearest_rotor: the matrix has entries that are NaN or infinite");
  }
  const Scalar largest = square.cwiseAbs().maxCoeff();
  if (largest > Scalar(0)) square /= largest;
  const Eigen::JacobiSVD<Square> svd(square, Eigen::ComputeFullU | Eigen::ComputeFullV);
  const auto& values = svd.singularValues();
  Square u = svd.matrixU();
  const Square product = u.lazyProduct(svd.matrixV().transpose());
  const bool flip = product.determinant() < Scalar(0);
  const Scalar noise = Scalar(8) * std::numeric_limits<Scalar>::epsilon() * values[0];
  const Scalar gap = n < 2 ? values[0] : flip ? values[n - 2] - values[n - 1] : values[n - 2] + values[n - 1];
  if (!(gap > noise) || (n < 2 && flip)) {
    detail::throw_invalid("nearest_rotor: no rotation is nearest, the singular values are ",
                          values.transpose(), flip ? " and the determinant is negative" : "");
  }
  if (flip) u.col(n - 1) = -u.col(n - 1);
  return R::from_rotation_matrix(u.lazyProduct(svd.matrixV().transpose()));
}

/// An element with independent normal coefficients of variance 1.
template <AlgebraElement E>
E random_element(const typename E::SignatureType& algebra, Random& random) {
  E element(algebra);
  for (Index i = 0; i < element.size(); ++i) element[i] = static_cast<typename E::Scalar>(random.normal());
  return element;
}

/// A rotor of Cl(n), uniform over rotations (Haar's measure) and their two signs: the product of n vectors of
/// which the k-th is uniform on the sphere of k dimensions (Stewart 1980).
template <std::floating_point Scalar, int N>
Rotor<Scalar, N> random_rotor(const Signature<N>& algebra, Random& random) {
  using V = Vector<Scalar, N>;
  const int n = algebra.n();
  Multivector<Scalar, N> product = Multivector<Scalar, N>::scalar(algebra, Scalar(1));
  int reflections = 0;
  for (int k = n; k >= 2; --k) {
    V v(algebra);  // e_first goes to a uniform unit vector of the last k dimensions
    for (int i = n - k; i < n; ++i) v[i] = static_cast<Scalar>(random.normal());
    v /= v.coeffs().norm();
    v[n - k] -= Scalar(1);
    const Scalar length = v.coeffs().norm();
    if (!(length > Scalar(0))) continue;
    product = product * (v / length);
    ++reflections;
  }
  if (reflections % 2 != 0) product = product * V::basis(algebra, n);
  const Rotor<Scalar, N> r = product.even_part();
  return random.uniform() < 0.5 ? r : -r;
}

/// r v r~ for every column v of an n x count matrix of coordinates, by the rotation matrix.
/// \throws std::invalid_argument where the matrix has not n rows.
template <class Scalar, int N, class M>
Eigen::Matrix<Scalar, N, Dynamic, Eigen::ColMajor> rotate(const Rotor<Scalar, N>& r, const Eigen::MatrixBase<M>& vectors) {
  static_assert(std::same_as<typename M::Scalar, Scalar>, "rotorlin: rotor and vectors of one scalar type");
  const Index n = r.dimension(), count = vectors.cols();
  if (vectors.rows() != n) {
    detail::throw_invalid("rotate: vectors of ", detail::shape(vectors), " by a rotor of ", r.signature(),
                          ", expected ", n, " rows");
  }
  const auto matrix = r.to_rotation_matrix();
  Eigen::Matrix<Scalar, N, Dynamic, Eigen::ColMajor> result(n, count);
  if constexpr (N == 3) {
    const Eigen::Ref<const Eigen::Matrix<Scalar, 3, Dynamic, Eigen::ColMajor>> x(vectors.derived());
    const Scalar* from = x.data();
    const Index stride = x.outerStride();
    Scalar* to = result.data();
    const Scalar* m = matrix.data();
    const Scalar m0 = m[0], m1 = m[1], m2 = m[2], m3 = m[3], m4 = m[4], m5 = m[5], m6 = m[6], m7 = m[7],
                 m8 = m[8];
    const auto turn = [&](Index step) {
      for (Index j = 0; j < count; ++j) {
        const Scalar a = from[step * j], b = from[step * j + 1], c = from[step * j + 2];
        to[3 * j] = m0 * a + m3 * b + m6 * c;
        to[3 * j + 1] = m1 * a + m4 * b + m7 * c;
        to[3 * j + 2] = m2 * a + m5 * b + m8 * c;
      }
    };
    if (stride == 3) {
      turn(3);  // a constant step, for vector registers
    } else {
      turn(stride);
    }
  } else {
    result.noalias() = matrix * vectors.derived();
  }
  return result;
}

}  // namespace rotorlin
