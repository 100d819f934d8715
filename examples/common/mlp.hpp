// SPDX-License-Identifier: MIT
/// \file
/// A multilayer perceptron of any of the library's layers, with ReLU between them, trained as a classifier:
/// softmax and cross-entropy at the end, Adam.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/idx.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/training/adam.hpp"

namespace examples {

using rotorlin::Index;
using rotorlin::Matrix;

/// Number of columns of `logits` whose largest entry is at the label.
template <class Derived>
Index count_correct(const Eigen::MatrixBase<Derived>& logits, const int* labels) {
  Index correct = 0;
  for (Index j = 0; j < logits.cols(); ++j) {
    Index best = 0;
    logits.col(j).maxCoeff(&best);
    correct += best == labels[j];
  }
  return correct;
}

/// Sum over the batch of -log softmax(logits)[label]; `logits` become its gradient.
inline double softmax_cross_entropy(Eigen::MatrixXf& logits, const int* labels) {
  double loss = 0;
  for (Index j = 0; j < logits.cols(); ++j) {
    auto column = logits.col(j);
    column.array() -= column.maxCoeff();
    const float logit = column[labels[j]];
    column = column.array().exp();
    const float sum = column.sum();
    loss += std::log(sum) - logit;
    column /= sum;
    column[labels[j]] -= 1;
  }
  return loss;
}

template <rotorlin::Layer... Layers>
class Mlp {
 public:
  static constexpr std::size_t depth = sizeof...(Layers);

  explicit Mlp(Layers... layers) : layers_(std::move(layers)...) {}

  template <std::size_t K>
  auto& layer() {
    return std::get<K>(layers_);
  }
  template <std::size_t K>
  const auto& layer() const {
    return std::get<K>(layers_);
  }

  Index num_parameters() const {
    return std::apply([](const auto&... layer) { return (layer.num_parameters() + ...); }, layers_);
  }

  /// Logits, classes x batch; valid until the next call.
  template <class Derived>
  Eigen::MatrixXf& forward(const Eigen::MatrixBase<Derived>& x) {
    inputs_[0] = x;
    each_layer([&](auto k, const auto& layer, auto& workspace) {
      auto& y = inputs_[k + 1];
      y.resize(layer.out_features(), x.cols());
      layer.forward(inputs_[k], y, workspace);
      if constexpr (k + 1 < depth) y = y.cwiseMax(0.0f);
    });
    return inputs_[depth];
  }

  struct Result {
    double loss;  ///< mean cross-entropy of the batch
    Index correct;
  };

  /// One step of Adam on a batch.
  template <class Derived>
  Result train_step(const Eigen::MatrixBase<Derived>& x, const int* labels, double learning_rate) {
    Eigen::MatrixXf& logits = forward(x);
    const Index correct = count_correct(logits, labels);
    const auto batch = static_cast<float>(x.cols());
    const double loss = softmax_cross_entropy(logits, labels) / batch;
    logits /= batch;
    backward(std::make_index_sequence<depth>{}, learning_rate);
    return {loss, correct};
  }

  /// Share of the images whose class is found.
  double accuracy(const LabelledImages& data) {
    constexpr Index batch = 500;
    Index correct = 0;
    for (Index begin = 0; begin < data.size(); begin += batch) {
      const Index count = std::min(batch, data.size() - begin);
      correct += count_correct(forward(data.images.middleCols(begin, count)), data.labels.data() + begin);
    }
    return static_cast<double>(correct) / static_cast<double>(data.size());
  }

 private:
  template <class Visit>
  void each_layer(const Visit& visit) {
    [&]<std::size_t... K>(std::index_sequence<K...>) {
      (visit(std::integral_constant<std::size_t, K>{}, std::get<K>(layers_), std::get<K>(workspaces_)), ...);
    }
    (std::make_index_sequence<depth>{});
  }

  template <std::size_t... K>
  void backward(std::index_sequence<K...>, double learning_rate) {
    (backward_layer<depth - 1 - K>(learning_rate), ...);
  }

  // Turns the gradient in inputs_[K + 1] into that of the layer's input, and updates the layer.
  template <std::size_t K>
  void backward_layer(double learning_rate) {
    auto& layer = std::get<K>(layers_);
    layer.zero_gradients();
    gradient_.resize(layer.in_features(), inputs_[K].cols());
    layer.backward(inputs_[K], inputs_[K + 1], gradient_, std::get<K>(workspaces_));
    if constexpr (K > 0) {
      inputs_[K] = (inputs_[K].array() > 0).select(gradient_, 0.0f);
    }
    auto& adam = adam_[K];
    adam.step(layer.parameters(), layer.gradients(), learning_rate);
  }

  std::tuple<Layers...> layers_;
  std::tuple<typename Layers::Workspace...> workspaces_;
  std::array<rotorlin::Adam<float>, depth> adam_;
  std::array<Eigen::MatrixXf, depth + 1> inputs_;  ///< of each layer, then the logits; backward: gradients
  Eigen::MatrixXf gradient_;
};

}  // namespace examples
