// SPDX-License-Identifier: MIT
/// \file
/// Seeded random numbers that are the same with every standard library: the 64-bit Mersenne twister, whose
/// output the standard fixes, with distributions of our own (those of the standard are left to each library).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

#include "rotorlin/core/types.hpp"

namespace rotorlin {

class Random {
 public:
  /// The same numbers for the same seed, on every machine.
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// Normal with mean 0 and variance 1 (Box and Muller 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

  /// Uniform in 0 ... n-1, n >= 1.
  Index below(Index n) { return static_cast<Index>(engine_() % static_cast<std::uint64_t>(n)); }

  /// Every entry of a matrix or vector uniform in [low, high), column after column.
  template <class Derived>
  void fill_uniform(Eigen::DenseBase<Derived>&& values, double low, double high) {
    fill_uniform(values, low, high);
  }
  template <class Derived>
  void fill_uniform(Eigen::DenseBase<Derived>& values, double low, double high) {
    for (Index j = 0; j < values.cols(); ++j) {
      for (Index i = 0; i < values.rows(); ++i) {
        values(i, j) = static_cast<typename Derived::Scalar>(uniform(low, high));
      }
    }
  }

  /// A random order of the elements (Fisher and Yates).
  template <class Range>
  void shuffle(Range& values) {
    const auto first = values.begin();
    for (Index i = values.end() - first - 1; i > 0; --i) std::iter_swap(first + i, first + below(i + 1));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace rotorlin
