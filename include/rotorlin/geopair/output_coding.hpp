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

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/basis_sharing.hpp"
#include "rotorlin/geopair/shared_factorization.hpp"
#include "rotorlin/geopair/sparse_coding.hpp"
#include "rotorlin/linalg/symmetric_eigen.hpp"

namespace rotorlin {

namespace detail {

template <class = void>
class OutputAlternation : Descent {
 public:
  OutputAlternation(const std::vector<const Matrix<double>*>& factors,
                    const std::vector<Matrix<double>>& weights, const FactorizationOptions& options)
      : Descent(options, {}), factors_(factors), weights_(weights) {
    Index rows = 0;
    for (const Matrix<double>& weight : weights) rows += weight.rows();
    const Index n = weights[0].cols(), spanned = std::min({options.rank, n, rows});
    d_.resize(options.rank, n);
    d_.topRows(spanned) = output_sharing(factors, weights, spanned).dictionary;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      grams_.push_back(linalg::symmetric_product<double>(*factors[i], linalg::Op::transposed));
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
  Matrix<double> missing(std::size_t i) const {
    Matrix<double> rest = weights_[i];
    linalg::add_product<double>(-1, c_[i], d_, rest);
    return rest;
  }

  double measure() const {
    double objective = 0;
    for (std::size_t i = 0; i < c_.size(); ++i) {
      objective += linalg::squared_norm<double>(
          linalg::upper_product<double>(*factors_[i], linalg::Op::plain, missing(i)));
    }
    return objective;
  }

  /// In correction form; what no coefficient uses keeps its old value.
  void move_dictionary() {
    Matrix<double> left = Matrix<double>::Zero(d_.rows(), d_.rows()),
                   right = Matrix<double>::Zero(d_.rows(), d_.cols());
    for (std::size_t i = 0; i < c_.size(); ++i) {
      constexpr linalg::Op plain = linalg::Op::plain, turned = linalg::Op::transposed;
      const Matrix<double> image = linalg::product<double>(grams_[i], c_[i]);
      linalg::gemm<double>(1, c_[i], turned, image, plain, 1, left);
      linalg::gemm<double>(1, image, turned, missing(i), plain, 1, right);
    }
    const VectorX<double> inverse = normalize_gram(left);
    for (Index j = 0; j < left.cols(); ++j) left(j, j) = 1;
    linalg::scale_rows<double>(inverse, right);
    Matrix<double> move = solve_normal_equations(left, right);
    linalg::scale_rows<double>(inverse, move);
    d_ += move;
  }

  /// From the present coefficients, or from nothing.
  void code(bool warm) {
    const Matrix<double> gram = linalg::symmetric_product<double>(d_, linalg::Op::plain);
    Matrix<double> normalized = gram;
    normalize_gram(normalized);
    PursuitOptions options = pursuit(warm);
    options.largest_eigenvalue = largest_eigenvalue(normalized);
    // rows of a block do not see what the others become; for large dictionaries their matrix products pay
    const Index most = d_.rows() > 128 ? 32 : 1;
    for (std::size_t i = 0; i < c_.size(); ++i) {
      const Matrix<double>& g = grams_[i];
      Matrix<double> pull = linalg::product_tn<double>(missing(i), g);  // n x d_i
      for (Index first = 0; first < g.rows(); first += most) {
        const Index rows = std::min(most, g.rows() - first);
        VectorX<double> scale(rows);
        for (Index j = 0; j < rows; ++j) scale[j] = 1 / g(first + j, first + j);
        if (warm && rows > 1) {  // then G_jj is no bound: lambda_max G_jj is
          Matrix<double> block = g.block(first, first, rows, rows);
          normalize_gram(block);
          scale /= linalg::symmetric_eigen<double>(std::move(block)).values[rows - 1];
        }
        const Matrix<double> start = linalg::transposed<double>(c_[i].middleRows(first, rows));
        const Matrix<double> old = linalg::product_tn<double>(d_, start);
        Matrix<double> targets = pull.middleCols(first, rows);
        linalg::scale_columns<double>(scale, targets);
        targets += old;
        const SparseCode code = hard_thresholding_pursuit(gram, linalg::product<double>(d_, targets),
                                                          linalg::column_energies<double>(targets), options,
                                                          warm ? &start : nullptr);
        c_[i].middleRows(first, rows) = linalg::transposed<double>(code.coefficients);
        Matrix<double> change = old;
        linalg::gemm<double>(-1, d_, linalg::Op::transposed, code.coefficients, linalg::Op::plain, 1, change);
        linalg::add_product<double>(1, change, g.middleRows(first, rows), pull);
      }
    }
  }

  const std::vector<const Matrix<double>*>& factors_;
  const std::vector<Matrix<double>>& weights_;
  std::vector<Matrix<double>> grams_;
};

}  // namespace detail

/// D (r x n) and C_i (d_i x r) with at most options.nonzeros nonzeros a row. factors: L_i, d_i x d_i, upper
/// triangular; weights: W_i, d_i x n. \throws std::invalid_argument on no layers, other shapes, or unless 1
/// <= nonzeros <= rank.
template <class = void>
SharedFactorization output_coding(const std::vector<const Matrix<double>*>& factors,
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
