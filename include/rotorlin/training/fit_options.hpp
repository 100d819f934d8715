// SPDX-License-Identifier: MIT
/// \file
/// What a fit is told, what it tells while it runs, and how it ended.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// What a running fit tells: at the end of every epoch, and between if `FitOptions::progress_interval` has
/// passed. The first call may come while the start is still being judged: then `step` is 0.
struct FitProgress {
  Index epoch, epochs;     ///< epochs done, and in all
  Index step, steps;       ///< steps done, and in all
  double loss;             ///< at the end of an epoch as in FitResult, between: mean over the batches so far
  double validation_loss;  ///< the last one, NaN where there is none
  double learning_rate;    ///< of the last step
  double seconds, seconds_left;
};

struct FitOptions {
  Index epochs = 100;
  Index batch_size = 256;  ///< samples a step; for `fit_dense` columns of the factor of the Gram matrix
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
  /// Before the first step, set the linear parameters' common factor and the bias by least squares, where
  /// that lowers the loss; all linear parameters at every step, where a step sees all samples and the layer
  /// has `solve_linear`. Without it the first step starts from the layer exactly as given.
  bool match_scale = true;
};

/// Why a fit came to its end.
enum class FitStop {
  finished,     ///< all epochs were run, and the best of them is better than the start
  no_progress,  ///< all epochs were run, and none ended below the start (unless that was exact to rounding)
  patience,     ///< `FitOptions::patience` epochs in a row without progress
  callback,     ///< `FitOptions::progress` returned false
  diverged,     ///< a loss, gradient or parameter was not finite any more
};

/// The reason's name.
constexpr std::string_view to_string(FitStop stop) {
  switch (stop) {
    case FitStop::finished:
      return "finished";
    case FitStop::no_progress:
      return "no progress";
    case FitStop::patience:
      return "patience";
    case FitStop::callback:
      return "callback";
    case FitStop::diverged:
      return "diverged";
  }
  return "unknown";
}

/// "Best" is judged over all samples at the ends of epochs: by the validation loss where there is one, by the
/// training loss else. The layer as given and the start after `FitOptions::match_scale` are candidates too.
struct FitResult {
  std::vector<double> loss;  ///< over all training samples: of the layer as given, then after each epoch
  std::vector<double> validation_loss;  ///< likewise, over the validation samples
  double best_loss;                     ///< of the parameters kept: the validation loss where there is one
  double relative_error;                ///< the same as |layer(X) - Y|_F / |Y|_F
  Index epochs;                         ///< whole epochs run
  FitStop stop;
  double seconds;
  Index best_epoch;  ///< the epoch after which the parameters kept were met; 0: none is better than the start
};

namespace detail {

inline void check_options(const FitOptions& options) {
  if (options.epochs < 1 || options.batch_size < 1 || options.patience < 0 || !(options.min_delta >= 0)) {
    throw_invalid("fit: epochs = ", options.epochs, ", batch_size = ", options.batch_size,
                  ", patience = ", options.patience, ", min_delta = ", options.min_delta,
                  "; expected epochs and batch_size >= 1, patience and min_delta >= 0");
  }
  if (!(options.min_learning_rate >= 0 && options.learning_rate >= options.min_learning_rate &&
        is_finite(options.learning_rate))) {
    throw_invalid("fit: learning_rate = ", options.learning_rate,
                  ", min_learning_rate = ", options.min_learning_rate,
                  "; expected 0 <= min_learning_rate <= learning_rate < infinity");
  }
}

}  // namespace detail

}  // namespace rotorlin
