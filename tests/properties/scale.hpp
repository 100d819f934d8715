// SPDX-License-Identifier: MIT
// Scales at which everything that is homogeneous must give the scaled result, or an error that says why not.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"

namespace properties {

using namespace rotorlin;

inline const std::vector<double> scales = {1e-30, 1e-20, 1e-10, 1e-3, 1, 1e3, 1e10, 1e20, 1e30};

template <class S>
Matrix<S> random(Index rows, Index cols, std::uint64_t seed) {
  Matrix<S> m(rows, cols);
  Random(seed).fill_uniform(m, -1, 1);
  return m;
}

/// |a - scale b| / |scale b|, in double and without a square that overflows.
template <class A, class B>
double difference(const A& a, const B& b, double scale) {
  const Matrix<double> expected = b.template cast<double>();
  const Matrix<double> found = a.template cast<double>() / scale;
  return (found - expected).norm() / expected.norm();
}

template <class S>
constexpr double rounding() {
  return 200 * static_cast<double>(std::numeric_limits<S>::epsilon());
}

}  // namespace properties
