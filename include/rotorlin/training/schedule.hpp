// SPDX-License-Identifier: MIT
/// \file
/// Learning rates over the steps of a training.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// Half a cosine from `base` down to `minimum` over `steps` steps (Loshchilov and Hutter 2017), after a
/// linear rise to `base` in the first `warmup` of them. Later steps stay at `minimum`.
class CosineSchedule {
 public:
  /// std::invalid_argument unless 0 <= minimum <= base < infinity, 0 <= warmup <= steps and steps >= 1.
  explicit CosineSchedule(double base, double minimum, Index steps, Index warmup = 0)
      : base_(base), minimum_(minimum), steps_(steps), warmup_(warmup) {
    if (!(minimum >= 0 && base >= minimum && detail::is_finite(base)) || steps < 1 || warmup < 0 ||
        warmup > steps) {
      detail::throw_invalid("CosineSchedule: rates ", base, " to ", minimum, ", ", warmup, " of ", steps,
                            " steps warm-up; expected 0 <= minimum <= base and 0 <= warm-up <= steps >= 1");
    }
  }

  /// The rate of step 0, 1, ...
  double rate(Index step) const {
    if (step < warmup_) return base_ * static_cast<double>(step + 1) / static_cast<double>(warmup_ + 1);
    const auto length = static_cast<double>(std::max<Index>(1, steps_ - warmup_));
    const double progress = std::min(1.0, static_cast<double>(step - warmup_) / length);
    return minimum_ + (base_ - minimum_) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }

 private:
  double base_, minimum_;
  Index steps_, warmup_;
};

}  // namespace rotorlin
