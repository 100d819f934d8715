// SPDX-License-Identifier: MIT
/// \file
/// A fast answer to "is there a NaN or an infinity in here?"
#pragma once

#include <Eigen/Core>
#include <cmath>

namespace rotorlin::detail {

/// Whether every entry is finite, in one vectorised pass: 0 * x is 0 or NaN.
template <class Derived>
bool all_finite(const Eigen::DenseBase<Derived>& m) {
  using std::isfinite;
  return m.size() == 0 || isfinite((m.derived().array() * typename Derived::Scalar(0)).sum());
}

}  // namespace rotorlin::detail
