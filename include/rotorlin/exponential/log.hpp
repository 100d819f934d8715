// SPDX-License-Identifier: MIT
/// \file
/// The logarithm of Euclidean rotors, and the interpolation that it gives.
///
/// The rotation M = exp(2 A) of a rotor r has a real Schur form with blocks of cos 2t and sin 2t; the half
/// angles t lie in [0, pi/2] and are found by atan2, never acos. They make a bivector whose exponential is r
/// or -r. Where it is -r, the largest half angle becomes t - pi. So the principal logarithm has all angles in
/// [0, pi/2] but for one that may be up to pi. It is the shortest where the angles differ; at t = pi/2 the
/// plane may be turned either way, and at -1 any plane does.
#pragma once

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
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

/// The planes of a rotation matrix and half their angles, in [0, pi/2] and descending.
template <std::floating_point Scalar, int N>
InvariantDecomposition<Scalar, N> half_angle_decomposition(
    const typename Rotor<Scalar, N>::RotationMatrix& rotation) {
  using Rotation = typename Rotor<Scalar, N>::RotationMatrix;
  const Index n = rotation.rows(), planes = n / 2;
  const Rotation skew = (rotation - rotation.transpose()) / Scalar(2);
  const Signature<N> algebra(static_cast<int>(n));
  // The skew part alone has the planes where its angles determine those of the rotation, and it has them to
  // full relative accuracy where they are tiny.
  const InvariantDecomposition<Scalar, N> sines(Bivector<Scalar, N>::from_skew_matrix(algebra, skew));
  Rotation basis = sines.basis();
  typename InvariantDecomposition<Scalar, N>::Angles angles = sines.angles();
  const auto cosine = [&](Index p) {
    return (basis.col(2 * p).dot(rotation * basis.col(2 * p)) +
            basis.col(2 * p + 1).dot(rotation * basis.col(2 * p + 1))) /
           Scalar(2);
  };
  if ((rotation - Rotation::Identity(n, n)).norm() < Scalar(0.5)) {
    for (Index p = 0; p < planes; ++p) angles[p] = std::atan2(angles[p], cosine(p)) / Scalar(2);
    return {basis, angles};
  }
  // The Schur form of a normal matrix is diagonal but for blocks of two. Eigenvalues 1 and -1 come alone, the
  // latter in an even number: each two of the same sign make a plane.
  const Eigen::RealSchur<Rotation> schur(rotation);
  const Rotation& t = schur.matrixT();
  Index plane = 0, lone[2] = {-1, -1};  // a column not yet in a plane: eigenvalue 1, -1
  const auto add_plane = [&](Index i, Index j) {
    const Scalar sine = (t(i, j) - t(j, i)) / Scalar(2);
    angles[plane] = std::atan2(std::abs(sine), (t(i, i) + t(j, j)) / Scalar(2)) / Scalar(2);
    if (sine < Scalar(0)) std::swap(i, j);
    basis.col(2 * plane) = schur.matrixU().col(i);
    basis.col(2 * plane + 1) = schur.matrixU().col(j);
    ++plane;
  };
  for (Index i = 0; i < n; ++i) {
    if (i + 1 < n && t(i + 1, i) != Scalar(0)) {
      add_plane(i, i + 1);
      ++i;
      continue;
    }
    Index& waiting = lone[t(i, i) < Scalar(0)];
    if (waiting < 0) {
      waiting = i;
    } else {
      add_plane(std::exchange(waiting, -1), i);
    }
  }
  if (lone[0] >= 0 && n % 2 == 1) basis.col(n - 1) = schur.matrixU().col(lone[0]);
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
/// signature is not Euclidean, or r is not a rotor to the square root of the rounding unit (see
/// Rotor::normalized).
template <std::floating_point Scalar, int P, int Q, int R>
Bivector<Scalar, P, Q, R> log(const Rotor<Scalar, P, Q, R>& r) {
  constexpr int n = Signature<P, Q, R>::static_dimension;
  auto planes = detail::half_angle_decomposition<Scalar, n>(detail::checked_rotation_matrix("log", r));
  if (planes.rotor().coeffs().dot(r.coeffs()) < Scalar(0) && planes.num_planes() > 0) {
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
  constexpr int n = Signature<P, Q, R>::static_dimension;
  const auto planes = detail::half_angle_decomposition<Scalar, n>(
      detail::checked_rotation_matrix("slerp", start.reversed() * end));
  const Bivector<Scalar, P, Q, R> b(start.signature(), planes.bivector().coeffs());
  return start * exp(b * t);
}

}  // namespace rotorlin
