// SPDX-License-Identifier: MIT
/// \file
/// Projective geometric algebra of space, Cl(3, 0, 1), by the names of its field: makers and readers, and
/// nothing else; elements are those of the algebra, and every product works on them.
///
/// Planes are vectors, lines bivectors, points trivectors (the plane-based convention of bivector.net). **The
/// null vector that the field calls e0 is the last basis vector here, e4**, so that e01 is -e14 and the
/// pseudoscalar e0123 is -e1234. The outer product is the meet; m.apply(x) moves any x by a motor m.
/// Points, lines and planes are normalized (weight 1) where a motor or a distance is made of them.
#pragma once

#include <Eigen/Geometry>
#include <cmath>

#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/exponential/exp.hpp"

namespace rotorlin::pga3 {

template <class Scalar>
using Plane = Vector<Scalar, 3, 0, 1>;
template <class Scalar>
using Line = Bivector<Scalar, 3, 0, 1>;
/// Points and ideal points (directions) are the trivectors among these.
template <class Scalar>
using Element = Multivector<Scalar, 3, 0, 1>;
template <class Scalar>
using Motor = Rotor<Scalar, 3, 0, 1>;

/// e0, the null vector: e4 of the library, the plane at infinity.
template <class Scalar>
Plane<Scalar> e0() {
  return Plane<Scalar>::basis(4);
}

/// The plane a x + b y + c z + d = 0: a e1 + b e2 + c e3 + d e0.
template <class Scalar>
Plane<Scalar> plane(Scalar a, Scalar b, Scalar c, Scalar d) {
  return {a, b, c, d};
}

/// The point with coordinates x, y, z: e123 + x e032 + y e013 + z e021.
template <class Scalar>
Element<Scalar> point(Scalar x, Scalar y, Scalar z) {
  Element<Scalar> p;
  p[11] = Scalar(1);  // e123, e124, e134, e234
  p[12] = -z;
  p[13] = y;
  p[14] = -x;
  return p;
}
template <class Scalar>
Element<Scalar> point(const Eigen::Matrix<Scalar, 3, 1>& x) {
  return point(x[0], x[1], x[2]);
}
/// The point at infinity in the direction x, y, z.
template <class Scalar>
Element<Scalar> direction(Scalar x, Scalar y, Scalar z) {
  Element<Scalar> p = point(x, y, z);
  p[11] = Scalar(0);
  return p;
}

/// Coordinates of a point of any weight.
/// \throws std::invalid_argument for an ideal point, which has none.
template <class Scalar>
Eigen::Matrix<Scalar, 3, 1> coordinates(const Element<Scalar>& p) {
  if (p[11] == Scalar(0)) {
    rotorlin::detail::throw_invalid("pga3::coordinates: the point ", p,
                                    " lies at infinity, expected one with a part e123");
  }
  return Eigen::Matrix<Scalar, 3, 1>(-p[14], p[13], -p[12]) / p[11];
}

/// Moves by x, y, z: 1 + (x e14 + y e24 + z e34)/2, the field's 1 - (x e01 + y e02 + z e03)/2 by its e0.
template <class Scalar>
Motor<Scalar> translator(Scalar x, Scalar y, Scalar z) {
  return {
      {},
      {Scalar(1), Scalar(0), Scalar(0), x / Scalar(2), Scalar(0), y / Scalar(2), z / Scalar(2), Scalar(0)}};
}
template <class Scalar>
Motor<Scalar> translator(const Eigen::Matrix<Scalar, 3, 1>& x) {
  return translator(x[0], x[1], x[2]);
}

/// The line through a point in a direction, both by coordinates; of weight 1 where the direction is a unit
/// vector. The line where two planes meet is p ^ q.
template <class Scalar>
Line<Scalar> line(const Eigen::Matrix<Scalar, 3, 1>& through, const Eigen::Matrix<Scalar, 3, 1>& along) {
  const Line<Scalar> at_origin{along[2], -along[1], Scalar(0), along[0], Scalar(0), Scalar(0)};
  return translator(through).apply(at_origin);
}

/// The direction of a line, its e23, e31, e12.
template <class Scalar>
Eigen::Matrix<Scalar, 3, 1> direction_of(const Line<Scalar>& l) {
  return {l[3], -l[1], l[0]};
}

/// The rotation about a line by an angle in radians, counterclockwise seen against its direction.
/// \throws std::invalid_argument for a line at infinity.
template <class Scalar>
Motor<Scalar> rotor(const Line<Scalar>& axis, Scalar angle) {
  const Scalar weight = axis.norm();
  if (!(weight > Scalar(0))) {
    rotorlin::detail::throw_invalid("pga3::rotor: the axis ", axis, " lies at infinity");
  }
  return exp(axis * (-angle / (Scalar(2) * weight)));
}

/// Distance of a point from a plane, positive on the side that the plane's normal points to.
template <class Scalar>
Scalar distance(const Element<Scalar>& p, const Plane<Scalar>& plane) {
  const auto x = coordinates(p);
  return (plane[0] * x[0] + plane[1] * x[1] + plane[2] * x[2] + plane[3]) / plane.norm();
}
/// Distance of two points.
template <class Scalar>
Scalar distance(const Element<Scalar>& p, const Element<Scalar>& q) {
  return (coordinates(p) - coordinates(q)).norm();
}

/// The motor of a rigid motion x -> R x + t, scalar part >= 0; it moves points, lines and planes.
/// \throws std::invalid_argument unless the linear part is a rotation (Rotor::from_rotation_matrix).
template <class Scalar>
Motor<Scalar> motor(const Eigen::Transform<Scalar, 3, Eigen::Isometry>& motion) {
  const Rotor<Scalar, 3> r = Rotor<Scalar, 3>::from_rotation_matrix(motion.linear());
  const Eigen::Matrix<Scalar, 3, 1> t = motion.translation();
  return translator(t) * Motor<Scalar>{r[0], r[1], r[2], Scalar(0), r[3], Scalar(0), Scalar(0), Scalar(0)};
}
/// The same of a homogeneous 4 x 4 matrix with the last row 0 0 0 1.
template <class Scalar, int Order>
Motor<Scalar> motor(const Eigen::Matrix<Scalar, 4, 4, Order>& matrix) {
  if (!(matrix.row(3) == Eigen::Matrix<Scalar, 1, 4>(0, 0, 0, 1))) {
    rotorlin::detail::throw_invalid("pga3::motor: the last row of the matrix is ", matrix.row(3),
                                    ", expected 0 0 0 1");
  }
  Eigen::Transform<Scalar, 3, Eigen::Isometry> motion;
  motion.matrix() = matrix;
  return motor(motion);
}

/// The rigid motion of a motor; drift is normalized away. `.matrix()` of it is 4 x 4.
/// \throws std::invalid_argument where no motor is near.
template <class Scalar>
Eigen::Transform<Scalar, 3, Eigen::Isometry> isometry(const Motor<Scalar>& given) {
  const Motor<Scalar> m = given.normalized();
  const Motor<Scalar> turn{m[0], m[1], m[2], Scalar(0), m[4], Scalar(0), Scalar(0), Scalar(0)};
  const Motor<Scalar> shift = m * turn.reversed();
  Eigen::Transform<Scalar, 3, Eigen::Isometry> motion;
  motion.setIdentity();
  motion.linear() = Rotor<Scalar, 3>{m[0], m[1], m[2], m[4]}.to_rotation_matrix();
  motion.translation() = Eigen::Matrix<Scalar, 3, 1>(shift[3], shift[5], shift[6]) * Scalar(2);
  return motion;
}

}  // namespace rotorlin::pga3
