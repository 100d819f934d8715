// SPDX-License-Identifier: MIT
/// \file
/// Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019), on flat parameters p
/// with gradients g:
///
///     m <- beta1 m + (1 - beta1) g,   v <- beta2 v + (1 - beta2) g^2,
///     p <- p - rate (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay p).
#pragma once

#include <cmath>
#include <concepts>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

template <std::floating_point S>
class Adam {
 public:
  /// std::invalid_argument unless the betas are in [0, 1), epsilon > 0 and weight_decay >= 0.
  explicit Adam(const AdamOptions& options = {}) : options_(options) {
    const auto in_unit_interval = [](double beta) {
      return detail::is_finite(beta) && beta >= 0 && beta < 1;
    };
    if (!in_unit_interval(options.beta1) || !in_unit_interval(options.beta2) ||
        !(options.epsilon > 0 && detail::is_finite(options.epsilon)) ||
        !(options.weight_decay >= 0 && detail::is_finite(options.weight_decay))) {
      detail::throw_invalid("Adam: beta1 = ", options.beta1, ", beta2 = ", options.beta2,
                            ", epsilon = ", options.epsilon, ", weight_decay = ", options.weight_decay,
                            "; expected 0 <= beta < 1, epsilon > 0, weight_decay >= 0");
    }
  }

  /// One step. The first one fixes the number of parameters and allocates, later ones do not.
  /// std::invalid_argument on another number of parameters, and unless the rate is a number.
  void step(VectorRef<S> parameters, const ConstVectorRef<S>& gradients, double rate) {
    if (!detail::is_finite(rate)) detail::throw_invalid("Adam::step: rate = ", rate, ", expected a number");
    if (steps_ == 0) {
      mean_.setZero(parameters.size());
      square_.setZero(parameters.size());
    }
    if (parameters.size() != mean_.size() || gradients.size() != mean_.size()) {
      detail::throw_invalid("Adam::step: parameters are ", detail::shape(parameters), ", gradients ",
                            detail::shape(gradients), ", expected ", detail::shape(mean_), " for both");
    }
    ++steps_;
    beta1_power_ *= options_.beta1;
    beta2_power_ *= options_.beta2;
    const auto beta1 = static_cast<S>(options_.beta1), beta2 = static_cast<S>(options_.beta2);
    const auto mean_rate = static_cast<S>(rate / (1 - beta1_power_));
    const auto square_scale = static_cast<S>(1 / std::sqrt(1 - beta2_power_));
    const auto kept = static_cast<S>(1 - rate * options_.weight_decay);
    const auto epsilon = static_cast<S>(options_.epsilon);
    mean_ = beta1 * mean_ + (1 - beta1) * gradients;
    square_.array() = beta2 * square_.array() + (1 - beta2) * gradients.array().square();
    parameters.array() = kept * parameters.array() -
                         mean_rate * mean_.array() / (square_scale * square_.array().sqrt() + epsilon);
  }

  /// How many steps were taken.
  Index steps() const { return steps_; }

 private:
  AdamOptions options_;
  VectorX<S> mean_, square_;
  Index steps_ = 0;
  double beta1_power_ = 1, beta2_power_ = 1;
};

#if defined(ROTORLIN_COMPILED)
extern template class Adam<float>;
extern template class Adam<double>;
#endif

}  // namespace rotorlin
