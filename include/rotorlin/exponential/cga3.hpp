// SPDX-License-Identifier: MIT
/// \file
/// Conformal geometric algebra of space, Cl(4, 1), by the names of its field: makers and readers, and nothing
/// else; elements are those of the algebra, and every product works on them.
///
/// e4 squares to 1 (the field's e+), e5 to -1 (e-). e_inf = e4 + e5 is the point at infinity and
/// e_o = (e5 - e4)/2 the origin: both are null and e_inf . e_o = -1. Points, spheres and planes are vectors
/// (s . p = 0 for the points p on them, the inner product null space); with the outer product of points come
/// p ^ q ^ r (a circle), p ^ q ^ e_inf (a line), p ^ q ^ r ^ s (a sphere), p ^ q ^ r ^ e_inf (a plane), where
/// x ^ p = 0 for the points on x; and a ^ b is also the meet of two vectors. v.apply(x) moves any x.
#pragma once

#include <Eigen/Geometry>
#include <cmath>

#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/exponential/exp.hpp"

namespace rotorlin::cga3 {

template <class Scalar>
using Vector5 = Vector<Scalar, 4, 1>;
template <class Scalar>
using Element = Multivector<Scalar, 4, 1>;
template <class Scalar>
using Versor = Rotor<Scalar, 4, 1>;
template <class Scalar>
using Vector3 = Eigen::Matrix<Scalar, 3, 1>;

/// The point at infinity, e4 + e5.
template <class Scalar>
Vector5<Scalar> e_inf() {
  return {Scalar(0), Scalar(0), Scalar(0), Scalar(1), Scalar(1)};
}
/// The origin, (e5 - e4)/2.
template <class Scalar>
Vector5<Scalar> e_o() {
  return {Scalar(0), Scalar(0), Scalar(0), Scalar(-0.5), Scalar(0.5)};
}

/// The point x + x^2/2 e_inf + e_o, a null vector.
template <class Scalar>
Vector5<Scalar> point(Scalar x, Scalar y, Scalar z) {
  const Scalar half = (x * x + y * y + z * z) / Scalar(2);
  return {x, y, z, half - Scalar(0.5), half + Scalar(0.5)};
}
template <class Scalar>
Vector5<Scalar> point(const Vector3<Scalar>& x) {
  return point(x[0], x[1], x[2]);
}

/// The sphere with a center and a radius: the point less radius^2/2 e_inf. Its square is radius^2.
template <class Scalar>
Vector5<Scalar> sphere(const Vector3<Scalar>& center, Scalar radius) {
  return point(center) - e_inf<Scalar>() * (radius * radius / Scalar(2));
}
/// The plane n . x = d, with a unit vector n: n + d e_inf.
template <class Scalar>
Vector5<Scalar> plane(const Vector3<Scalar>& n, Scalar d) {
  return {n[0], n[1], n[2], d, d};
}

/// -v . e_inf, the weight: 1 for a point or sphere as made here, 0 for planes.
template <class Scalar>
Scalar weight(const Vector5<Scalar>& v) {
  return v[4] - v[3];
}
/// Coordinates of a point, or of the center of a sphere, of any weight.
/// \throws std::invalid_argument for planes and points at infinity (weight 0).
template <class Scalar>
Vector3<Scalar> coordinates(const Vector5<Scalar>& v) {
  const Scalar w = weight(v);
  if (w == Scalar(0)) {
    rotorlin::detail::throw_invalid("cga3::coordinates: ", v,
                                    " has no center, it is a plane or lies at infinity");
  }
  return Vector3<Scalar>(v[0], v[1], v[2]) / w;
}
/// The squared radius of a sphere: 0 for points, negative for imaginary spheres.
/// \throws std::invalid_argument for planes (weight 0).
template <class Scalar>
Scalar squared_radius(const Vector5<Scalar>& v) {
  const Vector3<Scalar> center = coordinates(v);
  return center.squaredNorm() - (v[3] + v[4]) / weight(v);
}
/// Distance of two points: sqrt(-2 p . q) for those of weight 1.
template <class Scalar>
Scalar distance(const Vector5<Scalar>& p, const Vector5<Scalar>& q) {
  return (coordinates(p) - coordinates(q)).norm();
}

/// Moves by t: 1 - t ^ e_inf / 2.
template <class Scalar>
Versor<Scalar> translator(const Vector3<Scalar>& t) {
  const Vector5<Scalar> shift{t[0], t[1], t[2], Scalar(0), Scalar(0)};
  Versor<Scalar> v = (shift ^ e_inf<Scalar>()).even_part() * Scalar(-0.5);
  v[0] = Scalar(1);
  return v;
}
/// Turns about an axis through the origin, a unit vector, by an angle in radians, counterclockwise seen
/// against the axis.
template <class Scalar>
Versor<Scalar> rotor(const Vector3<Scalar>& axis, Scalar angle) {
  Bivector<Scalar, 4, 1> plane;  // e12, e13, e14, e15, e23
  plane[0] = axis[2];
  plane[1] = -axis[1];
  plane[4] = axis[0];
  return exp(plane * (-angle / Scalar(2)));
}
/// Scales distances from the origin by a factor > 0.
/// \throws std::invalid_argument for other factors.
template <class Scalar>
Versor<Scalar> dilator(Scalar factor) {
  if (!(factor > Scalar(0))) {
    rotorlin::detail::throw_invalid("cga3::dilator: factor ", factor, ", expected one > 0");
  }
  return exp((e_inf<Scalar>() ^ e_o<Scalar>()) * (std::log(factor) / Scalar(-2)));
}

}  // namespace rotorlin::cga3
