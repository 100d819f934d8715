// SPDX-License-Identifier: MIT
/// \file
/// Fitting a layer to samples, or a linear layer to a matrix.
///
/// `fit` minimises the mean squared error of layer(X) against Y by Adam on mini-batches. `fit_dense`
/// minimises tr((W - M) G (W - M)^T) over the layer's matrix M, where G = E[x x^T] is the second moment of
/// the inputs: the expectation of |W x - M x|^2 without any sampling. With G = F F^T (linalg/gram_factor.hpp)
/// it is |W F - M F|_F^2, and the columns of F are a full batch that stands for all samples.
///
/// Both keep the best parameters that they have seen, those at the start included, and are the same in every
/// run with the same seed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/linalg/gram_factor.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/training/adam.hpp"
#include "rotorlin/training/schedule.hpp"

namespace rotorlin {

/// What a running fit tells: at the end of every epoch, and between if `FitOptions::progress_interval` has
/// passed.
struct FitProgress {
  Index epoch, epochs;     ///< epochs done, and in all
  Index step, steps;       ///< steps done, and in all
  double loss;             ///< at the end of an epoch as in FitResult, between: mean over the epoch's batches
  double validation_loss;  ///< the last one, NaN where there is none
  double learning_rate;    ///< of the last step
  double seconds, seconds_left;
};

struct FitOptions {
  Index epochs = 100;
  Index batch_size = 256;  ///< `fit_dense` takes all at once: there an epoch is a step
  double learning_rate = 1e-2;
  double min_learning_rate = 0;  ///< where the cosine ends
  Index warmup_steps = 0;
  double weight_decay = 0;  ///< decoupled, see AdamOptions
  std::uint64_t seed = 0;   ///< of the order of samples
  bool shuffle = true;
  Index patience = 0;    ///< epochs without progress after which to stop; 0: never
  double min_delta = 0;  ///< progress is a loss below (1 - min_delta) times the last progress
  std::function<bool(const FitProgress&)> progress = {};  ///< returns whether to go on
  double progress_interval = 0.5;                         ///< seconds
};

/// Why a fit came to its end. `diverged`: a loss, gradient or parameter was not finite any more.
enum class FitStop { finished, patience, callback, diverged };

struct FitResult {
  std::vector<double> loss;             ///< over all training samples: at the start, then after each epoch
  std::vector<double> validation_loss;  ///< likewise, over the validation samples
  double best_loss;                     ///< of the parameters kept: the validation loss where there is one
  double relative_error;                ///< the same as |layer(X) - Y|_F / |Y|_F
  Index epochs;                         ///< whole epochs run
  FitStop stop;
  double seconds;
};

namespace detail {

template <class S>
struct Samples {
  ConstMatrixRef<S> x, y;
  Index size() const { return x.cols(); }
};

template <Layer L>
void check_samples(const L& layer, const char* name, const Samples<typename L::Scalar>& set) {
  if (set.size() == 0 || set.x.rows() != layer.in_features() || set.y.rows() != layer.out_features() ||
      set.y.cols() != set.size()) {
    throw_invalid("fit: ", name, " samples are ", shape(set.x), " and ", shape(set.y), ", expected ",
                  layer.in_features(), " x N and ", layer.out_features(), " x N, N >= 1, for this ",
                  L::type_name);
  }
  if (!all_finite(set.x) || !all_finite(set.y))
    throw_domain("fit: ", name, " samples have NaN or infinite entries");
}

inline void check_options(const FitOptions& options) {
  if (options.epochs < 1 || options.batch_size < 1 || options.patience < 0 || !(options.min_delta >= 0)) {
    throw_invalid("fit: epochs = ", options.epochs, ", batch_size = ", options.batch_size,
                  ", patience = ", options.patience, ", min_delta = ", options.min_delta,
                  "; expected epochs and batch_size >= 1, patience and min_delta >= 0");
  }
  if (!(options.min_learning_rate >= 0 && options.learning_rate >= options.min_learning_rate &&
        detail::is_finite(options.learning_rate))) {
    throw_invalid("fit: learning_rate = ", options.learning_rate,
                  ", min_learning_rate = ", options.min_learning_rate,
                  "; expected 0 <= min_learning_rate <= learning_rate < infinity");
  }
}

/// The loop of both fits. The loss of a set is the mean over its samples of `scale` |layer(x) - y|^2.
/// Gradients of the bias are dropped if `freeze_bias`.
template <Layer L>
class Fit {
  using S = typename L::Scalar;

 public:
  Fit(L& layer, const Samples<S>& train, const Samples<S>* validation, double scale, bool freeze_bias,
      const FitOptions& options)
      : layer_(layer),
        train_(train),
        validation_(validation),
        scale_(scale),
        freeze_bias_(freeze_bias),
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
    try {
      return run_epochs();
    } catch (...) {
      if (best_.size() != 0) layer_.parameters() = best_;
      layer_.zero_gradients();
      throw;
    }
  }

