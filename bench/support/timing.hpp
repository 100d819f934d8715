// SPDX-License-Identifier: MIT
/// \file
/// Wall-clock time of pairs that run alternately, so that whatever else the machine does meets both.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace bench {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Keeps a result alive that nobody reads.
inline void keep(const void* result) { asm volatile("" : : "r"(result) : "memory"); }

/// A call repeated often enough to last `min_seconds`; `body(i)` is told the number of the call.
template <class Body>
class Repeated {
 public:
  Repeated(Body body, double min_seconds) : body_(std::move(body)) {
    run();  // first touch, lazy preparation
    double seconds = 0;
    while ((seconds = run()) < min_seconds) {
      const double factor = seconds > 0 ? 1.2 * min_seconds / seconds : 10;
      calls_ = 1 + static_cast<std::size_t>(static_cast<double>(calls_) * std::min(factor, 10.0));
    }
  }

  /// Microseconds a call.
  double microseconds() { return run() / static_cast<double>(calls_) * 1e6; }

 private:
  double run() {
    const double start = seconds_now();
    for (std::size_t i = 0; i < calls_; ++i) body_(next_++);
    return seconds_now() - start;
  }

  Body body_;
  std::size_t calls_ = 1;
  std::size_t next_ = 0;
};

struct PairTime {
  double ours_us;
  double other_us;
  double ratio;  ///< median of other / ours over the rounds, not the ratio of the medians
};

struct Effort {
  int rounds;
  double min_seconds;  ///< of one measurement
};

template <class Ours, class Other>
PairTime measure_pair(const Effort& effort, Ours ours, Other other) {
  Repeated our_calls(std::move(ours), effort.min_seconds);
  Repeated other_calls(std::move(other), effort.min_seconds);
  std::vector<double> our_times, other_times, ratios;
  for (int round = 0; round < effort.rounds; ++round) {
    our_times.push_back(our_calls.microseconds());
    other_times.push_back(other_calls.microseconds());
    ratios.push_back(other_times.back() / our_times.back());
  }
  return {median(our_times), median(other_times), median(ratios)};
}

}  // namespace bench
