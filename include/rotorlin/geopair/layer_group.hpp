// SPDX-License-Identifier: MIT
/// \file
/// Layers that share one dictionary, with the whitening of their inputs: the problem
///
///     f(D, C) = sum_i w_i |L_i (W_i - D C_i)|_F^2 -> min,      D: d x r, C_i: r x n_i,
///
/// where w_i |L_i W_i|^2 is the mean squared output of layer i on its calibration samples, times its weight.
///
/// Orientation. Inside geopair everything is as in the literature on dictionaries: W is inputs x outputs (d x
/// n), columns are what a dictionary represents. The library's layers hold the transpose, out x in; the one
/// place where the two meet is this class: `add_layer` takes out x in, `reconstruct` returns it.
///
/// Layers fed by the same activations share a Gram matrix, and their columns are put side by side in one
/// term. The weight of a layer only scales its columns by sqrt(w_i), in W_i and C_i alike.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/products.hpp"
#include "rotorlin/linalg/triangular.hpp"

namespace rotorlin {

/// All layers of a group with the same Gram matrix.
struct GramTerm {
  Matrix<double> factor;    ///< L, d x d, upper triangular
  Matrix<double> whitened;  ///< L W, d x n, columns of W scaled by sqrt(w)

  /// Columns of W.
  template <class = void>
  Matrix<double> weights(Index first, Index columns) const {
    return linalg::upper_solution<double>(factor, linalg::Op::plain, whitened.middleCols(first, columns));
  }
};

class LayerGroup {
 public:
  /// \throws std::invalid_argument unless inputs >= 1.
  explicit LayerGroup(Index inputs) : inputs_(inputs) {
    if (inputs < 1) detail::throw_invalid("LayerGroup: inputs = ", inputs, ", expected >= 1");
  }

  /// Adds a Gram matrix by its factor L (d x d, upper triangular, see `whiten`); returns its number. \throws
  /// std::invalid_argument on another shape, or a diagonal that is not positive; std::domain_error on NaN or
  /// Inf.
  std::size_t add_gram(Matrix<double> factor) {
    constexpr const char* who = "LayerGroup::add_gram";
    if (factor.rows() != inputs_ || factor.cols() != inputs_) {
      detail::throw_invalid(who, ": the factor is ", detail::shape(factor), ", expected ", inputs_, " x ",
                            inputs_);
    }
    if (!detail::all_finite(factor)) detail::throw_domain(who, ": the factor has NaN or infinite entries");
    for (Index j = 0; j < inputs_; ++j) {
      if (!(factor(j, j) > 0)) {
        detail::throw_invalid(who, ": the factor has ", factor(j, j), " on its diagonal, expected > 0");
      }
      for (Index i = j + 1; i < inputs_; ++i) factor(i, j) = 0;
    }
    terms_.push_back({std::move(factor), Matrix<double>(inputs_, 0)});
    return terms_.size() - 1;
  }

  /// Adds a layer by its weight matrix, out x in as in y = W x; returns its number. \throws
  /// std::invalid_argument when it is not (>= 1) x inputs, for an unknown gram or an importance that is not
  /// positive; std::domain_error on NaN or Inf.
  template <class = void>
  std::size_t add_layer(const ConstMatrixRef<double>& weight, std::size_t gram, double importance = 1) {
    constexpr const char* who = "LayerGroup::add_layer";
    if (weight.cols() != inputs_ || weight.rows() == 0) {
      detail::throw_invalid(who, ": the weight is ", detail::shape(weight), ", expected out x ", inputs_);
    }
    if (!detail::all_finite(weight)) detail::throw_domain(who, ": the weight has NaN or infinite entries");
    if (gram >= terms_.size()) {
      detail::throw_invalid(who, ": Gram matrix number ", gram, ", but ", terms_.size(), " were added");
    }
    if (!(importance > 0 && detail::is_finite(importance))) {
      detail::throw_invalid(who, ": the importance is ", importance, ", expected > 0");
    }
    GramTerm& term = terms_[gram];
    const Index first = term.whitened.cols(), n = weight.rows();
    layers_.push_back({gram, first, n, std::sqrt(importance)});
    Matrix<double> turned = linalg::transposed<double>(weight);
    linalg::scale<double>(layers_.back().scale, turned);
    term.whitened.conservativeResize(inputs_, first + n);
    term.whitened.rightCols(n) = linalg::upper_product<double>(term.factor, linalg::Op::plain, turned);
    return layers_.size() - 1;
  }

