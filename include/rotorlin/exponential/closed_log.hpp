// SPDX-License-Identifier: MIT
/// \file
/// The logarithm of a rotor of at most five dimensions in closed form, in any signature: closed_exp.hpp read
/// backwards. With r = c + B + p of grades 0, 2, 4 and commuting simple b = b_1 + b_2,
///
///     c = C_1 C_2,   B = beta_1 + beta_2 = S_1 C_2 b_1 + C_1 S_2 b_2,   p = S_1 S_2 b_1 b_2,   B^2 = s + t,
///
/// angles are found by atan from their sines and cosines, never acos, and rapidities by asinh.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "rotorlin/core/finite.hpp"
#include "rotorlin/exponential/small_algebra.hpp"

namespace rotorlin::detail {

/// The angle in [0, pi] of a sine >= 0 and a cosine that are not both 0, to rounding: twice as fast as atan2.
template <class Scalar>
ROTORLIN_INLINE Scalar angle_of(const Scalar& sine, const Scalar& cosine) {
  const Scalar acute = std::atan(sine / std::abs(cosine));
  return cosine < Scalar(0) ? std::numbers::pi_v<Scalar> - acute : acute;
}

/// arg / sin(arg) for the sine and cosine of an angle, the sine by its square: x = -sin^2 (or sinh^2 > 0, and
/// then the cosine must be positive: NaN where it is not). NaN for an angle of pi without a plane, too.
template <class Scalar>
Scalar angle_by_sine(const Scalar& x, const Scalar& cosine) {
  if (x < Scalar(0)) {
    const Scalar sine = std::sqrt(-x);
    return angle_of(sine, cosine) / sine;
  }
  if (!(cosine > Scalar(0))) return std::numeric_limits<Scalar>::quiet_NaN();
  const Scalar sine = std::sqrt(x);
  return sine == Scalar(0) ? Scalar(1) : std::asinh(sine) / sine;
}

/// b = B asinh(sqrt(Y)) / sqrt(Y) with Y = B^2 = s + t near zero, by its power series.
template <class Small, class Scalar>
typename Small::Bivector series_log(const Small& algebra, const typename Small::Bivector& bivector,
                                    const typename Small::Quadvector& t, const Scalar& s, const Scalar& m) {
  Scalar g(1), g_t(0), h(1), p(0), weight(1);
  for (int k = 1; k <= (std::numeric_limits<Scalar>::digits > 24 ? 14 : 7); ++k) {
    const Scalar next = s * h + m * p;
    p = h + s * p;
    h = next;
    weight *= -Scalar(2 * k - 1) / Scalar(2 * k);
    g += weight / Scalar(2 * k + 1) * h;
    g_t += weight / Scalar(2 * k + 1) * p;
  }
  auto b = algebra.times(t, bivector);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = g * bivector[i] + g_t * b[i];
  return b;
}

/// A basis bivector whose square is -1, as large as possible in the half (1 + side Q)/2 where Q is given, and
/// times that; zero where there is none.
template <class Small>
typename Small::Bivector basis_plane(const Small& algebra, const typename Small::Quadvector* q, double side) {
  using Scalar = typename Small::Bivector::value_type;
  typename Small::Bivector best{};
  Scalar largest(0);
  for (std::size_t i = 0; i < Small::bivectors; ++i) {
    typename Small::Bivector plane{};
    plane[i] = Scalar(1);
    if (q != nullptr) {
      const auto image = algebra.times(*q, plane);
      for (std::size_t j = 0; j < plane.size(); ++j)
        plane[j] = (plane[j] + Scalar(side) * image[j]) / Scalar(2);
    }
    const Scalar square = -algebra.square(plane) * Scalar(q != nullptr ? 2 : 1);
    if (!(square > largest)) continue;
    largest = square;
    best = plane;
  }
  if (largest > Scalar(0)) {
    for (Scalar& x : best) x /= std::sqrt(largest);
  }
  return best;
}

/// The two halves of b along Q, each an angle by itself.
template <class Small, class Scalar>
bool isoclinic_log(const Small& algebra, const Scalar& c, const typename Small::Bivector& bivector,
                   const typename Small::Quadvector& p, const typename Small::Quadvector& q, Scalar* result) {
  const Scalar projection = algebra.dot(p, q);
  std::fill_n(result, bivector.size(), Scalar(0));
  for (const int side : {1, -1}) {
    auto half = bivector;
    auto image = algebra.times(q, half);
    const auto project = [&] {
      for (std::size_t i = 0; i < half.size(); ++i) half[i] = (half[i] + Scalar(side) * image[i]) / Scalar(2);
    };
    project();
    const Scalar cosine = c + Scalar(side) * projection;
    Scalar square = Scalar(2) * algebra.square(half);
    if (cosine < Scalar(0) && std::abs(square) < Scalar(1e-4)) {
      // an angle near pi: rounding has left more of all else than there is of this half
      for (int pass = 0; pass < 2; ++pass) {
        image = algebra.times(q, half);
        half = algebra.times(q, image);  // without planes through the vector that Q lacks
        project();
      }
      square = Scalar(2) * algebra.square(half);
      if (square == Scalar(0)) {
        half = basis_plane(algebra, &q, side);
        for (std::size_t i = 0; i < half.size(); ++i) result[i] += std::numbers::pi_v<Scalar> * half[i];
        if (algebra.square(half) == Scalar(0)) return false;
        continue;
      }
    }
    const Scalar factor = angle_by_sine(square, cosine);
    if (!is_finite(factor)) return false;
    for (std::size_t i = 0; i < half.size(); ++i) result[i] += factor * half[i];
  }
  return true;
}

/// beta_1 is the larger part, and its plane turned or boosted by what atan and asinh say; y = S_2 b_2
/// follows from p = S_1 S_2 b_1 b_2 and from t/2 = beta_1 beta_2, each where it is large. `m` is t^2.
template <class Small, class Scalar>
bool split_log(const Small& algebra, const Scalar& c, const typename Small::Bivector& bivector,
               const typename Small::Quadvector& p, const typename Small::Quadvector& t, const Scalar& s,
               const Scalar& m, Scalar* result) {
  const Scalar square = (s + std::copysign(std::sqrt(s * s - m), s)) / Scalar(2);  // beta_1^2
  const Scalar size = std::sqrt(std::abs(square));
  if (size == Scalar(0)) return false;
  typename Small::Quadvector z{};  // B_1 y for the unit B_1 of the plane
  Scalar c1, c2, y_square, first;  // C_1, C_2, y^2, and the angle of the plane
  if (square < Scalar(0)) {
    c2 = std::sqrt(c * c - square);
    c1 = c / c2;
    for (std::size_t k = 0; k < z.size(); ++k) z[k] = size / c2 * p[k] + c1 / (Scalar(2) * size) * t[k];
    y_square = -algebra.quad_square(z);
    first = angle_of(size, c);
  } else {
    for (std::size_t k = 0; k < z.size(); ++k) {
      z[k] = (size * p[k] + c / (Scalar(2) * size) * t[k]) / (square + c * c);
    }
    const Scalar ratio = algebra.quad_square(z);  // y^2 / C_2^2 with C_2^2 = 1 + y^2
    if (!(ratio < Scalar(1)) || c == Scalar(0)) return false;
    c2 = std::copysign(Scalar(1) / std::sqrt(Scalar(1) - ratio), c);
    c1 = c / c2;
    for (Scalar& x : z) x *= c2;
    y_square = ratio * c2 * c2;
    first = std::asinh(size / c2);
  }
  // y = +-z B_1 and B_1 = (B - C_1 y)/|beta_1|
  const Scalar sign = square < Scalar(0) ? Scalar(-1) : Scalar(1);
  const Scalar coupling = -sign * c1 * y_square / (size * size);
  const Scalar scale = Scalar(1) + coupling * c1;
  const Scalar second = angle_by_sine(y_square, c2);
  const auto image = algebra.times(z, bivector);
  for (std::size_t i = 0; i < bivector.size(); ++i) {
    const Scalar y = (sign * image[i] / size + coupling * bivector[i]) / scale;
    result[i] = first / size * (bivector[i] - c1 * y) + second * y;
  }
  return true;
}

/// log(r) for c = cos, |B| = sin; the isoclinic parts of a rotor of Cl(4) one by one.
template <class Scalar>
void isoclinic_log(const Scalar* r, Scalar* b) {
  const Scalar u[3] = {r[1] - r[6], r[2] + r[5], r[3] - r[4]};
  const Scalar v[3] = {r[1] + r[6], r[2] - r[5], r[3] + r[4]};
  const auto angle = [](const Scalar(&x)[3], const Scalar& cosine, Scalar(&out)[3]) {
    const Scalar sine = std::sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
    const Scalar factor = sine > Scalar(0) ? angle_of(sine, cosine) / sine : Scalar(1);
    for (int i = 0; i < 3; ++i) out[i] = factor * x[i] / Scalar(2);
    if (sine == Scalar(0) && cosine < Scalar(0)) out[0] = std::numbers::pi_v<Scalar> / Scalar(2);
  };
  Scalar f[3], g[3];
  angle(u, r[0] + r[7], f);
  angle(v, r[0] - r[7], g);
  b[0] = f[0] + g[0];
  b[1] = f[1] + g[1];
  b[2] = f[2] + g[2];
  b[3] = g[2] - f[2];
  b[4] = f[1] - g[1];
  b[5] = g[0] - f[0];
}

/// Whether an algebra of four dimensions has one null vector and a definite rest, as projective geometry.
template <class Algebra>
inline constexpr bool is_projective = Algebra{}.r() == 1 && (Algebra{}.p() == 0 || Algebra{}.q() == 0);

/// log(c + B + p) of a motor that turns, p^2 = 0: with B^2 = s + t and theta the angle of sine sqrt(-s) and
/// cosine c, arg(x)/sin(arg(x)) = f + f' t, and 2 c p = t, so that b = f B + (1 - f c)/s p B. Where s is
/// small, |p B| is at most |s| times the null part of b and the quotient may be off by rounding over s; where
/// it is so small that p is rounding, by its power series.
template <class Small, class Scalar>
bool motor_log(const Small& algebra, const Scalar& c, const typename Small::Bivector& bivector,
               const typename Small::Quadvector& p, const Scalar& s, Scalar* result) {
  const Scalar sine = std::sqrt(-s), factor = angle_of(sine, c) / sine;
  const Scalar series =
      (Scalar(-35) + s * (Scalar(14) + s * (Scalar(-8) + s * Scalar(16) / Scalar(3)))) / Scalar(105);
  const Scalar of_image = s > Scalar(-1e-4) ? series : (Scalar(1) - factor * c) / s;
  const auto image = algebra.times(p, bivector);
  for (std::size_t i = 0; i < bivector.size(); ++i) result[i] = factor * bivector[i] + of_image * image[i];
  return is_finite(factor);
}

/// b = log(r) of a rotor; false where r is none of the exponentials of its algebra.
template <int N, class Algebra, class Scalar>
bool closed_log(const SmallAlgebra<N, Algebra, Scalar>& algebra, const Scalar* r, Scalar* b) {
  using Small = SmallAlgebra<N, Algebra, Scalar>;
  if constexpr (N < 2) {
    return r[0] > Scalar(0);
  } else if constexpr (N == 4 && Algebra::is_static && Algebra::is_always_euclidean) {
    isoclinic_log(r, b);
    return true;
  } else {
    const Scalar c = r[0];
    typename Small::Bivector bivector;
    std::copy_n(r + 1, bivector.size(), bivector.begin());
    const Scalar s = algebra.square(bivector);
    const bool zero = std::all_of(bivector.begin(), bivector.end(),
                                  [](const Scalar& x) { return x * x < std::numeric_limits<Scalar>::min(); });
    typename Small::Quadvector p{};
    if constexpr (N >= 4) std::copy_n(r + 1 + bivector.size(), p.size(), p.begin());
    if constexpr (N == 4 && Algebra::is_static && is_projective<Algebra>) {
      if (c > Scalar(0) ? s < Scalar(0) : s < Scalar(-0.06)) return motor_log(algebra, c, bivector, p, s, b);
    }
    const Scalar p_square = algebra.quad_square(p);
    if (zero && c < Scalar(0) && !(p_square > Scalar(0.5))) {  // -1: a full turn of any plane
      const auto plane = basis_plane(algebra, nullptr, 0);
      for (std::size_t i = 0; i < plane.size(); ++i) b[i] = std::numbers::pi_v<Scalar> * plane[i];
      return algebra.square(plane) < Scalar(0);
    }
    if constexpr (N >= 4) {
      const auto t = algebra.wedge_square(bivector);
      const Scalar m = algebra.quad_square(t);
      if (c > Scalar(0.5) && std::abs(s) + std::sqrt(std::abs(m)) < Scalar(0.06)) {
        const auto small = series_log(algebra, bivector, t, s, m);
        std::copy(small.begin(), small.end(), b);
        return true;
      }
      // Q is known where p is large, or t beside the squares that it is made of (which may be rounding, near
      // -1)
      const Scalar of_p = p_square / (c * c + std::abs(s) + std::abs(p_square));
      const Scalar of_t = m > Scalar(0) ? m / (s * s) : Scalar(0);
      if (of_p > Scalar(0.01) || of_t > Scalar(0.01)) {
        auto q = of_p > Scalar(0.01) ? p : t;
        for (Scalar& x : q) x /= std::sqrt(of_p > Scalar(0.01) ? p_square : m);
        return isoclinic_log(algebra, c, bivector, p, q, b);
      }
      if (s == Scalar(0) && c < Scalar(0) && N == 4 && algebra.algebra.r() == 1 &&
          (algebra.algebra.p() == 0 || algebra.algebra.q() == 0)) {
        // minus a translator of projective geometry: a full turn about a line along its way
        std::transform(bivector.begin(), bivector.end(), b, [](const Scalar& x) { return -x; });
        const Scalar way = std::hypot(bivector[2], bivector[4], bivector[5]),
                     turn = std::numbers::pi_v<Scalar> / way;
        b[0] += turn * bivector[5];
        b[1] -= turn * bivector[4];
        b[3] += turn * bivector[2];
        return true;
      }
      return split_log(algebra, c, bivector, p, t, s, m, b) &&
             std::all_of(b, b + bivector.size(), [](const Scalar& x) { return is_finite(x); });
    }
    const Scalar factor = angle_by_sine(s, c);
    for (std::size_t i = 0; i < bivector.size(); ++i) b[i] = factor * bivector[i];
    return is_finite(factor);
  }
}

}  // namespace rotorlin::detail