 private:
  FitResult run_epochs() {
    Random random(options_.seed);
    record();
    if (!detail::is_finite(criterion()))
      throw_domain("fit: the loss of the ", L::type_name, " is not finite at the start");
    keep();
    double last_progress = criterion();
    Index stalled = 0;
    FitStop stop = FitStop::finished;
    while (stop == FitStop::finished && result_.epochs < options_.epochs) {
      if (options_.shuffle && !full_batch()) random.shuffle(order_);
      stop = run_epoch();
      if (stop != FitStop::finished) break;
      ++result_.epochs;
      record();
      if (!detail::is_finite(result_.loss.back()) || !detail::is_finite(criterion())) {
        stop = FitStop::diverged;
        break;
      }
      if (criterion() < result_.best_loss) keep();
      if (criterion() < (1 - options_.min_delta) * last_progress) {
        last_progress = criterion();
        stalled = 0;
      } else if (++stalled == options_.patience) {
        stop = FitStop::patience;
      }
      if (!report(result_.loss.back())) stop = FitStop::callback;
    }
    layer_.parameters() = best_;
    layer_.zero_gradients();
    const Samples<S>& judge = validation_ ? *validation_ : train_;
    const double target = scale_ * squared_norm(judge.y) / static_cast<double>(judge.size());
    result_.relative_error =
        result_.best_loss == 0 ? 0 : std::sqrt(target > 0 ? result_.best_loss / target : result_.best_loss);
    result_.stop = stop;
    result_.seconds = seconds();
    return result_;
  }

  bool full_batch() const { return batch_size_ == train_.size(); }
  double criterion() const { return validation_ ? result_.validation_loss.back() : result_.loss.back(); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  template <class M>
  static double squared_norm(const M& m) {
    return static_cast<double>(m.squaredNorm());
  }

  void keep() {
    best_ = layer_.parameters();
    result_.best_loss = criterion();
  }

  /// layer(x) - y, in `residual_`.
  Eigen::Map<Matrix<S>> residual(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& y) {
    auto r = scratch(residual_, y.rows(), y.cols());
    layer_.forward(x, r, workspace_);
    r -= y;
    return r;
  }

  double loss(const Samples<S>& set) {
    double sum = 0;
    for (Index begin = 0; begin < set.size(); begin += batch_size_) {
      const Index count = std::min(batch_size_, set.size() - begin);
      sum += squared_norm(residual(set.x.middleCols(begin, count), set.y.middleCols(begin, count)));
    }
    return scale_ * sum / static_cast<double>(set.size());
  }

  /// The training loss comes last: a full batch leaves its residual for the next step.
  void record() {
    if (validation_) result_.validation_loss.push_back(loss(*validation_));
    result_.loss.push_back(loss(train_));
  }

  /// Whether to go on.
  bool report(double loss) {
    if (!options_.progress) return true;
    const double nan = std::numeric_limits<double>::quiet_NaN(), elapsed = seconds();
    reported_ = elapsed;
    return options_.progress({result_.epochs, options_.epochs, step_, steps_, loss,
                              validation_ ? result_.validation_loss.back() : nan, schedule_.rate(step_ - 1),
                              elapsed,
                              elapsed * static_cast<double>(steps_ - step_) / static_cast<double>(step_)});
  }

  FitStop run_epoch() {
    double sum = 0;
    for (Index begin = 0; begin < train_.size(); begin += batch_size_) {
      const Index count = std::min(batch_size_, train_.size() - begin);
      const double batch_loss = full_batch() ? step(train_.x, scratch(residual_, train_.y.rows(), count))
                                             : step_on_batch(begin, count);
      sum += batch_loss * static_cast<double>(count);
      if (!detail::is_finite(sum) || !all_finite(layer_.parameters())) return FitStop::diverged;
      const bool more = begin + count < train_.size();
      if (more && options_.progress && seconds() - reported_ >= options_.progress_interval &&
          !report(sum / static_cast<double>(begin + count))) {
        return FitStop::callback;
      }
    }
    return FitStop::finished;
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
    const double weight = scale_ / static_cast<double>(x.cols());
    const double batch_loss = weight * squared_norm(r);
    r *= static_cast<S>(2 * weight);
    layer_.zero_gradients();
    layer_.backward(x, r, grad_x_.leftCols(x.cols()), workspace_);
    if constexpr (LinearLayer<L>) {
      if (freeze_bias_) layer_.gradients().segment(layer_.bias_offset(), layer_.bias().size()).setZero();
    }
    adam_.step(layer_.parameters(), layer_.gradients(), schedule_.rate(step_++));
    return batch_loss;
  }

  using Clock = std::chrono::steady_clock;

  L& layer_;
  const Samples<S>& train_;
  const Samples<S>* validation_;
  double scale_;
  bool freeze_bias_;
  const FitOptions& options_;
  Index batch_size_, steps_, step_ = 0;
  CosineSchedule schedule_;
  Adam<S> adam_;
  typename L::Workspace workspace_;
  VectorX<S> x_, y_, residual_, best_;
  Matrix<S> grad_x_;
  std::vector<Index> order_;
  FitResult result_{};
  Clock::time_point start_ = Clock::now();
  double reported_ = 0;
};

/// Keeps the bias of a layer at zero, and puts it back at the end of its life.
template <LinearLayer L>
class BiasAtRest {
 public:
  explicit BiasAtRest(L& layer) : layer_(layer), bias_(layer.bias()) { layer.bias().setZero(); }
  BiasAtRest(const BiasAtRest&) = delete;
  BiasAtRest& operator=(const BiasAtRest&) = delete;
  ~BiasAtRest() { layer_.bias() = bias_; }

