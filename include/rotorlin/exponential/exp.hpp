// SPDX-License-Identifier: MIT
/// \file
/// The exponential of a bivector, exp(b) = sum_k b^k / k! (no factor 1/2): for a simple b in Cl(n),
/// exp(b) = cos|b| + sin|b| b/|b|, and the sandwich with it turns the plane of b by 2|b|.
#pragma once

#include <cmath>
#include <concepts>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/exponential/invariant_decomposition.hpp"

namespace rotorlin {

namespace detail {

/// The N of the InvariantDecomposition that serves a signature.
template <int P, int Q, int R>
inline constexpr int decomposition_dimension =
    Signature<P, Q, R>::static_dimension >= 2 ? Signature<P, Q, R>::static_dimension : Dynamic;

/// Taylor's series of b / 2^s, squared s times, for any signature and scalar.
template <class Scalar, int P, int Q, int R>
Rotor<Scalar, P, Q, R> exp_by_squaring(const Bivector<Scalar, P, Q, R>& b) {
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
  for (; squarings > 0; --squarings) sum = even_product(sum, sum);
  return sum;
}

}  // namespace detail

/// exp(b). Euclidean algebras over float, double and long double: by the exact invariant decomposition,
/// accurate to rounding times max(1, |b|). Any other signature, and other scalars (Eigen's AutoDiffScalar):
/// by scaling and squaring, with an error that grows with |b|.
/// \throws std::domain_error where a coefficient
/// is NaN or infinite.
template <class Scalar, int P, int Q, int R>
Rotor<Scalar, P, Q, R> exp(const Bivector<Scalar, P, Q, R>& b) {
  if (!b.all_finite()) {
    detail::throw_domain("exp: the bivector of ", b.signature(),
                         " has coefficients that are NaN or infinite");
  }
  if constexpr (std::floating_point<Scalar> && !Signature<P, Q, R>::is_never_euclidean) {
    if (b.signature().is_euclidean()) {
      constexpr int n = detail::decomposition_dimension<P, Q, R>;
      const InvariantDecomposition<Scalar, n> planes(Bivector<Scalar, n>(b.dimension(), b.coeffs()));
      return {b.signature(), planes.rotor().coeffs()};
    }
  }
  if constexpr (!std::floating_point<Scalar> || !Signature<P, Q, R>::is_always_euclidean) {
    return detail::exp_by_squaring(b);
  } else {
    return {};  // not reached
  }
}

}  // namespace rotorlin
