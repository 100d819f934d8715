// SPDX-License-Identifier: MIT
/// \file
/// Rounding compressed layers for a file: atoms of norm 1 are rounded, then the coefficients are fitted once
/// more on their supports to the rounded atoms, in the metric of the activations, and rounded.
///
/// Where a dictionary is shared by its inputs, W^T ~ D C, the columns of C are separate least squares with
/// K = D^T G D, G = E[x x^T]. By its outputs, W ~ D C^T, rows of C are coupled by G, as in output_coding.hpp:
/// they are fitted one after another, each making up for the errors of the others.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/files/rounded_layers.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/geopair/support_solver.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/products.hpp"

namespace rotorlin {

/// What a layer was made from: its weight, out x in, and E[x x^T] or a multiple of it, in x in.
struct RoundingTarget {
  Matrix<double> weight, gram;
};

namespace detail {

/// |(W - W') x|^2 over the samples.
template <class = void>
double output_error(const RoundingTarget& target, const SharedDictionaryLinear<float>& layer) {
  const Matrix<double> missing = target.weight - layer.to_dense().cast<double>();
  return linalg::inner<double>(missing, linalg::product<double>(missing, target.gram));
}

/// Where a coefficient may be: 1, and 0 elsewhere.
template <class = void>
Matrix<double> support_of(const SharedDictionaryLinear<float>& layer, Index rows, Index cols) {
  if (layer.storage() == CoefficientStorage::dense) return Matrix<double>::Ones(rows, cols);
  Matrix<double> mask = Matrix<double>::Zero(rows, cols);
  const ColumnPattern& pattern = layer.pattern();
  for (Index j = 0; j < cols; ++j) {
    for (std::size_t p = pattern.starts[static_cast<std::size_t>(j)];
         p < pattern.starts[static_cast<std::size_t>(j) + 1]; ++p)
      mask(Index{pattern.indices[p]}, j) = 1;
  }
  return mask;
}

/// argmin c^T K c - 2 b^T c of columns on their supports, for atoms of any length.
template <class = void>
Matrix<double> solve_scaled(Matrix<double> k, Matrix<double> b, const Matrix<double>& mask, bool dense) {
  const VectorX<double> inverse = normalize_gram(k);
  linalg::scale_rows<double>(inverse, b);
  Matrix<double> c = dense ? solve_normal_equations(k, b) : solve_on_supports(k, b, mask);
  linalg::scale_rows<double>(inverse, c);
  return c;
}

/// C for the dictionary of the layer, whatever its coefficients are.
template <class = void>
Matrix<double> refitted_coefficients(const SharedDictionaryLinear<float>& layer,
                                     const RoundingTarget& target) {
  const Matrix<double> d = layer.dictionary()->to_dense().cast<double>();
  const Matrix<double> transposed = linalg::transposed<double>(d);
  Matrix<double> c = layer.coefficients().cast<double>();
  const Matrix<double> mask = support_of(layer, c.rows(), c.cols());
  const bool dense = layer.storage() == CoefficientStorage::dense;
  if (layer.side() == DictionarySide::input) {
    const Matrix<double> seen = linalg::product<double>(transposed, target.gram);
    return solve_scaled(linalg::product<double>(seen, d),
                        linalg::product<double>(seen, linalg::transposed<double>(target.weight)), mask,
                        dense);
  }
  const Matrix<double> k = linalg::product<double>(transposed, d);
  Matrix<double> missing = linalg::product<double>(transposed, target.weight);  // D^T (W - D C^T)
  Matrix<double> rows = linalg::transposed<double>(c);                          // rank x in
  if (dense) return linalg::transposed<double>(solve_scaled(k, missing, mask, true));
  const Matrix<double> supports = linalg::transposed<double>(mask);
  missing -= linalg::product<double>(k, rows);
  for (Index j = 0; j < rows.cols(); ++j) {
    if (!(target.gram(j, j) > 0)) continue;  // an input that is always zero
    const Matrix<double> column = target.gram.col(j) / target.gram(j, j), before = rows.col(j);
    const Matrix<double> b = linalg::product<double>(k, before) + linalg::product<double>(missing, column);
    const Matrix<double> now = solve_scaled(k, b, supports.col(j), false);
    missing.col(j) -= linalg::product<double>(k, now - before);
    rows.col(j) = now;
  }
  return linalg::transposed<double>(rows);
}

}  // namespace detail

/// Layers as rounded_layers, with coefficients fitted again to the rounded atoms where that lowers the error
/// of what is stored. `target(i)` tells what layer i was made from. \throws what rounded_layers throws, and
/// std::invalid_argument where a target has other shapes.
template <class Target>
std::vector<NamedSharedLayer<float>> refitted_layers(const std::vector<NamedSharedLayer<float>>& layers,
                                                     const StorageOptions& storage, const Target& target) {
  std::vector<NamedSharedLayer<float>> result = rounded_layers(layers, storage);
  for (std::size_t i = 0; i < result.size(); ++i) {
    SharedDictionaryLinear<float>& layer = result[i].layer;
    const RoundingTarget made_from = target(i);
    const Index in = layer.in_features(), out = layer.out_features();
    if (made_from.weight.rows() != out || made_from.weight.cols() != in || made_from.gram.rows() != in ||
        made_from.gram.cols() != in) {
      detail::throw_invalid("refitted_layers: layer '", result[i].name, "' is ", out, " x ", in,
                            ", its weight ", detail::shape(made_from.weight), ", its Gram matrix ",
                            detail::shape(made_from.gram), "; expected ", out, " x ", in, " and ", in, " x ",
                            in);
    }
    const Matrix<float> c = detail::refitted_coefficients(layer, made_from).template cast<float>();
    if (!detail::all_finite(c)) continue;
    VectorX<float> values = Eigen::Map<const VectorX<float>>(c.data(), c.size());
    if (layer.storage() == CoefficientStorage::sparse) {
      const ColumnPattern& pattern = layer.pattern();
      values.resize(layer.nonzeros());
      for (Index j = 0; j < c.cols(); ++j) {
        for (std::size_t p = pattern.starts[static_cast<std::size_t>(j)];
             p < pattern.starts[static_cast<std::size_t>(j) + 1]; ++p)
          values[static_cast<Index>(p)] = c(Index{pattern.indices[p]}, j);
      }
    }
    // atoms are of the stored kind already, and stay
    auto again = rounded_layers<float>(
        {{result[i].name, detail::with_values<float>(layer, layer.dictionary(), values)}}, storage);
    const SharedDictionaryLinear<float> refitted = detail::with_values<float>(
        layer, layer.dictionary(), again[0].layer.parameters().head(values.size()));
    if (detail::output_error(made_from, refitted) < detail::output_error(made_from, layer)) layer = refitted;
  }
  return result;
}

}  // namespace rotorlin
