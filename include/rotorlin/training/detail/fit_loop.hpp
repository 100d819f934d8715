// SPDX-License-Identifier: MIT
/// \file
/// The loop of both fits: Adam on mini-batches, in the units of detail/fit_units.hpp.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/detail/layer_ref.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/training/adam.hpp"
#include "rotorlin/training/detail/fit_units.hpp"
#include "rotorlin/training/detail/samples.hpp"
#include "rotorlin/training/fit_options.hpp"
#include "rotorlin/training/schedule.hpp"

namespace rotorlin::detail {

/// What the loss of a fit is, and what it may move.
struct FitTask {
  bool relative = false;     ///< report losses in units of the targets' mean square rather than as they are
  bool freeze_bias = false;  ///< the bias rests where it is
  const char* who = "fit";   ///< begins messages
};

template <class S>
class Fit {
 public:
  Fit(LayerRef<S>& layer, const Samples<S>& train, const Samples<S>* validation, const FitTask& task,
      const FitOptions& options)
      : layer_(layer),
        train_(train),
        validation_(validation),
        task_(task),
        options_(options),
        batch_size_(std::min(options.batch_size, train.size())),
        steps_(checked_product(options.epochs, (train.size() - 1) / batch_size_ + 1)),
        schedule_(options.learning_rate, options.min_learning_rate, steps_, options.warmup_steps),
        adam_({.weight_decay = options.weight_decay}),
        grad_x_(layer.in_features(), batch_size_),
        order_(static_cast<std::size_t>(train.size())) {
    std::iota(order_.begin(), order_.end(), Index{0});
  }

