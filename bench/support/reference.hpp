// SPDX-License-Identifier: MIT
/// \file
/// What results are checked against before anything is timed: products and sandwiches by the definition, in
/// double precision, which share no code with the library's fast ways.
#pragma once

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/types.hpp"

namespace bench {

using rotorlin::Index;
using Vector = rotorlin::VectorX<double>;

/// b x (or, with `right`, x b) for a bivector b and any multivector x, coefficients in graded order.
inline Vector bivector_product(int n, const Vector& b, const Vector& x, bool right) {
  const rotorlin::BladeTable& blades = rotorlin::blade_table(n);
  Vector result = Vector::Zero(x.size());
  for (Index k = 0; k < b.size(); ++k) {
    const unsigned plane = blades.mask[static_cast<std::size_t>(n + 1 + k)];
    for (Index i = 0; i < x.size(); ++i) {
      const unsigned blade = blades.mask[static_cast<std::size_t>(i)];
      const int sign = right ? rotorlin::reorder_sign(blade, plane) : rotorlin::reorder_sign(plane, blade);
      result[blades.index[blade ^ plane]] += sign * b[k] * x[i];
    }
  }
  return result;
}

/// exp(b) x or x exp(b): 2^k times the series of exp(b / 2^k), |b / 2^k| < 1/2.
inline Vector exponential_product(int n, const Vector& b, Vector x, bool right) {
  const int halvings = std::max(0, std::ilogb(b.norm() * std::sqrt(n)) + 2);
  const Vector small = std::ldexp(1.0, -halvings) * b;
  for (int repeat = 0; repeat < 1 << halvings; ++repeat) {
    Vector term = x;
    for (int k = 1; term.norm() > 1e-17 * x.norm(); ++k) {
      term = bivector_product(n, small, term, right) / k;
      x += term;
    }
  }
  return x;
}

/// exp(left) x exp(right)~.
inline Vector direct_sandwich(int n, const Vector& left, const Vector& right, const Vector& x) {
  return exponential_product(n, -right, exponential_product(n, left, x, false), true);
}

inline void demand(const std::string& complaint, bool condition) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", complaint.c_str());
  std::exit(1);
}

/// Ends the program where a result is further than `tolerance` from its reference, relative, in norm.
template <class Result, class Reference>
void demand_close(const std::string& name, const Result& result, const Reference& reference,
                  double tolerance = 4e-6) {
  const double error = (result.template cast<double>() - reference).norm() / reference.norm();
  demand(name + ": wrong result, relative error " + std::to_string(error * 1e6) + "e-6",
         error <= tolerance);  // NaN too
}

}  // namespace bench
