// SPDX-License-Identifier: MIT
/// \file
/// Whitening: the Cholesky factor of a Gram matrix, with just enough of a ridge to have one.
///
/// G + eta (tr G / d) I = L^T L with L upper triangular, so that |L (W - M)|_F^2 is the mean squared
/// difference of the outputs x W and x M (W, M: inputs x outputs) over the samples that G stands for.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/triangular.hpp"

namespace rotorlin {

/// The default ridge, relative to the mean diagonal. With few samples 1e-1 is better; otherwise results are
/// flat from 1e-9 to 1e-2.
inline constexpr double default_ridge = 1e-3;

struct Whitening {
  Matrix<double> factor;  ///< L, d x d, upper triangular, positive diagonal, zeros below it
  double eta;             ///< the ridge in use, relative to the mean diagonal: never less than asked for
  double ridge;           ///< what was added to the diagonal: eta tr(G) / d
};

/// Factors `gram` (d x d, symmetric) with the relative ridge `eta`; grows eta tenfold (from at least 1e-15)
/// until every pivot of the Cholesky factorisation stands clear of rounding. \throws std::domain_error on NaN
/// or Inf; std::invalid_argument when gram is not square, not symmetric (beyond 1e-8 of its largest entry),
/// zero, so far from positive semidefinite that eta = 1 does not help, or when eta is negative.
template <class = void>
Whitening whiten(const ConstMatrixRef<double>& gram, double eta = default_ridge) {
  constexpr const char* who = "whiten";
  const Index d = gram.rows();
  if (d == 0 || gram.cols() != d) {
    detail::throw_invalid(who, ": the Gram matrix is ", detail::shape(gram), ", expected d x d");
  }
  if (!detail::all_finite(gram)) detail::throw_domain(who, ": the Gram matrix has NaN or infinite entries");
  if (!(eta >= 0 && detail::is_finite(eta))) {
    detail::throw_invalid(who, ": the relative ridge is ", eta, ", expected >= 0");
  }
  const VectorX<double> diagonal = linalg::diagonal_of<double>(gram);
  const double largest = linalg::largest_magnitude<double>(gram), trace = diagonal.sum(),
               mean = trace / static_cast<double>(d);
  if (!(mean > std::numeric_limits<double>::min() / std::numeric_limits<double>::epsilon())) {
    detail::throw_invalid(who, ": the trace of the Gram matrix is ", trace,
                          ", expected > 0, the mean square of activations: were all of them zero?");
  }
  if (const double asymmetry = linalg::asymmetry<double>(gram); asymmetry > 1e-8 * largest) {
    detail::throw_invalid(who, ": the Gram matrix is not symmetric, it differs from its transpose by ",
                          asymmetry, ", expected E[x x^T] (GramAccumulator makes it)");
  }
  const double clear = static_cast<double>(d) * std::numeric_limits<double>::epsilon();
  for (bool last = false; !last; eta = std::min(std::max(10 * eta, 1e-15), 1.0)) {
    last = eta >= 1;
    Matrix<double> factor = gram;
    for (Index i = 0; i < d; ++i) factor(i, i) += eta * mean;
    if (!linalg::cholesky_upper<double>(factor)) continue;
    bool stands_clear = true;
    for (Index i = 0; i < d; ++i) {
      const double pivot = factor(i, i) * factor(i, i);
      stands_clear = stands_clear && pivot > clear * (diagonal[i] + eta * mean);
    }
    if (stands_clear) return {std::move(factor), eta, eta * mean};
  }
  detail::throw_invalid(
      who, ": the Gram matrix (", detail::shape(gram), ", trace ", trace,
      ") is not positive semidefinite, not even with a ridge of its mean diagonal; expected ",
      "E[x x^T] (GramAccumulator makes it)");
}

}  // namespace rotorlin
