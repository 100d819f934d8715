// SPDX-License-Identifier: MIT
/// \file
/// The derivative of the exponential, exact at every bivector. With ad_b(h) = [b, h] = b h - h b and
/// phi(z) = (e^z - 1)/z,
///
///     d exp(b) = exp(b) phi(-ad_b)(db) = phi(ad_b)(db) exp(b).
#pragma once

#include <Eigen/Core>
#include <concepts>
#include <unsupported/Eigen/MatrixFunctions>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/invariant_decomposition.hpp"

namespace rotorlin {

/// The vector-Jacobian product of exp at a decomposed bivector b of Cl(n): from G = dL/dr, the gradient of a
/// loss L with respect to the even coefficients of r = exp(b), to
///
///     dL/db = phi(ad_b) <r~ G>_2.
///
/// \throws std::invalid_argument where the dimensions differ.
template <std::floating_point Scalar, int N>
Bivector<Scalar, N> exp_vjp(const InvariantDecomposition<Scalar, N>& b, const Rotor<Scalar, N>& grad_r) {
  const Rotor<Scalar, N> r = b.rotor();
  r.check_same_algebra("exp_vjp", grad_r);
  return b.phi((r.reversed() * grad_r).bivector_part(), +1);
}

namespace detail {

/// dL/db in any signature. With dr = r h, h = phi(-ad_b)(db), row j of `augmented` has -ad_b of the blade e_j
/// and then dL/dh_j = G . (r e_j). The exponential of [X y; 0 0] is [e^X phi(X) y; 0 1].
template <std::floating_point Scalar, int P, int Q, int R>
Bivector<Scalar, P, Q, R> exp_vjp_by_matrix(const Bivector<Scalar, P, Q, R>& b,
                                            const Rotor<Scalar, P, Q, R>& grad_r) {
  const Rotor<Scalar, P, Q, R> r = exp(b);
  const Index size = b.size();
  Matrix<Scalar> augmented = Matrix<Scalar>::Zero(size + 1, size + 1);
  for (Index j = 0; j < size; ++j) {
    Bivector<Scalar, P, Q, R> blade(b.signature());
    blade[j] = Scalar(1);
    augmented.row(j).head(size) = Scalar(-2) * commutator_product(b, blade).coeffs();
    augmented(j, size) = detail::product_part_of<Product::geometric, Part::even>("exp_vjp", r, blade)
                             .coeffs()
                             .dot(grad_r.coeffs());
  }
  const Matrix<Scalar> exponential = augmented.exp();
  return {b.signature(), exponential.col(size).head(size)};
}

}  // namespace detail

/// dL/db from G = dL/dr with r = exp(b), in any signature. Euclidean: as above, exact also at zero, at equal
/// angles and at pi. Elsewhere the matrix of phi(-ad_b) is part of a matrix exponential of n(n-1)/2 + 1 rows.
/// \throws std::domain_error where b has coefficients that are NaN or infinite; std::invalid_argument where b
/// and G are of different algebras.
template <std::floating_point Scalar, int P, int Q, int R>
Bivector<Scalar, P, Q, R> exp_vjp(const Bivector<Scalar, P, Q, R>& b, const Rotor<Scalar, P, Q, R>& grad_r) {
  b.check_same_algebra("exp_vjp", grad_r);
  if constexpr (!Signature<P, Q, R>::is_never_euclidean) {
    if (b.signature().is_euclidean()) {
      constexpr int n = detail::decomposition_dimension<P, Q, R>;
      const InvariantDecomposition<Scalar, n> planes(Bivector<Scalar, n>(b.dimension(), b.coeffs()));
      return {b.signature(), exp_vjp(planes, Rotor<Scalar, n>(b.dimension(), grad_r.coeffs())).coeffs()};
    }
  }
  if constexpr (!Signature<P, Q, R>::is_always_euclidean) {
    return detail::exp_vjp_by_matrix(b, grad_r);
  } else {
    return {};  // not reached
  }
}

}  // namespace rotorlin
