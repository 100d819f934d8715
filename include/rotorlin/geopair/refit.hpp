// SPDX-License-Identifier: MIT
/// \file
/// Sequential refit: after the layers before it were compressed, a layer sees other activations z than the x
/// it was made for. With its dictionary kept, dense coefficients are solved once more for the least
///
///     E|x W - z D C|^2 + ridge |W - D C|_F^2,
///
/// from the Gram matrix E[z^T z] = L^T L - ridge I and the cross-Gram matrix H = E[z^T x] (samples are rows
/// here): C is the least squares solution of L D C = L^-T (H + ridge I) W. With z = x it is the coefficient
/// step.
#pragma once

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/least_squares.hpp"
#include "rotorlin/linalg/whitening.hpp"

namespace rotorlin {

/// C (r x n) for the dictionary D (d x r), the weight W (d x n), the whitening of E[z^T z] (d x d) and the
/// cross-Gram matrix H (d x d, what CrossGramAccumulator gives from z and x). \throws std::invalid_argument
/// on other shapes, std::domain_error when H is not finite.
template <class = void>
Matrix<double> refit_coefficients(const Matrix<double>& dictionary, const Matrix<double>& weight,
                                  const Whitening& seen, const Matrix<double>& cross) {
  constexpr const char* who = "refit_coefficients";
  const Index d = weight.rows();
  if (dictionary.rows() != d || seen.factor.rows() != d || cross.rows() != d || cross.cols() != d) {
    detail::throw_invalid(who, ": D is ", detail::shape(dictionary), ", W ", detail::shape(weight), ", L ",
                          detail::shape(seen.factor), ", H ", detail::shape(cross),
                          ", expected d x r, d x n, d x d, d x d");
  }
  if (!detail::all_finite(cross))
    detail::throw_domain(who, ": the cross-Gram matrix has NaN or infinite entries");
  Matrix<double> target = linalg::product<double>(cross, weight);
  target += seen.ridge * weight;
  linalg::solve_upper<double>(seen.factor, linalg::Op::transposed, target);
  return LeastSquares(linalg::upper_product<double>(seen.factor, linalg::Op::plain, dictionary))
      .solve(target);
}

}  // namespace rotorlin
