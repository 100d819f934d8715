// SPDX-License-Identifier: MIT
/// \file
/// Sparse coefficients where layers share their outputs, W_i ~ C_i D:
///
///     f(D, C) = sum_i |L_i (W_i - C_i D)|_F^2 -> min,      W_i: d_i x n, D: r x n, at most k nonzeros a row
///     of C_i.
///
/// The rows of C_i are coupled by G_i = L_i^T L_i, so they are coded one after another: with E = W - C D, f
/// depends on the row j as
///
///     G_jj |t - c_j D|^2 + const,      t = c_j D + (G E)_j / G_jj,
///
/// an ordinary sparse coding of t, in which the row makes up for the errors of all others (as the rounding of
/// one weight does for that of the others in optimal brain quantisation, Frantar and Alistarh 2022). With
/// large dictionaries rows are coded in blocks, where what they are to each other is left out from a cold
/// start, and bounded by the largest eigenvalue of the scaled block of G from a warm one, so that f does not
/// increase. D for given C is an exact least squares, sum_i C_i^T G_i C_i D = sum_i C_i^T G_i W_i.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <functional>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/symmetric_eigen.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/basis_sharing.hpp"
#include "rotorlin/geopair/shared_factorization.hpp"
#include "rotorlin/geopair/sparse_coding.hpp"

namespace rotorlin {

namespace detail {

template <class = void>
class OutputAlternation : Descent {
 public:
  OutputAlternation(const std::vector<Matrix<double>>& factors, const std::vector<Matrix<double>>& weights,
                    const FactorizationOptions& options)
      : Descent(options, {}), factors_(factors), weights_(weights) {
    Index rows = 0;
    for (const Matrix<double>& weight : weights) rows += weight.rows();
    const Index n = weights[0].cols(), spanned = std::min({options.rank, n, rows});
    d_.resize(options.rank, n);
    d_.topRows(spanned) = output_sharing(factors, weights, spanned).dictionary;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto factor = factors[i].triangularView<Eigen::Upper>();
      grams_.push_back(factor.transpose() * Matrix<double>(factor));
      c_.push_back(Matrix<double>::Zero(weights[i].rows(), options.rank));
    }
    for (Index j = spanned; j < options.rank; ++j) {  // rows of W at equal distances
      Index row = (j - spanned) * rows / (options.rank - spanned);
      std::size_t i = 0;
      for (; row >= weights[i].rows(); ++i) row -= weights[i].rows();
      d_.row(j) = weights[i].row(row);
    }
    energy_ = measure();
  }

  SharedFactorization run() {
    const auto measured = [this] { return measure(); };
    return alternate([this](bool warm) { code(warm); }, measured,
                     [&] { descend(HalfStep::dictionary, measured, [this] { move_dictionary(); }); });
  }

 private:
  Matrix<double> missing(std::size_t i) const { return weights_[i] - c_[i] * d_; }

  double measure() const {
    double objective = 0;
    for (std::size_t i = 0; i < c_.size(); ++i) {
      objective += (factors_[i].triangularView<Eigen::Upper>() * missing(i)).eval().squaredNorm();
    }
    return objective;
  }

  /// In correction form; what no coefficient uses keeps its old value.
  void move_dictionary() {
    Matrix<double> left = Matrix<double>::Zero(d_.rows(), d_.rows()),
                   right = Matrix<double>::Zero(d_.rows(), d_.cols());
    for (std::size_t i = 0; i < c_.size(); ++i) {
      const Matrix<double> image = grams_[i] * c_[i];
      left.noalias() += c_[i].transpose() * image;
      right.noalias() += image.transpose() * missing(i);
    }
    const VectorX<double> lengths = left.diagonal().cwiseMax(0).cwiseSqrt();
    const VectorX<double> inverse = (lengths.array() > 0).select(lengths.cwiseInverse(), 0);
    left = inverse.asDiagonal() * left * inverse.asDiagonal();
    left.diagonal().array() = 1;
    d_ += inverse.asDiagonal() * solve_normal_equations(left, inverse.asDiagonal() * right);
  }

  /// From the present coefficients, or from nothing.
  void code(bool warm) {
    const Matrix<double> gram = d_ * d_.transpose();
    const VectorX<double> lengths = gram.diagonal().cwiseSqrt();
    const VectorX<double> inverse = (lengths.array() > 0).select(lengths.cwiseInverse(), 0);
    PursuitOptions options = pursuit(warm);
    options.largest_eigenvalue = largest_eigenvalue(inverse.asDiagonal() * gram * inverse.asDiagonal());
    // rows of a block do not see what the others become; for large dictionaries their matrix products pay
    const Index most = d_.rows() > 128 ? 32 : 1;
    for (std::size_t i = 0; i < c_.size(); ++i) {
      const Matrix<double>& g = grams_[i];
      Matrix<double> pull = missing(i).transpose() * g;  // n x d_i
      for (Index first = 0; first < g.rows(); first += most) {
        const Index rows = std::min(most, g.rows() - first);
        VectorX<double> scale = g.diagonal().segment(first, rows).cwiseInverse();
        if (warm && rows > 1) {  // then G_jj is no bound: lambda_max G_jj is
          const VectorX<double> root = scale.cwiseSqrt();
          const Matrix<double> block =
              root.asDiagonal() * g.block(first, first, rows, rows) * root.asDiagonal();
          scale /= symmetric_eigen<double>(block).values[rows - 1];
        }
        const Matrix<double> old = (c_[i].middleRows(first, rows) * d_).transpose();
        const Matrix<double> targets = old + pull.middleCols(first, rows) * scale.asDiagonal();
        const Matrix<double> start = c_[i].middleRows(first, rows).transpose();
        const SparseCode code = hard_thresholding_pursuit(gram, d_ * targets, targets.colwise().squaredNorm(),
                                                          options, warm ? &start : nullptr);
        c_[i].middleRows(first, rows) = code.coefficients.transpose();
        pull.noalias() += (old - d_.transpose() * code.coefficients) * g.middleRows(first, rows);
      }
    }
  }

  const std::vector<Matrix<double>>&factors_, &weights_;
  std::vector<Matrix<double>> grams_;
};

}  // namespace detail

/// D (r x n) and C_i (d_i x r) with at most options.nonzeros nonzeros a row. factors: L_i, d_i x d_i, upper
/// triangular; weights: W_i, d_i x n. \throws std::invalid_argument on no layers, other shapes, or unless 1
/// <= nonzeros <= rank.
template <class = void>
SharedFactorization output_coding(const std::vector<Matrix<double>>& factors,
                                  const std::vector<Matrix<double>>& weights,
                                  const FactorizationOptions& options) {
  constexpr const char* who = "output_coding";
  if (weights.empty() || factors.size() != weights.size() || options.nonzeros < 1 ||
      options.rank < options.nonzeros || options.iterations < 0) {
    detail::throw_invalid(who, ": ", factors.size(), " factors, ", weights.size(),
                          " weights, rank = ", options.rank, ", nonzeros = ", options.nonzeros,
                          ", iterations = ", options.iterations,
                          ", expected as many of the first, >= 1, 1 <= nonzeros <= rank, iterations >= 0");
  }
  return detail::OutputAlternation(factors, weights, options).run();
}

}  // namespace rotorlin
