// SPDX-License-Identifier: MIT
/// \file
/// An alternation of half steps that descend: where it is, where it has been, and the way back.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/factorization_options.hpp"
#include "rotorlin/geopair/sparse_coding.hpp"

namespace rotorlin::detail {

/// What an alternation is at, where it has been, and the way back.
class Descent {
 protected:
  Descent(const FactorizationOptions& options, Matrix<double> start)
      : options_(options), d_(std::move(start)) {
    const bool sparse = options.nonzeros > 0 && options.nonzeros < options.rank;
    if (sparse && !options.monotone) cold_ = static_cast<int>(std::int64_t{2} * options.iterations / 3);
  }

  PursuitOptions pursuit(bool warm) const {
    PursuitOptions options;
    options.nonzeros = options_.nonzeros;
    options.solver = options_.solver;
    options.exchange = options_.exchange && !options_.monotone && (warm || careful_);
    if (!warm && cold_ > 0) options.gradient_steps = 3;  // it will be coded again
    return options;
  }

  SharedFactorization point() const { return {d_, c_, objective_, {}, 0}; }

  void restore(const SharedFactorization& point) {
    d_ = point.dictionary;
    c_ = point.coefficients;
    objective_ = point.objective;
  }

  void record(HalfStep step, double objective) {
    objective_ = objective;
    trace_.push_back({step, objective});
  }

  /// Half steps that promise to descend do so up to rounding, which is all that is left to them where atoms
  /// or coefficients depend on each other: what did not lower the objective from that of `before` is taken
  /// back. Returns whether it was.
  bool taken_back(const SharedFactorization& before, double objective) {
    if (objective <= before.objective) return false;
    if (!(objective <= before.objective + 1e-9 * (before.objective + 1e-6 * energy_))) ++taken_back_;
    restore(before);
    return true;
  }

  /// Tells the progress; whether an iteration that began at `before` won too little to go on.
  bool finished(int iteration, double before) const {
    if (options_.progress) options_.progress(iteration, objective_);
    return iteration >= cold_ && options_.tolerance > 0 && before - objective_ <= options_.tolerance * before;
  }

  template <class Measure, class Move>
  void descend(HalfStep step, const Measure& measure, const Move& move) {
    const SharedFactorization before = point();
    move();
    double objective = measure();
    if (taken_back(before, objective)) objective = measure();
    record(step, objective);
  }

  /// Sparse coefficients. code(warm) finds them, from nothing or from the present ones, improve() descends
  /// from given ones, measure() returns the objective of the present point.
  template <class Code, class Measure, class Improve>
  SharedFactorization alternate(const Code& code, const Measure& measure, const Improve& improve) {
    code(false);
    record(HalfStep::coefficients, measure());
    SharedFactorization best = point();
    for (int iteration = 0; iteration < options_.iterations; ++iteration) {
      const double before = objective_;
      improve();
      if (objective_ < best.objective) best = point();
      if (iteration < cold_) {
        code(false);
        record(HalfStep::coefficients, measure());
      } else {
        if (iteration == cold_ && cold_ > 0) restore(best);
        descend(HalfStep::coefficients, measure, [&] { code(true); });
      }
      if (finished(iteration, before)) break;
    }
    return finish(std::move(best));
  }

  /// The better one of the best point so far and the present one, with the trace.
  SharedFactorization finish(SharedFactorization best) {
    if (!(best.objective < objective_)) best = point();
    best.trace = std::move(trace_);
    best.taken_back = taken_back_;
    return best;
  }

  const FactorizationOptions& options_;
  int cold_ = 0;          // iterations that code from nothing
  bool careful_ = false;  // they exchange atoms too
  Matrix<double> d_;
  std::vector<Matrix<double>> c_;
  double objective_ = 0, energy_ = 0;  // energy_: the objective of nothing

 private:
  std::vector<TracePoint> trace_;
  int taken_back_ = 0;
};

}  // namespace rotorlin::detail
