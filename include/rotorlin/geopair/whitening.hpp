// SPDX-License-Identifier: MIT
/// \file
/// Whitening: the Cholesky factor of a Gram matrix, with just enough of a ridge to have one.
///
/// G + eta (tr G / d) I = L^T L with L upper triangular, so that |L (W - M)|_F^2 is the mean squared
/// difference of the outputs x W and x M (W, M: inputs x outputs) over the samples that G stands for.
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

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
  const double largest = gram.cwiseAbs().maxCoeff(), mean = gram.trace() / static_cast<double>(d);
  if (!(mean > std::numeric_limits<double>::min() / std::numeric_limits<double>::epsilon())) {
    detail::throw_invalid(who, ": the trace of the Gram matrix is ", gram.trace(),
                          ", expected > 0, the mean square of activations: were all of them zero?");
  }
  if (const double asymmetry = (gram - gram.transpose()).cwiseAbs().maxCoeff(); asymmetry > 1e-8 * largest) {
    detail::throw_invalid(who, ": the Gram matrix is not symmetric, it differs from its transpose by ",
                          asymmetry, ", expected E[x x^T] (GramAccumulator makes it)");
  }
  const double clear = static_cast<double>(d) * std::numeric_limits<double>::epsilon();
  for (bool last = false; !last; eta = std::min(std::max(10 * eta, 1e-15), 1.0)) {
    last = eta >= 1;
    Matrix<double> factor = gram;
    factor.diagonal().array() += eta * mean;
    const VectorX<double> diagonal = factor.diagonal();
    const Eigen::LLT<Eigen::Ref<Matrix<double>>, Eigen::Upper> cholesky(factor);  // in place
    if (cholesky.info() != Eigen::Success) continue;
    factor.triangularView<Eigen::StrictlyLower>().setZero();
    if ((factor.diagonal().array().square() > clear * diagonal.array()).all()) {
      return {std::move(factor), eta, eta * mean};
    }
  }
  detail::throw_invalid(
      who, ": the Gram matrix (", detail::shape(gram), ", trace ", gram.trace(),
      ") is not positive semidefinite, not even with a ridge of its mean diagonal; expected ",
      "E[x x^T] (GramAccumulator makes it)");
}

}  // namespace rotorlin
