// SPDX-License-Identifier: MIT
/// \file
/// What GeoPairCompressor does: plan, compress, report how far it is.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/workers.hpp"
#include "rotorlin/geopair/allocation.hpp"
#include "rotorlin/geopair/compressor.hpp"
#include "rotorlin/geopair/group_compression.hpp"
#include "rotorlin/geopair/layer_grouping.hpp"
#include "rotorlin/geopair/method.hpp"

namespace rotorlin {

namespace detail {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Reports how far a stage is, to the user's callback, one thread at a time.
class CompressionStage {
 public:
  CompressionStage(std::string name, const CompressorOptions& options)
      : name_(std::move(name)), callback_(options.progress) {}

  /// Parts of the stage and what each costs.
  void begin(std::vector<double> costs) {
    costs_ = std::move(costs);
    done_.assign(costs_.size(), 0);
  }
  void update(std::size_t part, double fraction) {
    const std::lock_guard lock(mutex_);
    done_[part] = fraction;
    report(std::inner_product(costs_.begin(), costs_.end(), done_.begin(), 0.0) /
           std::accumulate(costs_.begin(), costs_.end(), 0.0));
  }
  void at_least(double fraction) {
    const std::lock_guard lock(mutex_);
    report(fraction);
  }

 private:
  void report(double fraction) {
    fraction_ = std::clamp(fraction, fraction_, 1.0);
    const double seconds = seconds_since(start_);
    if (callback_ && fraction_ > 0) {
      callback_({name_, fraction_, seconds, seconds * (1 - fraction_) / fraction_});
    }
  }

  std::string name_;
  const std::function<void(const CompressionProgress&)>& callback_;
  Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::vector<double> costs_, done_;
  double fraction_ = 0;
};

/// The largest first, so that the last to run is short.
inline std::vector<std::size_t> by_cost(const std::vector<double>& costs) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  return order;
}

/// \throws std::invalid_argument that names every option out of range.
inline void check_options(const CompressorOptions& options) {
  constexpr const char* who = "GeoPairCompressor";
  if (!(options.ratio >= 0 && options.ratio < 1)) {
    detail::throw_invalid(who, ": ratio = ", options.ratio, ", expected 0 <= ratio < 1");
  }
  std::string faults;
  const auto expect = [&](const char* name, auto value, int least) {
    if (value >= least) return;  // not so for NaN
    faults += detail::concatenate(faults.empty() ? "" : "; ", name, " = ", value, ", expected >= ", least);
  };
  expect("ks_ratio", options.ks_ratio, 1);
  expect("group_size", options.group_size, 0);
  expect("eta", options.eta, 0);
  expect("iterations", options.iterations, 0);
  expect("tolerance", options.tolerance, 0);
  expect("threads", options.threads, 1);
  constexpr double most_eta = 1e6;  // beyond, nothing of the activations is left of the metric
  if (options.eta > most_eta) {
    faults +=
        detail::concatenate(faults.empty() ? "" : "; ", "eta = ", options.eta, ", expected 0 ... ", most_eta);
  }
  const auto within = [&](const char* name, auto value, auto last) {
    const int number = static_cast<int>(value), end = static_cast<int>(last);
    if (number >= 0 && number <= end) return;
    faults += detail::concatenate(faults.empty() ? "" : "; ", name, " = ", number,
                                  ", expected one of the enumeration, 0 ... ", end);
  };
  within("method", options.method, CompressionMethod::geopair_sparse);
  within("pairing", options.pairing, Pairing::gain);
  within("weighting", options.weighting, LayerWeighting::relative);
  within("budget", options.budget, BudgetAllocation::global);
  if (!faults.empty()) detail::throw_invalid(who, ": options: ", faults);
}

}  // namespace detail

template <class>
std::vector<PlannedGroup> GeoPairCompressor::plan(const CompressorOptions& options) const {
  if (layers_.empty()) detail::throw_invalid(who, ": no layer was added");
  detail::check_options(options);
  detail::CompressionStage stage("grouping", options);
  std::vector<PlannedGroup> groups;
  for (auto& members :
       detail::LayerGrouping(layers_, grams_, options, [&](double f) { stage.at_least(f); }).solve()) {
    groups.push_back({std::move(members), options.ratio});
  }
  if (options.budget == BudgetAllocation::global && options.ratio > 0) allocate(groups, options);
  return groups;
}

template <class>
CompressedGroup GeoPairCompressor::compress_group(const PlannedGroup& group, const CompressorOptions& options,
                                                  const std::function<void(double)>& progress) const {
  const auto start = detail::Clock::now();
  CompressedGroup result =
      detail::GroupProblem(members(group), grams_, options).compress(group.ratio, progress);
  result.members = group.members;
  result.report.seconds = detail::seconds_since(start);
  return result;
}

template <class>
CompressionResult GeoPairCompressor::compress(const CompressorOptions& options) const {
  const std::vector<PlannedGroup> groups = plan(options);
  detail::CompressionStage stage("compression", options);
  const std::vector<double> costs = this->costs(groups);
  std::vector<CompressedGroup> done(groups.size());
  stage.begin(costs);
  detail::run_tasks(detail::by_cost(costs), options.threads, [&](std::size_t g) {
    done[g] = compress_group(groups[g], options, [&](double fraction) { stage.update(g, fraction); });
    stage.update(g, 1);
  });
  return assemble(std::move(done));
}

/// Sets the ratios of the groups by their damage in brief compressions around the ratio asked for.
template <class>
void GeoPairCompressor::allocate(std::vector<PlannedGroup>& groups, const CompressorOptions& options) const {
  detail::CompressionStage stage("allocation", options);
  const std::vector<double> costs = this->costs(groups);
  stage.begin(costs);
  std::vector<DamageCurve> curves(groups.size());
  std::vector<double> dense(groups.size());
  const int iterations = std::min(options.iterations, traits_of(options.method).sparse ? 6 : 2);
  detail::run_tasks(detail::by_cost(costs), options.threads, [&](std::size_t g) {
    const detail::GroupProblem problem(members(groups[g]), grams_, options);
    dense[g] = problem.dense_bytes();
    constexpr double factors[] = {0.3, 0.45, 0.6, 0.75, 0.9, 1, 1.1, 1.25, 1.45, 1.7, 2, 2.5};
    for (const double factor : factors) {
      const double kept = factor * (1 - options.ratio);
      if (kept > 0.97) break;
      if (const auto size = problem.size(1 - kept)) {
        curves[g].push_back({kept * dense[g], problem.solve(*size, iterations).objective});
      }
      stage.update(g, factor / 2.5);
    }
    curves[g].push_back({dense[g], 0});
    stage.update(g, 1);
  });
  const double budget = (1 - options.ratio) * std::accumulate(dense.begin(), dense.end(), 0.0);
  const std::vector<double> bytes =
      detail::blame(detail::concatenate("one budget for all groups at ratio ", options.ratio),
                    [&] { return allocate_bytes(curves, budget); });
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].ratio = std::max(0.0, 1 - bytes[g] / dense[g]);
    if (groups[g].ratio < 1e-12) groups[g].ratio = 0;
  }
}

}  // namespace rotorlin
