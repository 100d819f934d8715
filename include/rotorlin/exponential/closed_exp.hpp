// SPDX-License-Identifier: MIT
/// \file
/// The exponential of a bivector of at most five dimensions in closed form, in any signature. With
/// b^2 = s + q, q^2 = m (small_algebra.hpp),
///
///     exp(b) = C(b^2) + S(b^2) b,    C(x) = cosh sqrt(x),    S(x) = sinh(sqrt(x)) / sqrt(x),
///
/// and both, being power series, are functions f(s + q) = f_0 + f_1 q. b is the sum of two commuting simple
/// parts (the invariant decomposition of Roelfs and De Keninck, "Graded symmetry groups: plane and simple",
/// arXiv 2107.03771) whose squares are the roots of x^2 - s x + m/4: C and S are cos and sin, cosh and sinh
/// or 1 and 1 of each. Where these roots meet or are complex, m > 0 and q = sqrt(m) Q with Q^2 = 1, and f
/// takes the values f(s + sqrt(m)) and f(s - sqrt(m)) on the two halves (1 + Q)/2 and (1 - Q)/2 (in Cl(4) the
/// isoclinic parts). Near zero the power series serves. No case divides by a difference that cancels.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "rotorlin/core/finite.hpp"
#include "rotorlin/exponential/small_algebra.hpp"

