// SPDX-License-Identifier: MIT
/// \file
/// The exponential of a bivector, exp(b) = sum_k b^k / k! (no factor 1/2): for a simple b in Cl(n),
/// exp(b) = cos|b| + sin|b| b/|b|, and the sandwich with it turns the plane of b by 2|b|.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/exponential/closed_exp.hpp"
#include "rotorlin/exponential/invariant_decomposition.hpp"

namespace rotorlin {

namespace detail {

/// The N of the InvariantDecomposition that serves a signature.
template <int P, int Q, int R, int N = Signature<P, Q, R>::static_dimension>
inline constexpr int decomposition_dimension = N >= 2 ? N : Dynamic;

/// Taylor's series of b / 2^s, squared s times, for any signature and scalar. With `renormalize` each square
/// is brought back to r~ r = 1, so that turns keep their length (and gather only errors of the angle).
template <class Scalar, int P, int Q, int R>
Rotor<Scalar, P, Q, R> exp_by_squaring(const Bivector<Scalar, P, Q, R>& b, bool renormalize = false) {
  using std::abs;
  const auto even_product = [](const auto& x, const auto& y) {
    return product_part_of<Product::geometric, Part::even>("exp", x, y);
  };
  Scalar norm(0);  // the sum of the coefficients bounds the product with b in any signature
  for (Index i = 0; i < b.size(); ++i) norm += abs(b[i]);
  if (!(norm <= Scalar(1e30))) {
    throw_domain("exp: the coefficients of the bivector of ", b.signature(),
                 " sum to more than 1e30 in magnitude");
  }
  int squarings = 0;
  for (; norm > Scalar(0.5); ++squarings) norm /= Scalar(2);
  const Bivector<Scalar, P, Q, R> small = b * Scalar(std::ldexp(1.0, -squarings));
  Rotor<Scalar, P, Q, R> sum(b.signature()), term = sum;
  // two terms beyond what the value needs: a derivative loses a factor k
  double bound = 4;
  for (int k = 1; bound > static_cast<double>(Eigen::NumTraits<Scalar>::epsilon()) / 16; ++k) {
    term = even_product(small, term) / Scalar(k);
    sum += term;
    bound *= 0.5 / k;
  }
  for (; squarings > 0; --squarings) {
    sum = even_product(sum, sum);
    if (renormalize) {
      Rotor<Scalar, P, Q, R> deviation = even_product(sum.reversed(), sum);
      deviation[0] -= Scalar(1);
      Scalar size(0);
      for (Index i = 0; i < deviation.size(); ++i) size += abs(deviation[i]);
      if (size < Scalar(0.01)) sum -= even_product(sum, deviation) / Scalar(2);
    }
  }
  return sum;
}

/// Whether every x is a number of the type Scalar.
template <class Scalar, class Wide, std::size_t Size>
bool is_within(const std::array<Wide, Size>& array) {
  if constexpr (!std::same_as<Scalar, Wide>) {
    for (const Wide& x : array) {
      if (std::abs(x) > static_cast<Wide>(std::numeric_limits<Scalar>::max())) return false;
    }
  }
  return all_finite(array.data(), static_cast<Index>(Size));
}

/// Grades 2, 6, 10 negated: the isomorphism of the even elements of Cl(n) and Cl(0, n).
template <class R>
R with_flipped_planes(R r) {
  const Blades blades = r.blades();
  for (Index i = 0; i < blades.size; ++i) {
    if (std::popcount(blades.mask[i]) % 4 == 2) r[i] = -r[i];
  }
  return r;
}

/// f(integral_constant<int, n>) for n <= 5.
template <class F>
void with_small_dimension(int n, F&& f) {
  switch (n) {
    case 0:
      return f(std::integral_constant<int, 0>{});
    case 1:
      return f(std::integral_constant<int, 1>{});
    case 2:
      return f(std::integral_constant<int, 2>{});
    case 3:
      return f(std::integral_constant<int, 3>{});
    case 4:
      return f(std::integral_constant<int, 4>{});
    default:
      return f(std::integral_constant<int, 5>{});
  }
}

/// f(SmallAlgebra) of the element x, n <= 5: of its static signature, of Cl(n), or of the signature at run
/// time. Where squares of bivectors may cancel, float is computed in double.
template <class Element, class F>
void with_small_algebra(const Element& x, F&& f) {
  using Scalar = typename Element::Scalar;
  using Algebra = typename Element::SignatureType;
  using Wide = std::conditional_t<std::same_as<Scalar, float>, double, Scalar>;
  if constexpr (Algebra::is_static) {
    constexpr bool definite = Algebra{}.p() == 0 || Algebra{}.q() == 0;
    f(SmallAlgebra<Algebra::static_dimension, Algebra, std::conditional_t<definite, Scalar, Wide>>(
        Algebra{}));
  } else {
    with_small_dimension(x.dimension(), [&](auto n) {
      if constexpr (!Algebra::is_never_euclidean) {
        if (x.signature().is_euclidean()) return f(SmallAlgebra<n, Signature<n>, Scalar>(Signature<n>{}));
      }
      if constexpr (!Algebra::is_always_euclidean) f(SmallAlgebra<n, Algebra, Wide>(x.signature()));
    });
  }
}

/// exp(b) for n <= 5, for the function `who`.
template <class Scalar, int P, int Q, int R>
void exp_in_closed_form(const char* who, const Bivector<Scalar, P, Q, R>& b, Rotor<Scalar, P, Q, R>& r) {
  with_small_algebra(b, [&]<int N, class Algebra, class Wide>(const SmallAlgebra<N, Algebra, Wide>& algebra) {
    typename SmallAlgebra<N, Algebra, Wide>::Bivector plane;
    for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = static_cast<Wide>(b[static_cast<Index>(i)]);
    std::array<Wide, static_cast<std::size_t>(part_size(Part::even, N))> rotor;
    bool good = results_show_nan || b.all_finite();
    good = good && closed_exp(algebra, plane, Wide(1), rotor.data());
    good = good && is_within<Scalar>(rotor);
    if (!good) {
      if (!b.all_finite()) {
        throw_domain(who, ": the bivector of ", b.signature(), " has coefficients that are NaN or infinite");
      }
      if (!closed_exp_of_any_length(algebra, plane, rotor.data()) || !is_within<Scalar>(rotor)) {
        throw_domain(who, ": overflow in ", b.signature(), ", the largest coefficient of the bivector is ",
                     b.coeffs().cwiseAbs().maxCoeff());
      }
    }
    for (std::size_t i = 0; i < rotor.size(); ++i) r[static_cast<Index>(i)] = static_cast<Scalar>(rotor[i]);
  });
}

/// exp(b) for n >= 6: by the planes of a Euclidean bivector (of a Cl(0, n), too, whose even elements are
/// those of Cl(n) with e_ij for -e_ij), elsewhere by squaring.
template <class Scalar, int P, int Q, int R>
Rotor<Scalar, P, Q, R> exp_by_planes(const char* who, const Bivector<Scalar, P, Q, R>& b) {
  if (!b.all_finite()) {
    throw_domain(who, ": the bivector of ", b.signature(), " has coefficients that are NaN or infinite");
  }
  const Signature<P, Q, R> algebra = b.signature();
  constexpr int n = decomposition_dimension<P, Q, R>;
  const auto euclidean = [&](const auto& coeffs) {
    try {
      const InvariantDecomposition<Scalar, n> planes(Bivector<Scalar, n>(b.dimension(), coeffs));
      return Rotor<Scalar, P, Q, R>(algebra, planes.rotor().coeffs());
    } catch (const std::domain_error&) {
      throw_domain(who, ": the angles of the bivector of ", algebra, " overflow, its largest coefficient is ",
                   b.coeffs().cwiseAbs().maxCoeff());
    }
  };
  if (algebra.is_euclidean()) return euclidean(b.coeffs());
  if (algebra.p() == 0 && algebra.r() == 0) return with_flipped_planes(euclidean(-b.coeffs()));
  Scalar sum(0);
  for (Index i = 0; i < b.size(); ++i) sum += std::abs(b[i]);
  if (!(sum * std::numeric_limits<Scalar>::epsilon() < Scalar(0.01))) {
    throw_domain(who, ": the coefficients of the bivector of ", algebra, " sum to ", sum,
                 " in magnitude, and rounding would leave nothing of the angles; expected less than ",
                 Scalar(0.01) / std::numeric_limits<Scalar>::epsilon());
  }
  const Rotor<Scalar, P, Q, R> r = exp_by_squaring(b, true);
  if (!r.all_finite()) {
    throw_domain(who, ": overflow in ", algebra, ", the coefficients of the bivector sum to ", sum,
                 " in magnitude");
  }
  return r;
}

/// exp(b) for the function `who`.
template <class Scalar, int P, int Q, int R>
ROTORLIN_INLINE Rotor<Scalar, P, Q, R> exp_of(const char* who, const Bivector<Scalar, P, Q, R>& b) {
  constexpr int n = Signature<P, Q, R>::static_dimension;
  if constexpr (!std::floating_point<Scalar>) {
    if (!b.all_finite()) {
      throw_domain(who, ": the bivector of ", b.signature(), " has coefficients that are NaN or infinite");
    }
    return exp_by_squaring(b);
  } else {
    if constexpr (Signature<P, Q, R>::is_always_euclidean && (n == 2 || n == 3)) {
      Scalar square(0);
      for (Index i = 0; i < b.size(); ++i) square += b[i] * b[i];
      if (is_finite(square) && square > Scalar(0)) {
        const Scalar angle = std::sqrt(square), inverse = Scalar(1) / angle;
        const Scalar cosine = std::cos(angle), factor = std::sin(angle) * inverse;
        if constexpr (n == 2) {
          return {cosine, factor * b[0]};
        } else {
          return {cosine, factor * b[0], factor * b[1], factor * b[2]};
        }
      }
    }
    if constexpr (n == Dynamic || n <= 5) {
      if (n != Dynamic || b.dimension() <= 5) {
        Rotor<Scalar, P, Q, R> r(b.signature());
        exp_in_closed_form(who, b, r);
        return r;
      }
    }
    if constexpr (n == Dynamic || n > 5) {
      return exp_by_planes(who, b);
    } else {
      return {};  // not reached
    }
  }
}

}  // namespace detail

/// exp(b). Up to five dimensions in closed form, in any signature (closed_exp.hpp); Cl(n) and Cl(0, n) of
/// more by the exact invariant decomposition: accurate to rounding times max(1, |b|) at any |b|. Other
/// signatures of six or more dimensions, and other scalars (Eigen's AutoDiffScalar), by scaling and squaring,
/// with an error that grows with |b|. No allocation in static algebras of up to five dimensions. \throws
/// std::domain_error where a coefficient is NaN or infinite, and where the result overflows (cosh and sinh
/// do), or would be nothing but rounding.
template <class Scalar, int P, int Q, int R>
Rotor<Scalar, P, Q, R> exp(const Bivector<Scalar, P, Q, R>& b) {
  return detail::exp_of("exp", b);
}

}  // namespace rotorlin