 private:
  L& layer_;
  VectorX<typename L::Scalar> bias_;
};

template <LinearLayer L>
FitResult fit_dense(L& layer, const Matrix<double>& weight, const Matrix<double>& gram, double epsilon,
                    const FitOptions& options) {
  using S = typename L::Scalar;
  check_options(options);
  check_fit(layer, "fit_dense", weight, gram);
  // Unit length changes no minimum, and keeps any Gram matrix within the range of S.
  Matrix<double> factor = factor_gram(gram, "fit_dense", epsilon);
  factor /= factor.colwise().norm().maxCoeff();
  const Matrix<S> x = factor.template cast<S>();
  const Matrix<S> y = (weight * factor).template cast<S>();
  const auto energy = static_cast<double>(y.squaredNorm());
  const double scale = energy > 0 ? static_cast<double>(x.cols()) / energy : 1;

  FitOptions full_batch = options;
  full_batch.batch_size = x.cols();
  const Samples<S> train{x, y};
  check_samples(layer, "training", train);
  const BiasAtRest<L> rest(layer);
  return Fit<L>(layer, train, nullptr, scale, true, full_batch).run();
}

}  // namespace detail

/// Fits a layer to outputs Y (out x N) at inputs X (in x N); the loss is the mean of the squared entries of
/// layer(X) - Y. Keeps the parameters with the least loss; a fit that diverges stops there
/// (FitStop::diverged), so that no fit leaves a layer worse than it was. Gradients are zero afterwards.
///
/// std::invalid_argument on wrong shapes or options; std::domain_error when X, Y or the layer's parameters
/// have NaN or infinite entries, or when the loss overflows at the start.
template <Layer L>
FitResult fit(L& layer, const ConstMatrixRef<typename L::Scalar>& x,
              const ConstMatrixRef<typename L::Scalar>& y, const FitOptions& options = {}) {
  const detail::Samples<typename L::Scalar> train{x, y};
  detail::check_options(options);
  detail::check_samples(layer, "training", train);
  return detail::Fit<L>(layer, train, nullptr, 1 / static_cast<double>(y.rows()), false, options).run();
}

/// The same, with samples apart that tell which parameters are the best and when to stop.
template <Layer L>
FitResult fit(L& layer, const ConstMatrixRef<typename L::Scalar>& x,
              const ConstMatrixRef<typename L::Scalar>& y,
              const ConstMatrixRef<typename L::Scalar>& x_validation,
              const ConstMatrixRef<typename L::Scalar>& y_validation, const FitOptions& options = {}) {
  const detail::Samples<typename L::Scalar> train{x, y}, validation{x_validation, y_validation};
  detail::check_options(options);
  detail::check_samples(layer, "training", train);
  detail::check_samples(layer, "validation", validation);
  return detail::Fit<L>(layer, train, &validation, 1 / static_cast<double>(y.rows()), false, options).run();
}

/// Fits a linear layer's matrix M to W (out x in) in the metric of a Gram matrix G (in x in, symmetric
/// positive semidefinite, of any rank and scale), both of any scalar. The loss is the squared relative error
/// tr((W - M) G (W - M)^T) / tr(W G W^T) (not divided where W F is zero), and `relative_error` its root.
///
/// The bias takes no part and stays as it is. For the best bias beside M give the covariance of the inputs as
/// G, and call `match_bias(layer, mean, W mean + bias)` afterwards.
///
/// Throws what `factor_gram` throws; std::domain_error when W is not finite, else as `fit`.
template <LinearLayer L, class A, class B>
FitResult fit_dense(L& layer, const Eigen::MatrixBase<A>& weight, const Eigen::MatrixBase<B>& gram,
                    const FitOptions& options = {}) {
  const auto epsilon = static_cast<double>(std::numeric_limits<typename B::Scalar>::epsilon());
  return detail::fit_dense(layer, weight.template cast<double>().eval(), gram.template cast<double>().eval(),
                           epsilon, options);
}

}  // namespace rotorlin
