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
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/idx.hpp"
#include "common/progress.hpp"
#include "common/table.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/layers/layer.hpp"
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

/// A layer of fewer inputs than there are features is applied to every group of so many features, one after
/// another (weights shared between the patches of an image).
class Network {
 public:
  explicit Network(Index features) : in_features_(features), features_(features) {}

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
    features_ = static_cast<Index>(features.size());
    gathered_ = std::move(features);
    return *this;
  }

  /// Appends a stage. \throws std::invalid_argument where its shape doesn't fit.
  template <rotorlin::Layer L>
  Network& add(L layer, const StageOptions& options = {}) {
    const Index in = layer.in_features(), out = layer.out_features();
    if (features_ % in != 0 || (options.residual && in != out)) {
      throw std::invalid_argument(format("Network::add: a layer %ld -> %ld%s after %ld features",
                                         static_cast<long>(in), static_cast<long>(out),
                                         options.residual ? " with a residual connection" : "",
                                         static_cast<long>(features_)));
    }
    features_ = features_ / in * out;
    stages_.push_back(std::make_unique<StageOf<L>>(std::move(layer), options));
    return *this;
  }

  Index in_features() const { return in_features_; }
  Index num_parameters() const {
    Index sum = 0;
    for (const auto& stage : stages_) sum += stage->parameters().size();
    return sum;
  }

  /// Logits, classes x batch; valid until the next call.
  const Eigen::MatrixXf& forward(const Eigen::Ref<const Eigen::MatrixXf>& x) {
    if (gathered_.empty()) {
      input_ = x;
    } else {
      input_ = x(gathered_, Eigen::all);
    }
    for (std::size_t k = 0; k < stages_.size(); ++k) stages_[k]->forward(input_of(k));
    return stages_.back()->output;
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
    for (const auto& stage : stages_) stage->step(learning_rate);
    return loss;
  }

  /// The mean cross-entropy of a batch, and the gradients in every layer of the loss with smoothed targets.
  Loss gradients(const Eigen::Ref<const Eigen::MatrixXf>& x, const int* labels) {
    gradient_ = forward(x);
    Loss loss;
    loss.correct = count_correct(gradient_, labels);
    const auto batch = static_cast<float>(x.cols());
    loss.cross_entropy = softmax_cross_entropy(gradient_, labels) / batch;
    for (Index j = 0; j < x.cols(); ++j) gradient_(labels[j], j) += smoothing;
    gradient_.array() -= smoothing / static_cast<float>(gradient_.rows());
    gradient_ /= batch;
    for (std::size_t k = stages_.size(); k-- > 0;) stages_[k]->backward(input_of(k), gradient_);
    return loss;
  }

  /// The parameters and gradients of stage k.
  Eigen::Map<Eigen::VectorXf> parameters(std::size_t k) { return stages_.at(k)->parameters(); }
  Eigen::Map<Eigen::VectorXf> gradients(std::size_t k) { return stages_.at(k)->gradients(); }
  std::size_t size() const { return stages_.size(); }

  /// Stage k, which must be an L.
  template <rotorlin::Layer L>
  const L& layer(std::size_t k) const {
    return dynamic_cast<const StageOf<L>&>(*stages_.at(k)).layer;
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
  /// A batch of a stage: its columns are groups of features, sample after sample.
  using Groups = Eigen::Map<const Eigen::MatrixXf>;

  struct Stage {
    explicit Stage(const StageOptions& o) : options(o) {}
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;
    virtual ~Stage() = default;
    virtual Index in() const = 0;
    virtual Index out() const = 0;
    virtual Eigen::Map<Eigen::VectorXf> parameters() = 0;
    virtual Eigen::Map<Eigen::VectorXf> gradients() = 0;
    virtual void apply(const Groups& x, Eigen::MatrixXf& y) = 0;
    virtual void apply_backward(const Groups& x, const Eigen::MatrixXf& g, Eigen::MatrixXf& grad_of_x) = 0;

    void forward(const Groups& x) {
      normalized.resize(out(), x.cols());
      apply(x, normalized);
      if (options.normalize) {
        inverse_deviation.resize(x.cols());
        for (Index j = 0; j < x.cols(); ++j) {
          auto z = normalized.col(j);
          z.array() -= z.mean();
          inverse_deviation[j] = 1 / std::sqrt(z.squaredNorm() / static_cast<float>(out()) + 1e-5f);
          z *= inverse_deviation[j];
        }
      }
      output = normalized;
      if (options.activate) output = output.cwiseMax(options.slope * output);
      if (options.residual) output += x;
    }

    /// `gradient`, of the output, becomes that of x.
    void backward(const Groups& x, Eigen::MatrixXf& gradient) {
      grad_y = Groups(gradient.data(), out(), x.cols());
      if (options.activate) {
        grad_y = (normalized.array() > 0).select(grad_y, options.slope * grad_y);
      }
      if (options.normalize) {
        for (Index j = 0; j < x.cols(); ++j) {
          auto g = grad_y.col(j);
          const auto z = normalized.col(j);
          const float along = g.dot(z) / static_cast<float>(out());
          g.array() -= g.mean();
          g = inverse_deviation[j] * (g - along * z);
        }
      }
      gradients().setZero();
      grad_x.resize(in(), x.cols());
      apply_backward(x, grad_y, grad_x);
      if (options.residual) grad_x += Groups(gradient.data(), out(), x.cols());
      gradient.swap(grad_x);
    }

    void step(double learning_rate) { adam.step(parameters(), gradients(), options.rate * learning_rate); }

    StageOptions options;
    rotorlin::Adam<float> adam;
    Eigen::MatrixXf normalized, output, grad_y, grad_x;
    Eigen::VectorXf inverse_deviation;
  };

  template <rotorlin::Layer L>
  struct StageOf final : Stage {
    StageOf(L l, const StageOptions& o) : Stage(o), layer(std::move(l)) {}
    Index in() const override { return layer.in_features(); }
    Index out() const override { return layer.out_features(); }
    Eigen::Map<Eigen::VectorXf> parameters() override { return layer.parameters(); }
    Eigen::Map<Eigen::VectorXf> gradients() override { return layer.gradients(); }
    void apply(const Groups& x, Eigen::MatrixXf& y) override { layer.forward(x, y, workspace); }
    void apply_backward(const Groups& x, const Eigen::MatrixXf& g, Eigen::MatrixXf& grad_of_x) override {
      layer.backward(x, g, grad_of_x, workspace);
    }
    L layer;
    typename L::Workspace workspace;
  };

  Groups input_of(std::size_t k) const {
    const Eigen::MatrixXf& features = k > 0 ? stages_[k - 1]->output : input_;
    return {features.data(), stages_[k]->in(), features.size() / stages_[k]->in()};
  }

  Index in_features_, features_;  ///< of the images; after the last stage
  std::vector<Index> gathered_;
  std::vector<std::unique_ptr<Stage>> stages_;
  Eigen::MatrixXf input_, gradient_;
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
