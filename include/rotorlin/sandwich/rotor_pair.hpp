// SPDX-License-Identifier: MIT
/// \file
/// What a sandwich kernel is prepared from.
#pragma once

namespace rotorlin::detail {

/// The two rotors of x -> r x s~ in Cl(n).
template <class Scalar>
struct RotorPair {
  int n;
  const Scalar* left_even;   ///< r: 2^(n-1) coefficients, even blades in graded order
  const Scalar* right_even;  ///< s, likewise
  const Scalar* rotation;    ///< n x n, column-major: v -> r v r~; null unless s = r (single rotor)
};

}  // namespace rotorlin::detail