  /// \throws whatever the callback or the layer throws, after putting the best parameters back.
  FitResult run() {
    given_ = layer_.parameters();
    try {
      return run_epochs();
    } catch (...) {
      layer_.parameters() = best_.size() != 0 ? best_ : given_;
      layer_.zero_gradients();
      throw;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Stopped {};  ///< thrown by `report` where the callback wants no more

  FitResult run_epochs() {
    FitStop stop = FitStop::finished;
    try {
      begin();
      stop = run_all_epochs();
    } catch (const Stopped&) {
      stop = FitStop::callback;
      if (best_.size() == 0) {  // before the start was judged
        best_ = given_;
        best_loss_ = std::numeric_limits<double>::quiet_NaN();
      }
    }
    if (stop == FitStop::finished && result_.best_epoch == 0 && !exact()) stop = FitStop::no_progress;
    layer_.parameters() = best_;
    layer_.zero_gradients();
    result_.best_loss = reported(best_loss_);
    result_.relative_error = target_is_zero_ ? std::sqrt(result_.best_loss) : relative_error();
    result_.stop = stop;
    result_.seconds = seconds();
    return result_;
  }

  /// Judges the layer as given and the better starts that cost nothing but a pass over the samples.
  void begin() {
    unit_x_ = unit_or_one(root_mean_square<S>(train_.x));
    const double y = root_mean_square<S>(train_.y);
    target_is_zero_ = !(y > 0);
    unit_y_ = target_is_zero_ ? unit_or_one(root_mean_square<S>(output_of<S>(layer_, first_batch()))) : y;
    record();
    if (is_finite(criterion())) keep();
    if (options_.match_scale && match_scale() && better_start()) {
      keep();
    } else {
      layer_.parameters() = given_;
    }
    if (best_.size() == 0 || !is_finite(reported(best_loss_)))
      throw_domain(task_.who, ": the loss of the ", layer_.type_name(), " is not finite at the start");
    if (options_.match_scale && relative_error() >= 1) consider_zero();
    if (project() && better_start()) keep();
    units_ = parameter_units<S>(layer_, first_batch(), unit_x_, unit_y_, task_.freeze_bias);
    scaled_ = layer_.parameters().cwiseQuotient(units_);
    residual_is_fresh_ = false;
  }

  FitStop run_all_epochs() {
    Random random(options_.seed);
    double last_progress = best_loss_;
    Index stalled = 0;
    while (result_.epochs < options_.epochs) {
      if (options_.shuffle && !full_batch()) random.shuffle(order_);
      if (!run_epoch()) return FitStop::diverged;
      ++result_.epochs;
      if (project()) scaled_ = layer_.parameters().cwiseQuotient(units_);
      record();
      if (!is_finite(train_loss_) || !is_finite(criterion())) return FitStop::diverged;
      if (criterion() < best_loss_) {
        keep();
        result_.best_epoch = result_.epochs;
      }
      if (criterion() < (1 - options_.min_delta) * last_progress) {
        last_progress = criterion();
        stalled = 0;
      } else if (++stalled == options_.patience) {
        report(reported(train_loss_));
        return FitStop::patience;
      }
      report(reported(train_loss_));
    }
    return FitStop::finished;
  }

  bool full_batch() const { return batch_size_ == train_.size(); }
  double criterion() const { return validation_ ? validation_loss_ : train_loss_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  auto first_batch() const { return train_.x.leftCols(batch_size_); }

  /// Losses are measured in units of unit_y^2.
  double reported(double loss) const {
    return task_.relative && !target_is_zero_ ? loss : loss * unit_y_ * unit_y_;
  }
  double relative_error() const {
    const double y = validation_ ? root_mean_square<S>(validation_->y) : unit_y_;
    if (best_loss_ == 0) return 0;
    const double error = std::sqrt(best_loss_) * (y > 0 ? unit_y_ / y : unit_y_);
    return std::abs(error - 1) < 1e-12 ? 1 : error;  // a layer of zeros, but for the rounding of sums
  }
  bool exact() const {
    return std::sqrt(best_loss_) <= 64 * static_cast<double>(std::numeric_limits<S>::epsilon());
  }

  void keep() {
    best_ = layer_.parameters();
    best_loss_ = criterion();
  }

  /// Least squares for the factor of the linear parameters, and for the bias. Returns whether it found any.
  bool match_scale() {
    const ParameterRange linear = layer_.linear();
    ParameterRange bias = layer_.bias();
    if (task_.freeze_bias) bias.size = 0;
    if (linear.size == 0 && bias.size == 0) return false;
    auto parameters = layer_.parameters();
    parameters.segment(bias.offset, bias.size).setZero();
    ScaleFit fit(layer_.out_features(), bias.size != 0);
    for_each_batch(train_, [&](const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& y) {
      auto phi = scratch(residual_, y.rows(), y.cols());
      layer_.forward(x, phi);
      fit.add(phi.template cast<double>(), y.template cast<double>());
    });
    const double factor = linear.size == 0 ? 1 : fit.factor();
    parameters.segment(linear.offset, linear.size) *= static_cast<S>(factor);
    if (!is_finite(factor) || !all_finite(layer_.parameters())) return false;
    if (bias.size != 0) {
      const VectorX<double> mean_x = train_.x.template cast<double>().rowwise().mean();
      match_bias<S>(layer_, mean_x.template cast<S>(), fit.mean_y().template cast<S>());
    }
    return all_finite(layer_.parameters());
  }

  /// Variable projection (Golub and Pereyra 1973), where a step sees all samples: a layer that can solve for
  /// its linear parameters does so after every step. The gradient of the others is then that of the loss with
  /// the best linear ones. Returns whether it did.
  bool project() { return full_batch() && options_.match_scale && layer_.solve_linear(train_.x, train_.y); }

  /// Whether the present parameters are better than the best.
  bool better_start() {
    judge();
    return is_finite(train_loss_) && (best_.size() == 0 || criterion() < best_loss_);
  }

  /// A layer may still do worse than with weights of zero, as one that cannot say what scales it: then these
  /// are kept.
  void consider_zero() {
    const VectorX<S> present = layer_.parameters();
    auto parameters = layer_.parameters();
    const ParameterRange bias = layer_.bias();
    for (Index i = 0; i < parameters.size(); ++i) {
      if (i < bias.offset || i >= bias.offset + bias.size) parameters[i] = 0;
    }
    if (better_start()) keep();
    layer_.parameters() = present;
  }

  /// layer(x) - y, in `residual_`.
  Eigen::Map<Matrix<S>> residual(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& y) {
    auto r = scratch(residual_, y.rows(), y.cols());
    layer_.forward(x, r);
    r -= y;
    return r;
  }

  template <class F>
  void for_each_batch(const Samples<S>& set, F&& body) {
    for (Index begin = 0; begin < set.size(); begin += batch_size_) {
      const Index count = std::min(batch_size_, set.size() - begin);
      body(set.x.middleCols(begin, count), set.y.middleCols(begin, count));
    }
  }

  double loss(const Samples<S>& set) {
    double sum = 0;
    Index done = 0;
    for_each_batch(set, [&](const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& y) {
      sum += squared_norm<S>(residual(x, y), unit_y_);
      done += x.cols();
      if (done < set.size()) report_between(sum / static_cast<double>(done * y.rows()), 0.25);
    });
    return sum / static_cast<double>(set.size() * set.y.rows());
  }

  /// The training loss comes last: a full batch leaves its residual for the next step.
  void judge() {
    if (validation_) validation_loss_ = loss(*validation_);
    train_loss_ = loss(train_);
    residual_is_fresh_ = full_batch();
  }
  void record() {
    judge();
    if (validation_) result_.validation_loss.push_back(reported(validation_loss_));
    result_.loss.push_back(reported(train_loss_));
  }

  /// `loss` as reported. \throws Stopped
  void report(double loss) {
    if (!options_.progress) return;
    const double nan = std::numeric_limits<double>::quiet_NaN(), elapsed = seconds();
    reported_at_ = elapsed;
    const double left =
        step_ == 0 ? nan : elapsed * static_cast<double>(steps_ - step_) / static_cast<double>(step_);
    if (!options_.progress({result_.epochs, options_.epochs, step_, steps_, loss,
                            result_.validation_loss.empty() ? nan : result_.validation_loss.back(),
                            schedule_.rate(std::max<Index>(step_ - 1, 0)), elapsed, left})) {
      throw Stopped{};
    }
  }
  void report_between(double loss, double least_interval = 0) {
    const double interval = std::max(options_.progress_interval, least_interval);
    if (options_.progress && seconds() - reported_at_ >= interval) report(reported(loss));
  }

  /// False where something is not finite any more.
  bool run_epoch() {
    double sum = 0;
    for (Index begin = 0; begin < train_.size(); begin += batch_size_) {
      const Index count = std::min(batch_size_, train_.size() - begin);
      const double batch_loss = full_batch() ? step_on_all() : step_on_batch(begin, count);
      sum += batch_loss * static_cast<double>(count);
      if (!is_finite(sum) || !all_finite(layer_.parameters())) return false;
      if (begin + count < train_.size()) report_between(sum / static_cast<double>(begin + count));
    }
    return true;
  }

  double step_on_all() {
    return step(train_.x, residual_is_fresh_ ? scratch(residual_, train_.y.rows(), train_.y.cols())
                                             : residual(train_.x, train_.y));
  }

  double step_on_batch(Index begin, Index count) {
    auto x = scratch(x_, train_.x.rows(), count);
    auto y = scratch(y_, train_.y.rows(), count);
    for (Index j = 0; j < count; ++j) {
      const Index sample = order_[static_cast<std::size_t>(begin + j)];
      x.col(j) = train_.x.col(sample);
      y.col(j) = train_.y.col(sample);
    }
    return step(x, residual(x, y));
  }

  /// One step of Adam on a batch with the residual r = layer(x) - y; returns the batch's loss before it.
  double step(const ConstMatrixRef<S>& x, Eigen::Map<Matrix<S>> r) {
    const double batch_loss = squared_norm<S>(r, unit_y_) / static_cast<double>(r.size());
    // The derivative of sum |r|^2 / unit_y^2; the mean is taken after, where it cannot underflow.
    r *= static_cast<S>(1 / unit_y_);
    r *= static_cast<S>(2 / unit_y_);
    layer_.zero_gradients();
    layer_.backward(x, r, grad_x_.leftCols(x.cols()));
    auto gradients = layer_.gradients();
    if (task_.freeze_bias) {
      const ParameterRange bias = layer_.bias();
      gradients.segment(bias.offset, bias.size).setZero();
    }
    gradients.array() *= units_.array() * static_cast<S>(1 / static_cast<double>(r.size()));
    adam_.step(scaled_, gradients, schedule_.rate(step_++));
    layer_.parameters() = scaled_.cwiseProduct(units_);
    residual_is_fresh_ = false;
    return batch_loss;
  }

  LayerRef<S>& layer_;
  const Samples<S>& train_;
  const Samples<S>* validation_;
  FitTask task_;
  const FitOptions& options_;
  Index batch_size_, steps_, step_ = 0;
  CosineSchedule schedule_;
  Adam<S> adam_;
  VectorX<S> x_, y_, residual_, given_, best_;
  VectorX<S> units_, scaled_;  // parameters = units o scaled
  Matrix<S> grad_x_;
  std::vector<Index> order_;
  FitResult result_{};
  double unit_x_ = 1, unit_y_ = 1, train_loss_ = 0, validation_loss_ = 0, best_loss_ = 0;
  bool target_is_zero_ = false, residual_is_fresh_ = false;
  Clock::time_point start_ = Clock::now();
  double reported_at_ = 0;
};

}  // namespace rotorlin::detail
