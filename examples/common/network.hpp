// SPDX-License-Identifier: MIT
/// \file
/// A classifier whose stages are any of the library's layers, each followed by normalisation and an
/// activation where wanted, chosen at run time; and its training: softmax and cross-entropy, Adam.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/idx.hpp"
#include "common/progress.hpp"
#include "common/table.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/layers/activation_layer.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/sequential.hpp"
#include "rotorlin/training/adam.hpp"
#include "rotorlin/training/schedule.hpp"

namespace examples {

using rotorlin::Index;

/// Number of columns of `logits` whose largest entry is at the label.
inline Index count_correct(const Eigen::MatrixXf& logits, const int* labels) {
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

/// What follows a layer: y = a(norm(layer(x))) + x.
struct StageOptions {
  bool normalize = true;  ///< every sample to mean 0 and variance 1 over its features, without parameters
  bool activate = true;   ///< leaky ReLU, max(z, slope z)
  bool residual = false;  ///< adds x; in and out must be equal
  double rate = 1;        ///< of this stage's steps, relative to the network's learning rate
  float slope = 0.1f;
};

/// The readout: logits as they are.
inline constexpr StageOptions logits(double rate) {
  return {.normalize = false, .activate = false, .rate = rate};
}

/// A Sequential that is trained, stage by stage with rates of its own.
class Network {
 public:
  explicit Network(Index features) : in_features_(features), layers_(features) {}

  /// The first layer reads these features of an image, in this order and as often as they are listed.
  /// \throws std::invalid_argument after the first stage, and for features that there are not.
  Network& gather(std::vector<Index> features) {
    for (Index feature : features) {
      if (feature < 0 || feature >= in_features_) {
        throw std::invalid_argument(format("Network::gather: feature %ld of %ld, expected 0 to %ld",
                                           static_cast<long>(feature), static_cast<long>(in_features_),
                                           static_cast<long>(in_features_ - 1)));
      }
    }
    if (features.empty() || !stages_.empty()) {
      throw std::invalid_argument(
          format("Network::gather: %zu features with %zu stages, expected at least one feature before the "
                 "first stage",
                 features.size(), stages_.size()));
    }
    layers_ = rotorlin::Sequential<float>(static_cast<Index>(features.size()));
    gathered_ = std::move(features);
    return *this;
  }

  /// Appends a stage. \throws std::invalid_argument where its shape doesn't fit.
  template <rotorlin::Layer L>
  Network& add(L layer, const StageOptions& options = {}) {
    using rotorlin::Activation;
    const Index in = layer.in_features();
    const rotorlin::ActivationLayer<float> between(
        layer.out_features(), {.activation = options.activate ? Activation::leaky_relu : Activation::none,
                               .normalize = options.normalize,
                               .slope = options.slope});
    const auto append = [&](rotorlin::Sequential<float>& to) {
      to.add(std::move(layer));
      if (options.normalize || options.activate) to.add(between);
    };
    const Index before = layers_.num_parameters();
    const std::size_t part = layers_.size();
    if (options.residual) {
      rotorlin::Sequential<float> block(in);
      append(block);
      layers_.add(block.add_input());
    } else {
      append(layers_);
    }
    stages_.push_back({part, {before, layers_.num_parameters() - before}, options, rotorlin::Adam<float>()});
    return *this;
  }

  Index in_features() const { return in_features_; }
  Index num_parameters() const { return layers_.num_parameters(); }

  /// Logits, classes x batch; valid until the next call.
  const Eigen::MatrixXf& forward(const Eigen::Ref<const Eigen::MatrixXf>& x) {
    if (gathered_.empty()) {
      input_ = x;
    } else {
      input_ = x(gathered_, Eigen::all);
    }
    output_.resize(layers_.out_features(), x.cols());
    layers_.forward(input_, output_, workspace_);
    return output_;
  }

  struct Loss {
    double cross_entropy = 0;  ///< mean over the batch
    Index correct = 0;
  };

  /// The targets of training: 1 - s for the right class plus s / classes for each (label smoothing; Szegedy
  /// et al. 2016).
  float smoothing = 0;

  /// One step of Adam on a batch, with the rate that each stage takes of `learning_rate`.
  Loss train_step(const Eigen::Ref<const Eigen::MatrixXf>& x, const int* labels, double learning_rate) {
    const Loss loss = gradients(x, labels);
    for (std::size_t k = 0; k < stages_.size(); ++k)
      stages_[k].adam.step(parameters(k), gradients(k), stages_[k].options.rate * learning_rate);
    return loss;
  }

  /// The mean cross-entropy of a batch, and the gradients in every layer of the loss with smoothed targets.
  Loss gradients(const Eigen::Ref<const Eigen::MatrixXf>& x, const int* labels) {
    forward(x);
    gradient_ = output_;
    Loss loss;
    loss.correct = count_correct(gradient_, labels);
    const auto batch = static_cast<float>(x.cols());
    loss.cross_entropy = softmax_cross_entropy(gradient_, labels) / batch;
    for (Index j = 0; j < x.cols(); ++j) gradient_(labels[j], j) += smoothing;
    gradient_.array() -= smoothing / static_cast<float>(gradient_.rows());
    gradient_ /= batch;
    grad_x_.resize(input_.rows(), input_.cols());
    layers_.zero_gradients();
    layers_.backward_again(input_, gradient_, grad_x_, workspace_);
    return loss;
  }

  /// The parameters and gradients of stage k.
  Eigen::Map<Eigen::VectorXf> parameters(std::size_t k) { return of_stage(k, layers_.parameters()); }
  Eigen::Map<Eigen::VectorXf> gradients(std::size_t k) { return of_stage(k, layers_.gradients()); }
  std::size_t size() const { return stages_.size(); }

  /// A copy of the layer of stage k. \throws std::invalid_argument where that is no L or the stage is
  /// residual.
  template <rotorlin::Layer L>
  L layer(std::size_t k) const {
    return layers_.layer<L>(stages_.at(k).part);
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
  struct Stage {
    std::size_t part;  ///< its first layer
    rotorlin::ParameterRange range;
    StageOptions options;
    rotorlin::Adam<float> adam;
  };

  Eigen::Map<Eigen::VectorXf> of_stage(std::size_t k, Eigen::Map<Eigen::VectorXf> all) const {
    const rotorlin::ParameterRange range = stages_.at(k).range;
    return {all.data() + range.offset, range.size};
  }

  Index in_features_;  ///< of the images
  std::vector<Index> gathered_;
  rotorlin::Sequential<float> layers_;
  std::vector<Stage> stages_;
  rotorlin::Sequential<float>::Workspace workspace_;
  Eigen::MatrixXf input_, output_, gradient_, grad_x_;
};

/// Training on the first `images` of `data`: batches of 128, in a new order each epoch, with a learning rate
/// that falls to 0 as half a cosine.
class Training {
 public:
  /// Of an epoch, as far as it has come.
  struct Epoch {
    Index done = 0;  ///< images
    double loss = 0, accuracy = 0, seconds = 0;
  };

  /// The network and the data must outlive this.
  Training(Network& network, const LabelledImages& data, Index images, int epochs, double learning_rate,
           std::uint64_t seed)
      : network_(network),
        data_(data),
        schedule_(learning_rate, 0, epochs * ((images - 1) / batch + 1)),
        random_(seed),
        order_(static_cast<std::size_t>(images)) {
    std::iota(order_.begin(), order_.end(), Index{0});
  }

  /// The next epoch; report(Epoch) is called after every step.
  template <class Report>
  Epoch epoch(const Report& report) {
    const Stopwatch clock;
    const auto images = static_cast<Index>(order_.size());
    random_.shuffle(order_);
    Eigen::MatrixXf x(network_.in_features(), batch);
    std::vector<int> labels(static_cast<std::size_t>(batch));
    Epoch now;
    double loss = 0;
    Index correct = 0;
    while (now.done < images) {
      const Index count = std::min(batch, images - now.done);
      for (Index j = 0; j < count; ++j) {
        const Index image = order_[static_cast<std::size_t>(now.done + j)];
        x.col(j) = data_.images.col(image);
        labels[static_cast<std::size_t>(j)] = data_.labels[static_cast<std::size_t>(image)];
      }
      const auto step = network_.train_step(x.leftCols(count), labels.data(), schedule_.rate(step_++));
      loss += step.cross_entropy * static_cast<double>(count);
      correct += step.correct;
      now.done += count;
      const auto done = static_cast<double>(now.done);
      now.loss = loss / done;
      now.accuracy = static_cast<double>(correct) / done;
      now.seconds = clock.seconds();
      report(now);
    }
    return now;
  }

 private:
  static constexpr Index batch = 128;
  Network& network_;
  const LabelledImages& data_;
  rotorlin::CosineSchedule schedule_;
  rotorlin::Random random_;
  std::vector<Index> order_;
  Index step_ = 0;
};

}  // namespace examples
