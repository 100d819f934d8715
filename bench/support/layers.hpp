// SPDX-License-Identifier: MIT
/// \file
/// Layers and batches to measure, and what they cost by count.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "rotorlin/core/random.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "support/reference.hpp"

namespace bench {

template <class S>
rotorlin::Matrix<S> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  rotorlin::Matrix<S> matrix(rows, cols);
  rotorlin::Random(seed).fill_uniform(matrix, -1, 1);
  return matrix;
}

/// A layer of 2^n features and one rotor pair, without bias.
template <class S>
rotorlin::RotorLinear<S> rotor_layer(int n, bool single, std::uint64_t seed = 0,
                                     rotorlin::Kernel kernel = rotorlin::Kernel::automatic) {
  rotorlin::RotorLinearOptions options;
  options.single_rotor = single;
  options.bias = false;
  options.kernel = kernel;
  options.seed = seed;
  return {Index{1} << n, Index{1} << n, options};
}

/// Checks the last column of y = layer(x) against the definition.
template <class S>
void check_forward(const std::string& name, const rotorlin::RotorLinear<S>& layer,
                   const rotorlin::Matrix<S>& x, const rotorlin::Matrix<S>& y) {
  const Vector left = layer.bivectors_left().col(0).template cast<double>();
  const Vector right =
      layer.options().single_rotor ? left : Vector(layer.bivectors_right().col(0).template cast<double>());
  const Index last = x.cols() - 1;
  demand_close(name, y.col(last),
               direct_sandwich(layer.dimension(), left, right, x.col(last).template cast<double>()));
}

/// Flops a sample by the definition of each kernel, a multiply-add counted as two: of the products of a
/// spinor kernel 2^n K D on either side, and its transforms; of shears a quarter of the coefficients each.
template <class S>
double forward_flops(const rotorlin::RotorLinear<S>& layer) {
  const int n = layer.dimension();
  const double size = std::ldexp(1.0, n);
  switch (layer.kernel()) {
    case rotorlin::Kernel::shears:
      return 2 * size * n * (n - 1) / 4;
    case rotorlin::Kernel::spinor: {
      const rotorlin::SpinorBasis& basis = rotorlin::spinor_basis(n);
      return size * (4 * static_cast<double>(basis.real_order()) +
                     2 * std::log2(static_cast<double>(basis.length())));
    }
    case rotorlin::Kernel::parity_blocks:
      return size * size;
    default:
      return 2 * size * size;
  }
}

}  // namespace bench