namespace rotorlin::detail {

/// C(x) and S(x), S times a length.
template <class Scalar>
struct Waves {
  Scalar c, s;
};

/// C and `length` S of length^2 x.
template <class Scalar>
ROTORLIN_INLINE Waves<Scalar> waves(const Scalar& x, const Scalar& length) {
  if (x < Scalar(0)) {
    const Scalar root = std::sqrt(-x), inverse = Scalar(1) / root, angle = length * root;
    return {std::cos(angle), std::sin(angle) * inverse};
  }
  if (x > Scalar(0)) {
    const Scalar root = std::sqrt(x), rapidity = length * root;
    return {std::cosh(rapidity), std::sinh(rapidity) / root};
  }
  return {Scalar(1), length};
}

/// C = c0 + c1 q and S = s0 + s1 q.
template <class Scalar>
struct StudyWaves {
  Scalar c0, c1, s0, s1;
};

/// C and S of s + q by their power series, |s| + |q| < 1/2: (s + q)^k = h + p q.
template <class Scalar>
StudyWaves<Scalar> series_waves(const Scalar& s, const Scalar& m) {
  StudyWaves<Scalar> sum{Scalar(1), Scalar(0), Scalar(1), Scalar(0)};
  Scalar h(1), p(0), weight(1);
  for (int k = 1; k <= (std::numeric_limits<Scalar>::digits > 24 ? 11 : 6); ++k) {
    const Scalar next = s * h + m * p;
    p = h + s * p;
    h = next;
    weight /= Scalar(2 * k * (2 * k - 1));
    sum.c0 += weight * h;
    sum.c1 += weight * p;
    sum.s0 += weight / Scalar(2 * k + 1) * h;
    sum.s1 += weight / Scalar(2 * k + 1) * p;
  }
  return sum;
}

/// Whether s + q has two roots that are far apart, or the larger of them none beside it.
template <class Scalar>
bool has_distinct_planes(const Scalar& s, const Scalar& m) {
  return m <= s * s / Scalar(2);
}

/// C and S of length^2 (s + q), the latter times powers of the length: c1 its square, s0 once, s1 its cube.
/// `small_sum` is s + sqrt(m) where it is known better than that sum is. In projective algebras (m = 0, and
/// |q b| at most |s| times the null part of b) no series is needed.
template <bool projective, class Scalar>
ROTORLIN_INLINE StudyWaves<Scalar> study_waves(const Scalar& s, const Scalar& m, const Scalar& length,
                                               const Scalar* small_sum) {
  const Scalar size = (std::abs(s) + std::sqrt(std::abs(m))) * length * length;
  if (!(projective && s != Scalar(0)) && size < Scalar(0.5)) {
    const Scalar square = length * length;
    StudyWaves<Scalar> f = series_waves(Scalar(s * square), Scalar(m * square * square));
    f.c1 *= square;
    f.s0 *= length;
    f.s1 *= square * length;
    return f;
  }
  if (m == Scalar(0)) {
    const Waves<Scalar> f = waves(s, length);
    return {f.c, f.s * length / Scalar(2), f.s, (f.c * length - f.s) / (Scalar(2) * s)};
  }
  if (has_distinct_planes(s, m)) {
    const Scalar root = std::sqrt(s * s - m);
    const Scalar x = (s + std::copysign(root, s)) / Scalar(2), y = m / (Scalar(4) * x);
    const Waves<Scalar> first = waves(x, length), second = waves(y, length);
    const Scalar s1 = (first.s * second.c - first.c * second.s) / (Scalar(2) * (y - x));
    return {first.c * second.c, first.s * second.s / Scalar(2), first.s * second.c - Scalar(2) * y * s1, s1};
  }
  const Scalar root = std::sqrt(m);
  const Waves<Scalar> plus = waves(small_sum != nullptr ? *small_sum : s + root, length),
                      minus = waves(s - root, length);
  return {(plus.c + minus.c) / Scalar(2), (plus.c - minus.c) / (Scalar(2) * root),
          (plus.s + minus.s) / Scalar(2), (plus.s - minus.s) / (Scalar(2) * root)};
}

/// exp(length b) in Cl(4): the isoclinic parts are turned by the sum and the difference of the angles.
template <class Scalar>
bool isoclinic_exp(const std::array<Scalar, 6>& b, const Scalar& length, Scalar* r) {
  const Scalar u[3] = {b[0] - b[5], b[1] + b[4], b[2] - b[3]};
  const Scalar v[3] = {b[0] + b[5], b[1] - b[4], b[2] + b[3]};
  const Scalar x = u[0] * u[0] + u[1] * u[1] + u[2] * u[2], y = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
  if (!(x + y <= std::numeric_limits<Scalar>::max())) return false;
  const Waves<Scalar> f = waves(Scalar(-x), length), g = waves(Scalar(-y), length);
  const Scalar half(0.5), s = half * f.s, t = half * g.s;
  r[0] = half * (f.c + g.c);
  r[1] = s * u[0] + t * v[0];
  r[2] = s * u[1] + t * v[1];
  r[3] = s * u[2] + t * v[2];
  r[4] = t * v[2] - s * u[2];
  r[5] = s * u[1] - t * v[1];
  r[6] = t * v[0] - s * u[0];
  r[7] = half * (f.c - g.c);
  return true;
}

/// r = exp(length b); false where a square overflows or underflows on the way, and r is then meaningless.
template <int N, class Algebra, class Scalar>
ROTORLIN_INLINE bool closed_exp(const SmallAlgebra<N, Algebra, Scalar>& algebra,
                                const std::array<Scalar, static_cast<std::size_t>(N*(N - 1) / 2)>& b,
                                const Scalar& length, Scalar* r) {
  if constexpr (N < 2) {
    r[0] = Scalar(1);
    return true;
  } else if constexpr (N == 4 && Algebra::is_static && Algebra::is_always_euclidean) {
    return isoclinic_exp(b, length, r);
  } else {
    constexpr Scalar limit = std::numeric_limits<Scalar>::max();
    const Scalar s = algebra.square(b);
    if (!(std::abs(s) <= limit)) return false;
    if constexpr (N >= 4) {
      const auto q = algebra.wedge_square(b);
      if (std::any_of(q.begin(), q.end(), [](const Scalar& x) { return x != Scalar(0); })) {
        const Scalar m = algebra.quad_square(q);
        if (!(s * s + std::abs(m) <= limit)) return false;
        const auto qb = algebra.times(q, b);
        Scalar sum(0);
        const Scalar* small_sum = nullptr;
        if (!has_distinct_planes(s, m) && algebra.is_definite()) {
          auto half = b;  // b (1 + Q)
          const Scalar root = std::sqrt(m);
          for (std::size_t i = 0; i < half.size(); ++i) half[i] += qb[i] / root;
          sum = algebra.square(half) / Scalar(2);
          small_sum = &sum;
        }
        constexpr bool projective =
            N == 4 && Algebra::is_static && Algebra{}.r() == 1 && (Algebra{}.p() == 0 || Algebra{}.q() == 0);
        const StudyWaves<Scalar> f = study_waves<projective>(s, m, length, small_sum);
        r[0] = f.c0;
        for (std::size_t i = 0; i < b.size(); ++i) r[1 + i] = f.s0 * b[i] + f.s1 * qb[i];
        for (std::size_t k = 0; k < q.size(); ++k) r[1 + b.size() + k] = f.c1 * q[k];
        return true;
      }
      for (std::size_t k = 0; k < q.size(); ++k) r[1 + b.size() + k] = Scalar(0);
    }
    const Waves<Scalar> f = waves(s, length);
    r[0] = f.c;
    for (std::size_t i = 0; i < b.size(); ++i) r[1 + i] = f.s * b[i];
    return true;
  }
}

/// The same for every finite b: its length is parted from it where squares overflow. False where exp(b) does.
template <int N, class Algebra, class Scalar>
bool closed_exp_of_any_length(const SmallAlgebra<N, Algebra, Scalar>& algebra,
                              std::array<Scalar, static_cast<std::size_t>(N*(N - 1) / 2)> b, Scalar* r) {
  if constexpr (N >= 2) {
    Scalar length(0), sum(0);
    for (std::size_t i = 0; i < b.size(); ++i) {
      sum += std::abs(b[i]);
      if (metric_of(algebra.algebra, algebra.bivector_mask(i)) != 0)
        length = std::max(length, std::abs(b[i]));
    }
    // Euclidean angles end with the numbers; elsewhere a bound that is easy to state
    if (!algebra.algebra.is_euclidean() && !is_finite(sum)) return false;
    if (length > Scalar(1)) {
      length = std::ldexp(Scalar(1), std::ilogb(length));
      for (Scalar& x : b) x /= length;
    } else {
      length = Scalar(1);
    }
    if (!closed_exp(algebra, b, length, r)) return false;
    for (int i = 0; i < (1 << (N - 1)); ++i) {
      if (!is_finite(r[i])) return false;
    }
  }
  return true;
}

}  // namespace rotorlin::detail
