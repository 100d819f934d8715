// SPDX-License-Identifier: MIT
// The sandwich r x s~ term by term, and rotors made of plane rotations: what the fast kernels are held
// against.
#pragma once

#include <bit>
#include <cmath>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"

namespace test {

using rotorlin::Index;
using rotorlin::Matrix;
using rotorlin::VectorX;

/// r x s~ for 2^(n-1) even coefficients r, s and 2^n coefficients x, all in graded order.
inline VectorX<double> direct_sandwich(int n, const VectorX<double>& r, const VectorX<double>& s,
                                       const VectorX<double>& x) {
  const rotorlin::BladeTable& blades = rotorlin::blade_table(n);
  const auto at = [](Index i) { return static_cast<std::size_t>(i); };
  VectorX<double> left = VectorX<double>::Zero(x.size());
  for (Index i = 0; i < r.size(); ++i) {
    const unsigned a = blades.even[at(i)];
    for (Index j = 0; j < x.size(); ++j) {
      const unsigned b = blades.mask[at(j)];
      left[blades.index[a ^ b]] += rotorlin::reorder_sign(a, b) * r[i] * x[j];
    }
  }
  VectorX<double> result = VectorX<double>::Zero(x.size());
  for (Index i = 0; i < s.size(); ++i) {
    const unsigned b = blades.even[at(i)];
    const int reversion = std::popcount(b) % 4 >= 2 ? -1 : 1;
    for (Index j = 0; j < x.size(); ++j) {
      const unsigned a = blades.mask[at(j)];
      result[blades.index[a ^ b]] += reversion * rotorlin::reorder_sign(a, b) * s[i] * left[j];
    }
  }
  return result;
}

/// A rotor as a product of rotations in every coordinate plane, with the rotation v -> r v r~ that it is.
struct RandomRotor {
  VectorX<double> even;
  Matrix<double> rotation;

  RandomRotor(int n, std::uint64_t seed)
      : even(VectorX<double>::Unit(Index{1} << (n - 1), 0)), rotation(Matrix<double>::Identity(n, n)) {
    const rotorlin::BladeTable& blades = rotorlin::blade_table(n);
    rotorlin::Random random(seed);
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j) {
        const double angle = random.normal();
        const unsigned plane = (1u << i) | (1u << j);
        VectorX<double> next = std::cos(angle) * even;
        for (Index k = 0; k < even.size(); ++k) {
          const unsigned blade = blades.even[static_cast<std::size_t>(k)];
          next[blades.even_index[plane ^ blade]] +=
              std::sin(angle) * rotorlin::reorder_sign(plane, blade) * even[k];
        }
        even = next;
        Matrix<double> turn = Matrix<double>::Identity(n, n);
        turn(i, i) = turn(j, j) = std::cos(2 * angle);
        turn(i, j) = std::sin(2 * angle);
        turn(j, i) = -turn(i, j);
        rotation = turn * rotation;
      }
    }
  }
};

}  // namespace test