  /// Inputs of each layer, and the number of layers.
  Index inputs() const { return inputs_; }
  std::size_t size() const { return layers_.size(); }
  /// Outputs of one layer, and of all together.
  Index outputs(std::size_t layer) const { return layers_.at(layer).outputs; }
  Index outputs() const {
    Index sum = 0;
    for (const Layer& layer : layers_) sum += layer.outputs;
    return sum;
  }
  const std::vector<GramTerm>& terms() const { return terms_; }

  /// f(0): the weighted output energy of all layers, and of one layer.
  template <class = void>
  double energy() const {
    double sum = 0;
    for (const GramTerm& term : terms_) sum += linalg::squared_norm<double>(term.whitened);
    return sum;
  }
  template <class = void>
  double energy(std::size_t layer) const {
    return linalg::squared_norm<double>(columns(terms_.at(layers_.at(layer).gram).whitened, layer));
  }

  /// L_i (W_i - D C_i) of every term, from D (d x r) and the coefficients of every term.
  template <class = void>
  std::vector<Matrix<double>> residuals(const Matrix<double>& dictionary,
                                        const std::vector<Matrix<double>>& coefficients) const {
    std::vector<Matrix<double>> result;
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      result.push_back(terms_[i].whitened);
      linalg::add_product<double>(
          -1, linalg::upper_product<double>(terms_[i].factor, linalg::Op::plain, dictionary), coefficients[i],
          result[i]);
    }
    return result;
  }
  template <class = void>
  double objective(const Matrix<double>& dictionary, const std::vector<Matrix<double>>& coefficients) const {
    double sum = 0;
    for (const Matrix<double>& residual : residuals(dictionary, coefficients))
      sum += linalg::squared_norm<double>(residual);
    return sum;
  }

  /// One layer's columns of a matrix that has one column for each of its term's.
  Eigen::Ref<const Matrix<double>> columns(const Matrix<double>& of_term, std::size_t layer) const {
    return of_term.middleCols(layers_.at(layer).first, layers_.at(layer).outputs);
  }
  /// The coefficients C_i (r x n_i) of one layer, from those of every term; free of the layer's weight.
  Matrix<double> layer_coefficients(const std::vector<Matrix<double>>& coefficients,
                                    std::size_t layer) const {
    Matrix<double> own = columns(coefficients.at(layers_.at(layer).gram), layer);
    const double scale = layers_[layer].scale;
    for (Index j = 0; j < own.cols(); ++j) {
      for (Index i = 0; i < own.rows(); ++i) own(i, j) /= scale;
    }
    return own;
  }
  /// The coefficients of every term, from those of every layer. \throws std::invalid_argument on other
  /// shapes.
  template <class = void>
  std::vector<Matrix<double>> term_coefficients(const std::vector<Matrix<double>>& of_layers) const {
    std::vector<Matrix<double>> result;
    const Index r = of_layers.empty() ? 0 : of_layers[0].rows();
    for (const GramTerm& term : terms_) result.emplace_back(r, term.whitened.cols());
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      if (of_layers.size() != layers_.size() || of_layers[i].rows() != r ||
          of_layers[i].cols() != layer.outputs) {
        detail::throw_invalid("LayerGroup::term_coefficients: expected ", layers_.size(), " matrices of ", r,
                              " rows and as many columns as the layers have outputs");
      }
      auto part = result[layer.gram].middleCols(layer.first, layer.outputs);
      part = of_layers[i];
      linalg::scale<double>(layer.scale, part);
    }
    return result;
  }

 private:
  struct Layer {
    std::size_t gram;
    Index first, outputs;
    double scale;  // sqrt(w)
  };

  Index inputs_;
  std::vector<GramTerm> terms_;
  std::vector<Layer> layers_;
};

/// (D C)^T, out x in: the weight that D (d x r) and C (r x n) stand for, in the orientation of the layers.
template <class = void>
Matrix<double> reconstruct(const Matrix<double>& dictionary, const Matrix<double>& coefficients) {
  return linalg::transposed<double>(linalg::product<double>(dictionary, coefficients));
}

}  // namespace rotorlin
