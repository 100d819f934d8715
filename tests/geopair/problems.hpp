// SPDX-License-Identifier: MIT
// Weights and Gram matrices for the tests of geopair, as hard as asked for.
#pragma once

#include <Eigen/Core>
#include <Eigen/QR>
#include <cmath>
#include <vector>

#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"

namespace test {

using rotorlin::Index;
using Matrix = rotorlin::Matrix<double>;
using Vector = rotorlin::VectorX<double>;

inline Matrix random_matrix(Index rows, Index cols, std::uint64_t seed) {
  rotorlin::Random random(seed);
  Matrix m(rows, cols);
  for (Index j = 0; j < cols; ++j) {
    for (Index i = 0; i < rows; ++i) m(i, j) = random.normal();
  }
  return m;
}

/// A Gram matrix with eigenvalues from 1 to 1 / condition, in random directions.
inline Matrix random_gram(Index d, double condition, std::uint64_t seed) {
  const Matrix q = Eigen::HouseholderQR<Matrix>(random_matrix(d, d, seed)).householderQ();
  Vector values(d);
  for (Index i = 0; i < d; ++i)
    values[i] = std::pow(condition, -static_cast<double>(i) / static_cast<double>(d - 1));
  const Matrix gram = q * values.asDiagonal() * q.transpose();
  return (gram + gram.transpose()) / 2;
}

inline double relative(const Matrix& difference, const Matrix& scale) {
  return difference.norm() / scale.norm();
}

inline std::vector<const Matrix*> pointers(const std::vector<Matrix>& matrices) {
  std::vector<const Matrix*> result;
  for (const Matrix& each : matrices) result.push_back(&each);
  return result;
}

}  // namespace test
