// SPDX-License-Identifier: MIT
/// \file
/// The logarithm of Euclidean rotors, and the interpolation that it gives.
///
/// The rotation M = exp(2 A) of a rotor r has planes that turn by 2t; the half angles t lie in [0, pi/2] and
/// are found by atan from their tangents, never acos. They make a bivector whose exponential is r or -r.
/// Where it is -r, the largest half angle becomes t - pi. So the principal logarithm has all angles in [0,
/// pi/2] but for one that may be up to pi. It is the shortest where the angles differ; at t = pi/2 the plane
/// may be turned either way, and at -1 any plane does.
#pragma once

#include <Eigen/Core>
#include <Eigen/Jacobi>
#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <numbers>
#include <utility>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/products.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/invariant_decomposition.hpp"

namespace rotorlin {

namespace detail {

/// Makes a symmetric matrix diagonal by Jacobi's rotations, and returns the orthogonal V of matrix = V D V^T.
template <class M>
M diagonalize_symmetric(M& matrix) {
  using Scalar = typename M::Scalar;
  const Index n = matrix.rows();
  M basis = M::Identity(n, n);
  const Scalar negligible = std::numeric_limits<Scalar>::epsilon() / 2 * matrix.norm();
  bool done = false;
  for (int sweep = 0; sweep < 30 && !done; ++sweep) {
    done = true;
    for (Index q = 1; q < n; ++q) {
      for (Index p = 0; p < q; ++p) {
        if (!(std::abs(matrix(p, q)) > negligible)) continue;
        done = false;
        Eigen::JacobiRotation<Scalar> rotation;
        rotation.makeJacobi(matrix, p, q);
        matrix.applyOnTheLeft(p, q, rotation.adjoint());
        matrix.applyOnTheRight(p, q, rotation);
        matrix(p, q) = matrix(q, p) = Scalar(0);  // but for rounding
        basis.applyOnTheRight(p, q, rotation);
      }
    }
  }
  return basis;
}

/// The planes of a rotation M = exp(2 A) and half its angles, in [0, pi/2] and descending.
///
/// The symmetric part C of M has the cosines of the whole angles, each twice; the skew part S has the sines,
/// and commutes with C. On the planes with angles below a right one (or so), Cayley's S / (1 + C) is skew and
/// has the tangents of the half angles t, which lie close where and only where the angles do, and tell tiny
/// angles to full relative accuracy. On the others the same of -M has the tangents of pi/2 - t. The planes
/// are parted where the cosines have their largest gap around zero, so that both sets are known to rounding.
template <std::floating_point Scalar, int N>
InvariantDecomposition<Scalar, N> half_angle_decomposition(
    const typename Rotor<Scalar, N>::RotationMatrix& rotation) {
  using Square = typename Rotor<Scalar, N>::RotationMatrix;
  const Index n = rotation.rows();
  Square symmetric = (rotation + rotation.transpose()) / Scalar(2);
  Square skew = (rotation - rotation.transpose()) / Scalar(2);
  const Square v = diagonalize_symmetric(symmetric);
  const Square image = skew.lazyProduct(v);
  skew = v.transpose().lazyProduct(image);

  std::array<Scalar, max_dimension + 2> cosines;
  auto end = cosines.begin();
  *end++ = Scalar(-0.5);
  *end++ = Scalar(0.5);
  for (Index i = 0; i < n; ++i) {
    if (std::abs(symmetric(i, i)) < Scalar(0.5)) *end++ = symmetric(i, i);
  }
  std::sort(cosines.begin(), end);
  Scalar gap(0), border(0);
  for (auto c = cosines.begin(); c + 1 != end; ++c) {
    if (c[1] - c[0] <= gap) continue;
    gap = c[1] - c[0];
    border = (c[0] + c[1]) / Scalar(2);
  }

  typename InvariantDecomposition<Scalar, N>::Basis basis = Square::Identity(n, n);
  typename InvariantDecomposition<Scalar, N>::Angles angles;
  angles.setZero(n / 2);
  Index plane = 0;
  for (const int sign : {-1, 1}) {  // -M and then M
    std::array<Index, max_dimension> members;
    int size = 0;
    for (Index i = 0; i < n; ++i) {
      if ((symmetric(i, i) > border) == (sign > 0)) members[static_cast<std::size_t>(size++)] = i;
    }
    Bivector<Scalar, Dynamic> tangents(size);
    for (int i = 0, k = 0; i < size; ++i) {
      for (int j = i + 1; j < size; ++j, ++k) {
        const Index row = members[static_cast<std::size_t>(i)], col = members[static_cast<std::size_t>(j)];
        const auto factor = [&](Index m) {
          return Scalar(0.5 * sign) / (Scalar(1) + Scalar(sign) * symmetric(m, m));
        };
        tangents[k] = skew(row, col) * (factor(row) + factor(col));
      }
    }
    const InvariantDecomposition<Scalar> part(tangents);
    const auto column = [&](Index k) {
      Eigen::Matrix<Scalar, Dynamic, 1, Eigen::ColMajor, max_dimension, 1> sum;
      sum.setZero(n);
      for (int i = 0; i < size; ++i) sum += part.basis()(i, k) * v.col(members[static_cast<std::size_t>(i)]);
      return sum;
    };
    for (Index p = 0; p < part.num_planes(); ++p, ++plane) {
      const Scalar half = std::atan(part.angles()[p]);
      angles[plane] = sign > 0 ? half : std::numbers::pi_v<Scalar> / 2 - half;
      basis.col(2 * plane) = column(sign > 0 ? 2 * p : 2 * p + 1);  // -M turns the other way
      basis.col(2 * plane + 1) = column(sign > 0 ? 2 * p + 1 : 2 * p);
    }
    if (sign > 0 && size % 2 == 1) basis.col(n - 1) = column(size - 1);
  }
  return {basis, angles};
}

/// The rotation matrix of a Euclidean rotor, for the function `who`.
template <std::floating_point Scalar, int P, int Q, int R>
auto checked_rotation_matrix(const char* who, const Rotor<Scalar, P, Q, R>& r) {
  using Rotation = typename Rotor<Scalar, P, Q, R>::RotationMatrix;
  if (!r.all_finite()) {
    throw_domain(who, ": the rotor of ", r.signature(), " has coefficients that are NaN or infinite");
  }
  const Rotation rotation = r.to_rotation_matrix();
  const Index n = rotation.rows();
  const Scalar error =
      n == 0 ? std::abs(r[0] * r[0] - Scalar(1))
             : (rotation.transpose() * rotation - Rotation::Identity(n, n)).cwiseAbs().maxCoeff();
  if (!(error <= Scalar(8) * std::sqrt(std::numeric_limits<Scalar>::epsilon()))) {
    throw_invalid(who, ": expected a rotor, but v -> r v r~ is not orthogonal, |M^T M - 1| = ", error,
                  "; use normalized()");
  }
  return rotation;
}

}  // namespace detail

/// The principal logarithm: exp(log(r)) = r, with all angles in [0, pi/2] but for one that may be up to pi.
/// \throws std::domain_error where a coefficient is NaN or infinite; std::invalid_argument where the
/// signature is not Euclidean, r is not a rotor to the square root of the rounding unit (see
/// Rotor::normalized), or r is -1 and n < 2.
template <std::floating_point Scalar, int P, int Q, int R>
Bivector<Scalar, P, Q, R> log(const Rotor<Scalar, P, Q, R>& r) {
  constexpr int n = detail::decomposition_dimension<P, Q, R>;
  auto planes = detail::half_angle_decomposition<Scalar, n>(detail::checked_rotation_matrix("log", r));
  if (planes.rotor().coeffs().dot(r.coeffs()) < Scalar(0)) {
    if (planes.num_planes() == 0)
      detail::throw_invalid("log: the rotor -1 of ", r.signature(),
                            " has no logarithm: there is no plane to turn");
    auto angles = planes.angles();
    angles[0] -= std::numbers::pi_v<Scalar>;
    planes = {planes.basis(), angles};
  }
  return {r.signature(), planes.bivector().coeffs()};
}

/// The rotor at time t of the rotation from `start` (t = 0) to `end` (t = 1) at constant speed, the short
/// way: every plane turns by at most pi. So at t = 1 it is `end` or -`end`, which are the same rotation.
/// \throws as `log` does.
template <std::floating_point Scalar, int P, int Q, int R>
Rotor<Scalar, P, Q, R> slerp(const Rotor<Scalar, P, Q, R>& start, const Rotor<Scalar, P, Q, R>& end,
                             Scalar t) {
  constexpr int n = detail::decomposition_dimension<P, Q, R>;
  const auto planes = detail::half_angle_decomposition<Scalar, n>(
      detail::checked_rotation_matrix("slerp", start.reversed() * end));
  const Bivector<Scalar, P, Q, R> b(start.signature(), planes.bivector().coeffs());
  return start * exp(b * t);
}

}  // namespace rotorlin
