// SPDX-License-Identifier: MIT
/// \file
/// What a sandwich kernel is prepared from.
#pragma once

#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// The two rotors of x -> r x s~ in Cl(n): 2^(n-1) coefficients each, even blades in graded order.
template <class Scalar>
struct RotorPair {
  int n;
  const Scalar* left_even;
  const Scalar* right_even;
  bool single;  ///< s = r
};

}  // namespace rotorlin::detail
