// SPDX-License-Identifier: MIT
/// \file
/// The dictionary step of one group of layers: the D of least f(D, C) for given coefficients. A single Gram
/// matrix drops out, and the step is plain least squares; two have the closed form; more are solved by a few
/// conjugate gradients. Always as a correction of the present D, so that rounding does not add up and what no
/// coefficient uses stays as it is.
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <limits>
#include <memory>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/layer_group.hpp"
#include "rotorlin/geopair/least_squares.hpp"
#include "rotorlin/geopair/sylvester.hpp"

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
    }
    std::vector<const Matrix<double>*> factors;
    for (const GramTerm& term : terms()) factors.push_back(&term.factor);
    gradients_ = std::make_unique<SylvesterConjugateGradients>(factors);
    if (terms().size() > 2) {
      Matrix<double> mean = Matrix<double>::Zero(group.inputs(), group.inputs());
      for (const Matrix<double>* factor : factors) {
        mean.selfadjointView<Eigen::Lower>().rankUpdate(factor->transpose(), 1 / factor->squaredNorm());
      }
      mean_ = detail::raised_cholesky(std::move(mean));
    }
  }

  /// X such that D + X is the minimiser, from the coefficients C_i (r x n_i) of every term and the whitened
  /// residuals E_i = L_i (W_i - D C_i). `decrease`: by how much X lowers the objective, where that costs
  /// nothing: <S, X>, since X is a minimiser of <X, sum_i G_i X B_i> - 2 <S, X> (conjugate gradients: in
  /// their subspace); NaN for a single Gram matrix.
  template <class = void>
  Matrix<double> correction(const std::vector<Matrix<double>>& coefficients,
                            const std::vector<Matrix<double>>& residuals, double* decrease = nullptr) const {
    if (decrease != nullptr) *decrease = std::numeric_limits<double>::quiet_NaN();
    if (terms().size() == 1) {
      const Matrix<double> plain = terms()[0].factor.triangularView<Eigen::Upper>().solve(residuals[0]);
      return LeastSquares(coefficients[0].transpose()).solve(plain.transpose()).transpose();
    }
    Matrix<double> s = Matrix<double>::Zero(group_.inputs(), coefficients[0].rows());
    for (std::size_t i = 0; i < terms().size(); ++i) {
      s += terms()[i].factor.transpose().triangularView<Eigen::Lower>() *
           (residuals[i] * coefficients[i].transpose()).eval();
    }
    const Matrix<double> x =
        !pencil_ ? gradients_->solve(coefficients, s, gradient_steps_, tolerance_)
                 : solve_sylvester(
                       *pencil_,
                       JointDiagonalization(coefficients[0].transpose(), coefficients[1].transpose()), s);
    if (decrease != nullptr) *decrease = s.cwiseProduct(x).sum();
    return x;
  }

  /// G_i x.
  template <class = void>
  VectorX<double> apply_gram(std::size_t term, const VectorX<double>& x) const {
    const Matrix<double>& factor = terms()[term].factor;
    const VectorX<double> seen = factor.triangularView<Eigen::Upper>() * x;
    return factor.transpose().triangularView<Eigen::Lower>() * seen;
  }

  /// x with sum_i weights_i G_i x = s, weights >= 0 and not all zero: the same for a single atom.
  template <class = void>
  VectorX<double> atom_correction(const VectorX<double>& weights, const VectorX<double>& s) const;

 private:
  const std::vector<GramTerm>& terms() const { return group_.terms(); }

  const LayerGroup& group_;
  int gradient_steps_;
  double tolerance_;
  std::unique_ptr<JointDiagonalization> pencil_;
  std::unique_ptr<SylvesterConjugateGradients> gradients_;
  Eigen::LLT<Matrix<double>> mean_;  // of the Gram matrices, each divided by its trace
};

template <class>
VectorX<double> DictionaryStep::atom_correction(const VectorX<double>& weights,
                                                const VectorX<double>& s) const {
  if (terms().size() == 1) {
    const auto factor = terms()[0].factor.triangularView<Eigen::Upper>();
    return factor.solve(factor.transpose().solve(s)) / weights[0];
  }
  if (pencil_) {
    const auto& p = pencil_->transform();
    const VectorX<double> diagonal = weights[0] * pencil_->first() + weights[1] * pencil_->second();
    return p * (diagonal.array() > 0).select((p.transpose() * s).cwiseQuotient(diagonal), 0).matrix();
  }
  VectorX<double> x = VectorX<double>::Zero(s.size()), residual = s, direction = mean_.solve(s);
  double product = residual.dot(direction);
  for (int step = 0; step < gradient_steps_ && product > 0; ++step) {
    VectorX<double> image = VectorX<double>::Zero(s.size());
    for (std::size_t i = 0; i < terms().size(); ++i) {
      if (weights[static_cast<Index>(i)] > 0)
        image += weights[static_cast<Index>(i)] * apply_gram(i, direction);
    }
    const double length = product / direction.dot(image);
    x += length * direction;
    residual -= length * image;
    if (residual.norm() <= tolerance_ * s.norm()) break;
    const VectorX<double> next = mean_.solve(residual);
    const double next_product = residual.dot(next);
    direction = next + (next_product / product) * direction;
    product = next_product;
  }
  return x;
}

}  // namespace rotorlin
