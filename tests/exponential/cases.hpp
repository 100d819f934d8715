// SPDX-License-Identifier: MIT
// Bivectors that are hard to decompose, with their angles, and the exponential and its derivative by a method
// that knows nothing of planes: Taylor's series in long double, differentiated by Eigen's AutoDiffScalar.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <numbers>
#include <random>
#include <string>
#include <unsupported/Eigen/AutoDiff>
#include <vector>

#include "algebra/oracle.hpp"
#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/exponential/exp.hpp"

namespace test {

using rotorlin::Bivector;
using rotorlin::Dynamic;
using rotorlin::Rotor;
using Wide = long double;

struct Case {
  std::string name;
  Bivector<Wide, Dynamic> b;
  std::vector<Wide> angles;  ///< descending

  Wide norm() const { return b.norm(); }
};

/// n random orthonormal vectors, as columns.
inline rotorlin::Matrix<Wide> random_basis(int n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  rotorlin::Matrix<Wide> q(n, n);
  for (Index j = 0; j < n; ++j) {
    rotorlin::VectorX<Wide> v(n);
    for (Index i = 0; i < n; ++i) v[i] = normal(generator);
    for (int pass = 0; pass < 3; ++pass) {
      for (Index k = 0; k < j; ++k) v -= q.col(k) * q.col(k).dot(v);
      v.normalize();
    }
    q.col(j) = v;
  }
  return q;
}

/// sum_p angle_p q_2p ^ q_2p+1.
inline Bivector<Wide, Dynamic> bivector_of(const rotorlin::Matrix<Wide>& q, const std::vector<Wide>& angles) {
  rotorlin::Matrix<Wide> skew = rotorlin::Matrix<Wide>::Zero(q.rows(), q.rows());
  for (std::size_t p = 0; p < angles.size(); ++p) {
    const Index k = 2 * static_cast<Index>(p);
    skew += angles[p] * (q.col(k) * q.col(k + 1).transpose() - q.col(k + 1) * q.col(k).transpose());
  }
  return Bivector<Wide, Dynamic>::from_skew_matrix(skew);
}

inline std::vector<Case> hard_cases(int n) {
  const Wide pi = std::numbers::pi_v<Wide>;
  const std::size_t planes = static_cast<std::size_t>(n / 2);
  const rotorlin::Matrix<Wide> q = random_basis(n, static_cast<unsigned>(n));
  const rotorlin::Matrix<Wide> axes = rotorlin::Matrix<Wide>::Identity(n, n);
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const rotorlin::Matrix<Wide>& basis, auto angle) {
    std::vector<Wide> angles;
    for (std::size_t p = 0; p < planes; ++p)
      angles.push_back(static_cast<Wide>(angle(static_cast<double>(p))));
    Bivector<Wide, Dynamic> b = bivector_of(basis, angles);
    for (Wide& a : angles) a = std::abs(a);
    std::sort(angles.rbegin(), angles.rend());
    cases.push_back({name, b, angles});
  };
  add("zero", q, [](double) { return 0; });
  add("simple, an axis", axes, [](double p) { return p == 0 ? 1.25 : 0; });
  add("simple", q, [](double p) { return p == 0 ? 1.25 : 0; });
  add("distinct", q, [](double p) { return 1.5 - 0.4 * p; });
  add("all equal, axes", axes, [](double) { return 0.8; });
  add("all equal", q, [](double) { return 0.8; });
  add("equal but for the sign", q, [](double p) { return static_cast<int>(p) % 2 == 0 ? 0.8 : -0.8; });
  add("gaps of 1e-6", q, [](double p) { return 0.8 + 1e-6 * p; });
  add("gaps of 1e-9", q, [](double p) { return 0.8 + 1e-9 * p; });
  add("gaps of 2 %", q, [](double p) { return 0.8 * (1 - 0.02 * p); });
  add("graded", q, [](double p) { return std::pow(1e-4, p); });
  add("all pi", q, [&](double) { return pi; });
  add("pi, the others distinct", q, [&](double p) { return p == 0 ? pi : Wide(0.3 * p); });
  add("pi/2", q, [&](double) { return pi / 2; });
  add("pi/2 and near it", q, [&](double p) { return pi / 2 + Wide(1e-7 * p); });
  add("norm 50", q, [](double p) { return 45 - 9.7 * p; });
  add("norm 1e3", q, [](double p) { return 900 - 123.4 * p; });
  add("1e-12", q, [](double p) { return 1e-12 * (1 + 0.3 * p); });
  add("1e-30", q, [](double p) { return 1e-30 * (1 + 0.3 * p); });
  return cases;
}

/// The exponential by its series.
inline Rotor<Wide, Dynamic> series_exp(const Bivector<Wide, Dynamic>& b) {
  return rotorlin::detail::exp_by_squaring(b);
}

/// d/dt exp(b + t h) at t = 0.
template <int P, int Q, int R>
Rotor<Wide, P, Q, R> series_derivative(const Bivector<Wide, P, Q, R>& b, const Bivector<Wide, P, Q, R>& h) {
  using Dual = Eigen::AutoDiffScalar<Eigen::Matrix<Wide, 1, 1>>;
  Bivector<Dual, P, Q, R> line(b.signature());
  for (Index i = 0; i < b.size(); ++i) line[i] = Dual(b[i], Eigen::Matrix<Wide, 1, 1>(h[i]));
  const Rotor<Dual, P, Q, R> value = rotorlin::exp(line);
  Rotor<Wide, P, Q, R> derivative(b.signature());
  for (Index i = 0; i < value.size(); ++i) derivative[i] = value[i].derivatives()[0];
  return derivative;
}

}  // namespace test
