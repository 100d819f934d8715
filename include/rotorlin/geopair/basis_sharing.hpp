// SPDX-License-Identifier: MIT
/// \file
/// Shared factors in closed form. Basis Sharing (Wang et al. 2024): one whitening for all layers of a group,
/// the mean of their Gram matrices, and one truncated singular value decomposition of the weights side by
/// side. It is the optimum where the Gram matrices are equal, and else where the alternating steps begin. And
/// the mirror image, sharing on the output side, W_i ~ C_i D with D: r x n, which needs no common whitening:
/// an exact decomposition of the whitened weights one above the other.
#pragma once

#include <algorithm>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/layer_group.hpp"
#include "rotorlin/linalg/leading_vectors.hpp"
#include "rotorlin/linalg/whitening.hpp"

namespace rotorlin {

/// A dictionary and the coefficients of every term of a group (of every layer, where there is no group).
struct SharedFactors {
  Matrix<double> dictionary;
  std::vector<Matrix<double>> coefficients;
};

/// How the mean whitening weighs the Gram matrices of a group: as they are, as published; or each divided by
/// its trace, with the columns of W_i scaled by its root, so that a loud input does not drown the others.
enum class MeanWhitening { plain, normalized };

/// D (d x r) and C by Basis Sharing. Where r exceeds what the weights span at most, min(d, N), D is filled
/// with columns of W at equal distances, with coefficients of zero. \throws std::invalid_argument on an empty
/// group or r < 1.
template <class = void>
SharedFactors basis_sharing(const LayerGroup& group, Index rank, MeanWhitening mean = MeanWhitening::plain) {
  constexpr const char* who = "basis_sharing";
  if (group.size() == 0 || rank < 1) {
    detail::throw_invalid(who, ": ", group.size(), " layers and rank ", rank, ", expected >= 1");
  }
  const Index d = group.inputs(), n = group.outputs();
  std::vector<double> scales;  // of the columns of every term
  Matrix<double> factor = Matrix<double>::Zero(d, d);
  for (const GramTerm& term : group.terms()) {
    const double trace = mean == MeanWhitening::normalized ? linalg::squared_norm<double>(term.factor) : 1;
    linalg::syrk_lower<double>(1 / trace, term.factor, linalg::Op::transposed, factor);
    scales.push_back(std::sqrt(trace));
  }
  linalg::mirror_lower<double>(factor);
  factor = whiten(factor, 0).factor;

  Matrix<double> whitened(d, n);
  Index first = 0;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const Index columns = group.terms()[i].whitened.cols();
    Matrix<double> weights = group.terms()[i].weights(0, columns);
    linalg::scale<double>(scales[i], weights);
    whitened.middleCols(first, columns) = linalg::upper_product<double>(factor, linalg::Op::plain, weights);
    first += columns;
  }
  const Matrix<double> left = linalg::leading_left_vectors<double>(whitened, rank);
  const Index spanned = left.cols();
  SharedFactors result{Matrix<double>(d, rank), {}};
  result.dictionary.leftCols(spanned) = linalg::upper_solution<double>(factor, linalg::Op::plain, left);
  for (Index j = spanned; j < rank; ++j) {
    Index column = (j - spanned) * n / (rank - spanned);
    std::size_t i = 0;
    for (; column >= group.terms()[i].whitened.cols(); ++i) column -= group.terms()[i].whitened.cols();
    result.dictionary.col(j) = group.terms()[i].weights(column, 1);
  }
  first = 0;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const Index columns = group.terms()[i].whitened.cols();
    result.coefficients.push_back(Matrix<double>::Zero(rank, columns));
    linalg::gemm<double>(1 / scales[i], left, linalg::Op::transposed, whitened.middleCols(first, columns),
                         linalg::Op::plain, 0, result.coefficients[i].topRows(spanned));
    first += columns;
  }
  return result;
}

/// D (r x n, orthonormal rows) and C_i (d_i x r) of least sum_i |L_i (W_i - C_i D)|_F^2: D^T are the leading
/// right singular vectors of the stack of all L_i W_i, and C_i = W_i D^T. factors: L_i, d_i x d_i; weights:
/// W_i, d_i x n. \throws std::invalid_argument on no layers, other shapes, or rank outside 1 ... min(n, sum_i
/// d_i).
template <class = void>
SharedFactors output_sharing(const std::vector<const Matrix<double>*>& factors,
                             const std::vector<Matrix<double>>& weights, Index rank) {
  constexpr const char* who = "output_sharing";
  if (weights.empty() || factors.size() != weights.size()) {
    detail::throw_invalid(who, ": ", factors.size(), " factors and ", weights.size(),
                          " weights, expected as many, >= 1");
  }
  const Index n = weights[0].cols();
  Index rows = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].cols() != n || factors[i]->rows() != weights[i].rows() ||
        factors[i]->cols() != weights[i].rows()) {
      detail::throw_invalid(who, ": factor ", i, " is ", detail::shape(*factors[i]), " and its weight ",
                            detail::shape(weights[i]), ", expected d x d and d x ", n);
    }
    rows += weights[i].rows();
  }
  if (rank < 1 || rank > std::min(n, rows)) {
    detail::throw_invalid(who, ": rank = ", rank, ", expected 1 ... ", std::min(n, rows), ", the smaller of ",
                          n, " columns and ", rows, " rows in all");
  }
  Matrix<double> stack(n, rows);  // transposed
  Index first = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Matrix<double> whitened = linalg::upper_product<double>(*factors[i], linalg::Op::plain, weights[i]);
    stack.middleCols(first, whitened.rows()) = linalg::transposed<double>(whitened);
    first += whitened.rows();
  }
  const Matrix<double> right = linalg::leading_left_vectors<double>(stack, rank);
  SharedFactors result{linalg::transposed<double>(right), {}};
  for (const Matrix<double>& weight : weights) {
    result.coefficients.push_back(linalg::product<double>(weight, right));
  }
  return result;
}

}  // namespace rotorlin
