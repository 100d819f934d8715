// SPDX-License-Identifier: MIT
/// \file
/// The logarithm of rotors, and the interpolation and the square root that it gives: up to five dimensions in
/// closed form (closed_log.hpp), in more for Euclidean rotors.
///
/// There the rotation M = exp(2 A) of a rotor r has planes that turn by 2t; the half angles t lie in [0,
/// pi/2] and are found by atan from their tangents, never acos. They make a bivector whose exponential is r
/// or -r. Where it is -r, the largest half angle becomes t - pi. So the principal logarithm has all angles in
/// [0, pi/2] but for one that may be up to pi. It is the shortest where the angles differ; at t = pi/2 the
/// plane may be turned either way, and at -1 any plane does.
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
#include "rotorlin/core/finite.hpp"
#include "rotorlin/exponential/closed_log.hpp"
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

/// log(r) of a Euclidean rotor by the planes of its rotation matrix; with `shortest` of r or -r, whichever
/// turns less.
template <std::floating_point Scalar, int N>
Bivector<Scalar, N> log_by_planes(const char* who, const Rotor<Scalar, N>& r, bool shortest) {
  auto planes = half_angle_decomposition<Scalar, N>(checked_rotation_matrix(who, r));
  if (!shortest && planes.rotor().coeffs().dot(r.coeffs()) < Scalar(0)) {
    auto angles = planes.angles();
    angles[0] -= std::numbers::pi_v<Scalar>;
    planes = {planes.basis(), angles};
  }
  return planes.bivector();
}

/// Refuses what is no rotor to the square root of the rounding unit, for the function `who`: r~ r = 1 has
/// parts of grade 0 and 4, and those of null blades are measured by the coefficients of such.
template <class R, int N, class Algebra, class Scalar>
void check_rotor(const char* who, const R& r, const SmallAlgebra<N, Algebra, Scalar>& algebra,
                 const Scalar* x) {
  using Small = SmallAlgebra<N, Algebra, Scalar>;
  typename Small::Bivector b;
  typename Small::Quadvector p{}, rest{};
  std::copy_n(x + 1, b.size(), b.begin());
  if constexpr (N >= 4) std::copy_n(x + 1 + b.size(), p.size(), p.begin());
  constexpr Scalar epsilon = std::numeric_limits<typename R::Scalar>::epsilon();
  const Scalar half_digits = Scalar(8) * std::sqrt(epsilon);
  Scalar error = std::abs(x[0] * x[0] - algebra.square(b) + algebra.quad_square(p) - Scalar(1));
  bool good = true, finite = true;
  if constexpr (Algebra::is_static && Algebra::is_always_euclidean && N <= 3) {
    good = error <= half_digits;
    finite = good;
  } else {
    Scalar total(0), largest(0);
    for (std::size_t i = 0; i < part_masks<N, Part::even>.size(); ++i) {
      const Scalar magnitude = std::abs(x[i]);
      if (metric_of(algebra.algebra, part_masks<N, Part::even>[i]) != 0) total += magnitude * magnitude;
      largest = std::max(largest, magnitude);
      finite = finite && is_finite(x[i]);
    }
    const Scalar tolerance =
        half_digits + Scalar(gathered_rounding) * epsilon * (algebra.is_definite() ? 1 : total);
    const Scalar tolerance_of_null = half_digits * (Scalar(1) + largest) +
                                     Scalar(gathered_rounding) * epsilon * std::sqrt(total) * largest;
    good = error <= tolerance;
    if constexpr (N >= 4) {
      const auto square = algebra.wedge_square(b);
      rest = N == 5 ? algebra.commutator(p, b) : rest;
      for (std::size_t k = 0; k < p.size(); ++k) {
        const bool null = metric_of(algebra.algebra, algebra.quadvector_mask(k)) == 0;
        const Scalar part = std::abs(Scalar(2) * (x[0] * p[k] + rest[k]) - square[k]);
        good = good && part <= (null ? tolerance_of_null : tolerance);
        error = std::max(error, part);
      }
    }
  }
  if (good && finite && is_finite(error)) return;
  if (!r.all_finite()) {
    throw_domain(who, ": the rotor of ", r.signature(), " has coefficients that are NaN or infinite");
  }
  throw_invalid(who, ": expected a rotor of ", r.signature(), ", but r~ r differs from 1 by up to ", error,
                "; use normalized()");
}

/// log(r) for n <= 5.
template <class Scalar, int P, int Q, int R>
Bivector<Scalar, P, Q, R> log_in_closed_form(const char* who, const Rotor<Scalar, P, Q, R>& r) {
  Bivector<Scalar, P, Q, R> result(r.signature());
  with_small_algebra(r, [&]<int N, class Algebra, class Wide>(const SmallAlgebra<N, Algebra, Wide>& algebra) {
    std::array<Wide, static_cast<std::size_t>(part_size(Part::even, N))> rotor;
    for (std::size_t i = 0; i < rotor.size(); ++i) rotor[i] = static_cast<Wide>(r[static_cast<Index>(i)]);
    check_rotor(who, r, algebra, rotor.data());
    typename SmallAlgebra<N, Algebra, Wide>::Bivector b{};
    if (!closed_log(algebra, rotor.data(), b.data())) {
      throw_invalid(
          who, ": the rotor of ", r.signature(), " with scalar part ", r[0],
          " has no logarithm: it is minus an exponential that no plane turns to it (-r moves all elements as "
          "r does), or so large that rounding has lost its planes");
    }
    for (std::size_t i = 0; i < b.size(); ++i) result[static_cast<Index>(i)] = static_cast<Scalar>(b[i]);
  });
  return result;
}

