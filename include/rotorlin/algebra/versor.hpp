// SPDX-License-Identifier: MIT
/// \file
/// Versors, the products of vectors, in floating point: their inverse and their normalization, in any
/// signature. What is negligible is measured by what rounding makes of each part:
///
/// - Null basis vectors grade the algebra: a coefficient with g null factors (the translation of a motor,
///   g = 1) has a unit of its own, and multiplying every null vector by a number is an automorphism. So both
///   kinds of coefficients are scaled to the size of 1 before they are compared.
/// - Where basis vectors square to -1 the sum <v v~>_0 cancels, and is known up to rounding of the squares
///   that it is made of. Equal squares cancel without error: the coefficients of e1 ^ (e4 + e5) do in
///   Cl(4, 1), however far a translator goes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "rotorlin/algebra/element.hpp"
#include "rotorlin/algebra/products.hpp"
#include "rotorlin/core/finite.hpp"

namespace rotorlin {

namespace detail {

/// v = unit * (v' with every null basis vector times `null`), the coefficients of v' at most 1 or so.
template <class Scalar>
struct VersorScale {
  Scalar unit{0};  ///< 0 where no coefficient has a square, NaN where one is NaN
  Scalar null{1};
};

/// A number of the size of x > 0 that floating-point numbers are divided by without rounding.
template <class Scalar>
Scalar scale_near(const Scalar& x) {
  if constexpr (std::floating_point<Scalar>) {
    return x > Scalar(0) && is_finite(x) ? std::ldexp(Scalar(1), std::ilogb(x)) : x;
  } else {
    return x;
  }
}

/// Multiplies the coefficients with g null factors by scale^g (or divides them).
template <class A>
void scale_null(A& v, const typename A::Scalar& scale, bool divide) {
  const unsigned null = v.signature().null_mask();
  if (null == 0) return;
  const Blades blades = v.blades();
  for (Index i = 0; i < blades.size; ++i) {
    for (int g = std::popcount(blades.mask[i] & null); g > 0; --g) {
      if (divide) {
        v[i] /= scale;
      } else {
        v[i] *= scale;
      }
    }
  }
}

/// Scales v to v'.
template <class A>
VersorScale<typename A::Scalar> equilibrate(A& v) {
  using std::abs, std::sqrt;
  using Scalar = typename A::Scalar;
  const unsigned null = v.signature().null_mask();
  Scalar largest(0), largest_null(0), largest_other(0);  // with 0, with 1 and with more null factors
  const Blades blades = v.blades();
  for (Index i = 0; i < blades.size; ++i) {
    const int g = null == 0 ? 0 : std::popcount(blades.mask[i] & null);
    Scalar& maximum = g == 0 ? largest : g == 1 ? largest_null : largest_other;
    const Scalar magnitude = abs(v[i]);
    if (!(magnitude <= maximum)) maximum = magnitude;
  }
  VersorScale<Scalar> scale;
  scale.unit = scale_near(largest);
  if (!(largest > Scalar(0))) return scale;
  v /= scale.unit;
  if (null == 0) return scale;
  largest_null /= scale.unit;
  if (largest_other > Scalar(0)) {
    const Scalar other = sqrt(Scalar(largest_other / scale.unit));
    if (!(other <= largest_null)) largest_null = other;
  }
  if (largest_null > Scalar(0)) {
    scale.null = scale_near(largest_null);
    scale_null(v, scale.null, true);
  }
  return scale;
}

/// <v v~>_0, and the sum of those squares in it that do not cancel exactly: rounding of v changes the value
/// by epsilon times that.
template <class Scalar>
struct CancelledNorm {
  Scalar value{0};
  Scalar squares{0};
};

template <class A>
CancelledNorm<typename A::Scalar> cancelled_norm(const A& v) {
  using std::abs;
  using Scalar = typename A::Scalar;
  CancelledNorm<Scalar> norm;
  const unsigned negative = v.signature().negative_mask(), null = v.signature().null_mask();
  if (negative == 0) {
    norm.value = norm.squares = v.squared_norm();
    return norm;
  }
  constexpr Index fixed = A::static_dimension == Dynamic ? Dynamic : part_size(A::part, A::static_dimension);
  constexpr bool small = fixed != Dynamic && fixed <= 256;
  std::conditional_t<small, std::array<Index, static_cast<std::size_t>(small ? fixed : 1)>,
                     std::vector<Index>>
      order;
  if constexpr (!small) order.resize(static_cast<std::size_t>(v.size()));
  const Blades blades = v.blades();
  auto end = order.begin();
  for (Index i = 0; i < blades.size; ++i) {
    if ((blades.mask[i] & null) == 0) *end++ = i;
  }
  std::sort(order.begin(), end, [&](Index i, Index j) { return abs(v[i]) < abs(v[j]); });
  for (auto first = order.begin(); first != end;) {
    const Scalar magnitude = abs(v[*first]);
    Scalar sum(0);  // of the squares of one size
    int count = 0;
    for (; first != end && !(magnitude < abs(v[*first])); ++first) {
      const int sign = std::popcount(blades.mask[*first] & negative) & 1 ? -1 : 1;
      if (sign > 0) {
        sum += v[*first] * v[*first];
      } else {
        sum -= v[*first] * v[*first];
      }
      count += sign;
    }
    norm.value += sum;
    norm.squares += Scalar(count < 0 ? -count : count) * magnitude * magnitude;
  }
  return norm;
}

/// Rounding errors that versors gather over the products that made them, in units of epsilon.
inline constexpr int gathered_rounding = 8;

}  // namespace detail

/// The inverse of a versor (a product of vectors, and thus of scalars, vectors, blades and rotors) in any
/// signature: v~ / (v v~). A v v~ that is a scalar up to the square root of the rounding unit will do; the
/// inverse is then corrected for the rest.
/// \throws std::invalid_argument where v v~ is not a scalar, where it is zero or lost in the rounding of v,
/// and where v or its inverse has coefficients that are NaN or infinite.
template <AlgebraElement A>
A inverse(const A& versor) {
  using std::abs, std::sqrt;
  using Scalar = typename A::Scalar;
  const Scalar epsilon = Eigen::NumTraits<Scalar>::epsilon();
  if (!versor.all_finite()) {
    detail::throw_invalid("inverse: the element of ", versor.signature(),
                          " has coefficients that are NaN or infinite");
  }
  A v = versor;
  const auto scale = detail::equilibrate(v);
  const auto norm = detail::cancelled_norm(v);
  const Scalar size = abs(norm.value);
  if (!(size > Scalar(detail::gathered_rounding) * epsilon * norm.squares)) {
    detail::throw_invalid("inverse: the element of ", versor.signature(),
                          " is not invertible, v v~ = ", norm.value,
                          " where v is scaled to the size of 1, a sum of squares of ", norm.squares);
  }
  A result = v.reversed() / norm.value;
  // vectors, and even elements of up to three dimensions, have a scalar v v~ by themselves
  constexpr bool always_scalar =
      A::part == Part::vector ||
      (A::static_dimension != Dynamic && A::static_dimension <= 3 && A::part != Part::all);
  if constexpr (!always_scalar) {
    auto rest = v * result;
    rest[0] = Scalar(0);
    Scalar largest(0), total(0);
    for (Index i = 1; i < rest.size(); ++i) {
      const Scalar magnitude = abs(rest[i]);
      if (!(magnitude <= largest)) largest = magnitude;
    }
    for (Index i = 0; i < v.size(); ++i) total += v[i] * v[i];
    const Scalar noise = Scalar(detail::gathered_rounding) * epsilon * total / size;
    if (!(largest <= noise || largest <= sqrt(epsilon))) {
      detail::throw_invalid("inverse: the element of ", versor.signature(),
                            " is not a versor: v v~ = ", norm.value, " + other grades up to ",
                            Scalar(largest * size), " where v is scaled to the size of 1");
    }
    if (noise < largest && largest <= sqrt(epsilon)) {
      result -= detail::product_part_of<Product::geometric, A::part>("inverse", result, rest);
    }
  }
  detail::scale_null(result, scale.null, false);
  result /= scale.unit;
  if (!result.all_finite()) {
    detail::throw_invalid("inverse: the inverse of the element of ", versor.signature(),
                          " overflows, the coefficients with a square are up to ", scale.unit);
  }
  return result;
}

namespace detail {

/// The polar part r (r~ r)^(-1/2) of an even element of at most five dimensions: the rotor next to it. There
/// r~ r = s + q with a q of grade 4 whose square m is a number, and with N = sqrt(s^2 - m)
///
///     (s + q)^(-1/2) = (s + N - q) / (N sqrt(2 (s + N))).
template <class R>
R polar_rotor(const R& r) {
  using Scalar = typename R::Scalar;
  const Scalar epsilon = std::numeric_limits<Scalar>::epsilon();
  const auto refuse = [&](const auto&... why) {
    throw_invalid("Rotor::normalized: no rotor of ", r.signature(), " is near, ", why...);
  };
  R u = r;
  const auto scale = equilibrate(u);
  const auto norm = cancelled_norm(u);
  const Scalar noise = Scalar(gathered_rounding) * epsilon * norm.squares;
  // A rotor already, as far as its coefficients tell: what rounding has made of the norm is left alone.
  const auto is_one_within = [&](const Scalar& bound) {
    const Scalar square = scale.unit * scale.unit;
    return std::abs(norm.value * square - Scalar(1)) <= bound * square;
  };
  const bool lost = !(norm.value > noise);
  Scalar s = norm.value;
  if (lost || norm.squares > Scalar(4) * s) {
    Scalar squares(0);
    for (Index i = 0; lost && i < u.size(); ++i) squares += u[i] * u[i];
    if (is_one_within(lost ? Scalar(gathered_rounding) * epsilon * squares : noise)) {
      u *= scale.unit;
      s = Scalar(1);
    } else if (lost) {
      refuse("<r r~>_0 = ", norm.value, " where r is scaled to the size of 1");
    }
  }
  if (r.dimension() >= 4) {
    R rest = u.reversed() * u;
    const Blades blades = rest.blades();
    const unsigned null = r.signature().null_mask(), negative = r.signature().negative_mask();
    Scalar m(0), largest(0), total(0);
    for (Index i = 0; i < blades.size; ++i) {
      const unsigned blade = blades.mask[i];
      total += u[i] * u[i];
      if (std::popcount(blade) != 4) {
        rest[i] = Scalar(0);
        continue;
      }
      largest = std::max(largest, std::abs(rest[i]));
      if (blade & null) continue;
      m += (std::popcount(blade & negative) & 1 ? Scalar(-1) : Scalar(1)) * rest[i] * rest[i];
    }
    const bool cancels = total > Scalar(4) * s;
    if (largest > (cancels ? Scalar(gathered_rounding) * epsilon * total : Scalar(0))) {
      const Scalar square = m > Scalar(0) ? (s - std::sqrt(m)) * (s + std::sqrt(m)) : s * s - m;
      if (!(square > Scalar(gathered_rounding) * epsilon * s * s)) {
        refuse("r~ r has a part of grade 4 up to ", largest, " beside the scalar ", s);
      }
      const Scalar root = std::sqrt(square);
      rest *= Scalar(-1);
      rest[0] = s + root;
      u = u * rest;
      u /= root * std::sqrt(Scalar(2) * (s + root));
      s = Scalar(1);
    }
  }
  if (s != Scalar(1)) u /= std::sqrt(s);
  scale_null(u, scale.null, false);
  if (!u.all_finite()) refuse("the coefficients of null blades overflow beside the others");
  return u;
}

}  // namespace detail

}  // namespace rotorlin
