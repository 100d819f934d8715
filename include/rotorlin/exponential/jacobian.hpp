// SPDX-License-Identifier: MIT
/// \file
/// Jacobians of the rotors of Cl(3): compose, apply, exp and log with an optional argument for each. A rotor
/// varies by bivectors on its right, r exp(d) with the three coefficients of d (of e12, e13, e23) as
/// coordinates; vectors and bivectors vary by what is added to their coefficients. With ad_b(h) = b h - h b
/// and half the angle of turn a = |b| the right Jacobian of exp is phi(-ad_b), phi(z) = (e^z - 1)/z:
///
///     J = 1 - (sin a / a)^2 ad_b / 2 + (2 a - sin 2a) / (8 a^3) ad_b^2,
///     J^-1 = 1 + ad_b / 2 + (1 - a cot a) / (4 a^2) ad_b^2.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <concepts>
#include <limits>

#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/log.hpp"

namespace rotorlin {

/// d(result)/d(argument), row i of the result, column j of the argument.
template <class Scalar>
using Jacobian3 = Eigen::Matrix<Scalar, 3, 3, Eigen::ColMajor>;

namespace detail {

/// The matrix of h -> b h - h b on the bivectors of Cl(3).
template <class Scalar>
Jacobian3<Scalar> adjoint_matrix(const Bivector<Scalar, 3>& b) {
  const Scalar x = Scalar(2) * b[0], y = Scalar(2) * b[1], z = Scalar(2) * b[2];
  return Jacobian3<Scalar>{{Scalar(0), z, -y}, {-z, Scalar(0), x}, {y, -x, Scalar(0)}};
}

/// 1 + first A + second A^2 for A = ad_b.
template <class Scalar>
Jacobian3<Scalar> adjoint_polynomial(const Bivector<Scalar, 3>& b, const Scalar& first,
                                     const Scalar& second) {
  const Jacobian3<Scalar> a = adjoint_matrix(b);
  return Jacobian3<Scalar>::Identity() + first * a + second * a.lazyProduct(a);
}

}  // namespace detail

/// exp(b); `jacobian` becomes that by b: exp(b + d) = exp(b) exp(J d) to first order.
template <std::floating_point Scalar>
Rotor<Scalar, 3> exp(const Bivector<Scalar, 3>& b, Jacobian3<Scalar>* jacobian) {
  const Rotor<Scalar, 3> r = exp(b);
  if (jacobian != nullptr) {
    const Scalar a = b.norm(), s = detail::sinc(a);
    const Scalar second =
        a < Scalar(0.1) ? Scalar(1) / 6 - a * a / 30 + a * a * a * a / 315 - a * a * a * a * a * a / 5670
                        : (Scalar(2) * a - std::sin(Scalar(2) * a)) / (Scalar(8) * a * a * a);
    *jacobian = detail::adjoint_polynomial(b, Scalar(-0.5) * s * s, second);
  }
  return r;
}

/// log(r); `jacobian` becomes that by r: log(r exp(d)) = log(r) + J d to first order.
/// \throws as `log` does, and std::domain_error where the Jacobian is asked for at r = -1, which has none.
template <std::floating_point Scalar>
Bivector<Scalar, 3> log(const Rotor<Scalar, 3>& r, Jacobian3<Scalar>* jacobian) {
  const Bivector<Scalar, 3> b = log(r);
  if (jacobian != nullptr) {
    const Scalar a = b.norm();
    const Scalar cotangent = std::cos(a) / std::sin(a);
    const Scalar second =
        a < Scalar(0.1) ? Scalar(1) / 12 + a * a / 180 + a * a * a * a / 1890 + a * a * a * a * a * a / 18900
                        : (Scalar(1) - a * cotangent) / (Scalar(4) * a * a);
    if (!(second * a <= Scalar(1) / std::sqrt(std::numeric_limits<Scalar>::epsilon()))) {
      detail::throw_domain("log: no Jacobian at the rotor -1, where the logarithm jumps");
    }
    *jacobian = detail::adjoint_polynomial(b, Scalar(0.5), second);
  }
  return b;
}

/// r s; the Jacobian by r is that of h -> s~ h s, the one by s is 1.
template <std::floating_point Scalar>
Rotor<Scalar, 3> compose(const Rotor<Scalar, 3>& r, const Rotor<Scalar, 3>& s,
                         Jacobian3<Scalar>* by_r = nullptr, Jacobian3<Scalar>* by_s = nullptr) {
  if (by_r != nullptr) {
    for (Index k = 0; k < 3; ++k) {
      Bivector<Scalar, 3> axis;
      axis[k] = Scalar(1);
      by_r->col(k) = s.reversed().apply(axis).coeffs();
    }
  }
  if (by_s != nullptr) by_s->setIdentity();
  return r * s;
}

/// r v r~; the Jacobian by v is the rotation matrix, the one by r that of d -> r (d v - v d) r~.
template <std::floating_point Scalar>
Vector<Scalar, 3> apply(const Rotor<Scalar, 3>& r, const Vector<Scalar, 3>& v,
                        Jacobian3<Scalar>* by_r = nullptr, Jacobian3<Scalar>* by_v = nullptr) {
  if (by_r != nullptr || by_v != nullptr) {
    const Jacobian3<Scalar> rotation = r.to_rotation_matrix();
    // e12 v - v e12 = 2 (v_2 e1 - v_1 e2), and so on
    if (by_r != nullptr) {
      const Jacobian3<Scalar> moved{
          {v[1], v[2], Scalar(0)}, {-v[0], Scalar(0), v[2]}, {Scalar(0), -v[0], -v[1]}};
      *by_r = Scalar(2) * rotation.lazyProduct(moved);
    }
    if (by_v != nullptr) *by_v = rotation;
  }
  return r.apply(v);
}

}  // namespace rotorlin