/// |B| of a rotor r = c + B of Cl(2) or Cl(3), for the function `who`.
template <class Scalar, int N>
ROTORLIN_INLINE Scalar sine_of_turn(const char* who, const Rotor<Scalar, N>& r) {
  Scalar square(0);
  for (Index i = 1; i < r.size(); ++i) square += r[i] * r[i];
  const Scalar error = std::abs(square + r[0] * r[0] - Scalar(1));
  if (!is_finite(error) || error > Scalar(8) * std::sqrt(std::numeric_limits<Scalar>::epsilon())) {
    const SmallAlgebra<N, Signature<N>, Scalar> algebra{Signature<N>{}};
    check_rotor(who, r, algebra, r.coeffs().data());
  }
  return std::sqrt(square);
}

/// log(r), or with `shortest` of the one of r and -r that turns less, for the function `who`.
template <std::floating_point Scalar, int P, int Q, int R>
Bivector<Scalar, P, Q, R> log_of(const char* who, const Rotor<Scalar, P, Q, R>& r, bool shortest) {
  constexpr int n = Signature<P, Q, R>::static_dimension;
  r.check_not_moved();
  if constexpr (n == Dynamic || n <= 5) {
    if (n != Dynamic || r.dimension() <= 5)
      return log_in_closed_form(who, shortest && r[0] < Scalar(0) ? -r : r);
  }
  if constexpr (n == Dynamic || n > 5) {
    const Signature<P, Q, R> algebra = r.signature();
    if (algebra.is_euclidean()) {
      return {algebra, log_by_planes(who, Rotor<Scalar, n>(r.dimension(), r.coeffs()), shortest).coeffs()};
    }
    if (algebra.p() == 0 && algebra.r() == 0) {
      const Rotor<Scalar, n> positive(r.dimension(), with_flipped_planes(r).coeffs());
      return {algebra, -log_by_planes(who, positive, shortest).coeffs()};
    }
    throw_invalid(who, ": rotor of ", algebra, ", expected n <= 5, or Cl(n) or Cl(0, n)");
  }
  return {};  // not reached
}

}  // namespace detail

/// The principal logarithm: exp(log(r)) = r. Up to five dimensions in closed form, in any signature
/// (closed_log.hpp), where r may be a motor, a boost, a conformal versor. Euclidean: all angles lie in [0,
/// pi/2] but for one that may be up to pi, and no sum of two exceeds pi; in other signatures -r may have a
/// logarithm where r has none, a boost or translator with a negative scalar part. \throws std::domain_error
/// where a coefficient is NaN or infinite; std::invalid_argument where r is not a rotor to the square root of
/// the rounding unit (see Rotor::normalized), where it has no logarithm (-1 for n < 2), and for n >= 6 in
/// other signatures than Cl(n) and Cl(0, n).
template <std::floating_point Scalar, int P, int Q, int R>
Bivector<Scalar, P, Q, R> log(const Rotor<Scalar, P, Q, R>& r) {
  constexpr int n = Signature<P, Q, R>::static_dimension;
  if constexpr (Signature<P, Q, R>::is_always_euclidean && (n == 2 || n == 3)) {
    const Scalar sine = detail::sine_of_turn("log", r);
    if (sine > Scalar(0)) {
      const Scalar inverse = Scalar(1) / sine, factor = detail::angle_of(sine, r[0]) * inverse;
      Bivector<Scalar, P, Q, R> b;
      for (Index i = 0; i < b.size(); ++i) b[i] = factor * r[i + 1];
      return b;
    }
  }
  return detail::log_of("log", r, false);
}

/// The rotor at time t of the motion from `start` (t = 0) to `end` (t = 1) at constant speed, the short way:
/// every plane turns by at most pi. So at t = 1 it is `end` or -`end`, which are the same motion. In any
/// signature that `log` knows: motors move along a screw.
/// \throws as `log` does, and std::domain_error where t is NaN or infinite.
template <std::floating_point Scalar, int P, int Q, int R>
Rotor<Scalar, P, Q, R> slerp(const Rotor<Scalar, P, Q, R>& start, const Rotor<Scalar, P, Q, R>& end,
                             Scalar t) {
  const Rotor<Scalar, P, Q, R> difference = start.reversed() * end;
  constexpr int n = Signature<P, Q, R>::static_dimension;
  if constexpr (Signature<P, Q, R>::is_always_euclidean && (n == 2 || n == 3)) {
    const Scalar sine = detail::sine_of_turn("slerp", difference), inverse = Scalar(1) / sine;
    const Scalar angle = t * detail::angle_of(sine, std::abs(difference[0]));
    if (!detail::is_finite(angle)) detail::throw_domain("slerp: t = ", t, ", expected a number");
    // start (cos + sin B) with start difference = end
    const Scalar turned_cosine = std::cos(angle), turned_sine = std::sin(angle);  // one call
    const Scalar of_end = sine > Scalar(0) ? turned_sine * inverse : t;
    return start * (turned_cosine - of_end * std::abs(difference[0])) +
           end * std::copysign(of_end, of_end * difference[0]);
  } else {
    if (!detail::is_finite(t)) detail::throw_domain("slerp: t = ", t, ", expected a number");
    return start * detail::exp_of("slerp", detail::log_of("slerp", difference, true) * t);
  }
}

/// The square root exp(log(r)/2), half the motion. \throws as `log` does.
template <std::floating_point Scalar, int P, int Q, int R>
Rotor<Scalar, P, Q, R> sqrt(const Rotor<Scalar, P, Q, R>& r) {
  return detail::exp_of("sqrt", detail::log_of("sqrt", r, false) / Scalar(2));
}

}  // namespace rotorlin
