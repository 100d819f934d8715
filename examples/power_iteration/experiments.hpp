// SPDX-License-Identifier: MIT
/// \file
/// The three experiments of this program. Each prints its progress and a table, and writes a CSV and a plot.
#pragma once

#include <Eigen/Core>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "power_iteration/recorded_exp.hpp"
#include "rotorlin/core/random.hpp"

namespace examples {

struct Options {
  std::filesystem::path out = "out";
  std::uint64_t seed = 1;
  bool quick = false;  ///< a few repetitions, for a first look
};

/// Steps of the warm-started power iteration during fits of dimension 64 to 4096.
void convergence(const Options& options);
/// Error of the published gradient, and of the power iteration's rotor in float32, against the gap between
/// the two largest angles.
void gradient_error(const Options& options);
/// The same fits with the published and the exact gradient.
void training(const Options& options);

/// What lies at the given share of the sorted values (linear between neighbours).
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at), high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}
inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

inline Eigen::VectorXd random_normal(Index size, rotorlin::Random& random) {
  Eigen::VectorXd values(size);
  for (double& value : values) value = random.normal();
  return values;
}

/// A bivector of Cl(n) with the given angles in random planes.
inline Bivector random_bivector(int n, const std::vector<double>& angles, rotorlin::Random& random) {
  const Matrix<double> normal = random_normal(Index{n} * n, random).reshaped(n, n);
  const Matrix<double> q = Eigen::HouseholderQR<Matrix<double>>(normal).householderQ();
  Matrix<double> skew = Matrix<double>::Zero(n, n);
  for (std::size_t p = 0; p < angles.size(); ++p) {
    const auto u = q.col(2 * static_cast<Index>(p)), v = q.col(2 * static_cast<Index>(p) + 1);
    skew += angles[p] * (u * v.transpose() - v * u.transpose());
  }
  return Bivector::from_skew_matrix(skew);
}

}  // namespace examples
