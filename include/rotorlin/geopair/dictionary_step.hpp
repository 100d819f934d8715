// SPDX-License-Identifier: MIT
/// \file
/// The dictionary step of one group of layers: the D of least f(D, C) for given coefficients. A single Gram
/// matrix drops out, and the step is plain least squares; two have the closed form; more are solved by a few
/// conjugate gradients. Always as a correction of the present D, so that rounding does not add up and what no
/// coefficient uses stays as it is.
#pragma once

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/layer_group.hpp"
#include "rotorlin/geopair/sylvester.hpp"
#include "rotorlin/linalg/least_squares.hpp"

namespace rotorlin {

/// What the steps of one group have in common is computed once, on construction.
class DictionaryStep {
 public:
  /// Keeps a reference to the group. `gradient_steps` and `tolerance` bound the conjugate gradients, which
  /// only groups of three or more Gram matrices need. \throws std::invalid_argument on an empty group.
  template <class = void>
  explicit DictionaryStep(const LayerGroup& group, int gradient_steps = 4, double tolerance = 0)
      : group_(group), gradient_steps_(gradient_steps), tolerance_(tolerance) {
    if (group.size() == 0) detail::throw_invalid("DictionaryStep: the group has no layers");
    if (terms().size() == 2) {
      pencil_ = std::make_unique<JointDiagonalization>(terms()[0].factor, terms()[1].factor);
    } else if (terms().size() > 2) {
      std::vector<const Matrix<double>*> factors;
      for (const GramTerm& term : terms()) factors.push_back(&term.factor);
      gradients_ = std::make_unique<SylvesterConjugateGradients>(factors);
    }
  }

  /// X such that D + X is the minimiser, from the coefficients C_i (r x n_i) of every term and the whitened
  /// residuals E_i = L_i (W_i - D C_i); of some atoms alone, where only theirs are given. `decrease`: by how
  /// much X lowers the objective, where that costs nothing: <S, X>, since X is a minimiser of <X, sum_i G_i X
  /// B_i> - 2 <S, X> (conjugate gradients: in their subspace); NaN for a single Gram matrix.
  template <class = void>
  Matrix<double> correction(const std::vector<Matrix<double>>& coefficients,
                            const std::vector<Matrix<double>>& residuals, double* decrease = nullptr) const {
    if (decrease != nullptr) *decrease = std::numeric_limits<double>::quiet_NaN();
    if (terms().size() == 1) {
      const LeastSquares fit(linalg::transposed<double>(coefficients[0]));
      return linalg::upper_solution<double>(
          terms()[0].factor, linalg::Op::plain,
          linalg::transposed<double>(fit.solve(linalg::transposed<double>(residuals[0]))));
    }
    Matrix<double> s = Matrix<double>::Zero(group_.inputs(), coefficients[0].rows());
    for (std::size_t i = 0; i < terms().size(); ++i) {
      s += linalg::upper_product<double>(terms()[i].factor, linalg::Op::transposed,
                                         linalg::product_nt<double>(residuals[i], coefficients[i]));
    }
    const Matrix<double> x =
        !pencil_ ? gradients_->solve(coefficients, s, gradient_steps_, tolerance_)
                 : solve_sylvester(*pencil_,
                                   JointDiagonalization(linalg::transposed<double>(coefficients[0]),
                                                        linalg::transposed<double>(coefficients[1])),
                                   s);
    if (decrease != nullptr) *decrease = linalg::inner<double>(s, x);
    return x;
  }

 private:
  const std::vector<GramTerm>& terms() const { return group_.terms(); }

  const LayerGroup& group_;
  int gradient_steps_;
  double tolerance_;
  std::unique_ptr<JointDiagonalization> pencil_;
  std::unique_ptr<SylvesterConjugateGradients> gradients_;
};

}  // namespace rotorlin
