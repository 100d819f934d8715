// SPDX-License-Identifier: MIT
/// \file
/// What a sandwich kernel is: a way to compute x -> alpha r x s~ for multivectors of Cl(n), forward and
/// backward, for W samples side by side (each coefficient a pack) or for one by itself (W = 1).
#pragma once

#include <concepts>
#include <string_view>

#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// The two rotors of x -> r x s~ in Cl(n), which a kernel is prepared from.
template <class Scalar>
struct RotorPair {
  int n;
  const Scalar* left_even;   ///< r: 2^(n-1) coefficients, even blades in graded order
  const Scalar* right_even;  ///< s, likewise
  const Scalar* rotation;    ///< n x n, column-major: v -> r v r~; null unless s = r (single rotor)
};

/// The contract of a kernel K on scalars S. All members are static; sizes are counted in scalars for one
/// sample, W times that for a tile.
///
/// - `name`: what texts and command lines call it.
/// - `single_rotor_only`: whether it needs s = r.
/// - `fastest(n, single_rotor, width)`: whether it is, of the kernels that are not before it in the list, the
///   fastest for a batch through `width` pairs of Cl(n) in parallel (measured: bench/forward).
/// - `work(n)`: multiply-adds of a dense product that take as long as one sandwich of one sample (roughly, as
///   measured on large batches).
/// - `transforms`: whether `enter` writes a domain of its own; otherwise coefficients in graded order are the
///   domain, and `enter` and `leave` return their argument.
/// - `Weights`: a `forward` and an `adjoint` of type `Operator`.
/// - `prepare(pair, alpha, with_adjoint, weights, memory)`: makes `forward`, alpha r x s~, and, where
/// gradients
///   will be asked for, `adjoint`, r~ g s without alpha. The rotors may be of a wider scalar.
/// - `enter<W>(n, coefficients, domain, scratch)` and `leave<W>(n, domain, coefficients, scratch)` go between
///   coefficients and the domain, 2^n scalars each, and return where the result lies.
/// - `apply<W, Add>(n, op, x, y, scratch)`: y = op x, or y += op x, in the domain. x and y differ.
/// - `scratch_size(n)`: of the three above.
/// - `gradient<W>(n, gx, x, sums, scratch)`: adds what the samples contribute to <gx x~>_2, <gx~ x>_2 and
///   <gx, x>, in a form of the kernel's own, to `gradient_size(n)` sums in all; gx and x lie in the domain.
///   `gradient_scratch_size(n)`: its scratch. `singles_of_gradient(n)`: as singles_per_tile, backward; where
///   it is 0, layers go backward in tiles only.
/// - `finish_gradient(n, sums, left, right, dot, memory)`: those three from the sums, the bivectors with
///   n(n-1)/2 coefficients; a kernel for single rotors may put the sum of both into `left`, zero into
///   `right`.
/// - `singles_per_tile(n)`: how many samples one by one take as long as a tile of native_lanes<S> (measured).
template <class K, class S>
concept SandwichKernel = std::default_initializable<typename K::Weights> &&
    requires(int n, const RotorPair<S>& pair, S alpha, typename K::Weights& weights, PackBuffer<S>& memory,
             const typename K::Operator& op, const S* in, S* out, S* scratch, S& dot) {
  { K::name } -> std::convertible_to<std::string_view>;
  { K::single_rotor_only } -> std::convertible_to<bool>;
  { K::transforms } -> std::convertible_to<bool>;
  { K::fastest(n, true, Index{1}) } -> std::same_as<bool>;
  { weights.forward } -> std::convertible_to<const typename K::Operator&>;
  { weights.adjoint } -> std::convertible_to<const typename K::Operator&>;
  { K::work(n) } -> std::same_as<double>;
  { K::scratch_size(n) } -> std::same_as<Index>;
  { K::gradient_size(n) } -> std::same_as<Index>;
  { K::gradient_scratch_size(n) } -> std::same_as<Index>;
  { K::singles_per_tile(n) } -> std::same_as<Index>;
  { K::singles_of_gradient(n) } -> std::same_as<Index>;
  K::prepare(pair, alpha, true, weights, memory);
  { K::template enter<1>(n, in, out, scratch) } -> std::same_as<const S*>;
  { K::template leave<1>(n, in, out, scratch) } -> std::same_as<const S*>;
  K::template apply<1, false>(n, op, in, out, scratch);
  K::template apply<1, true>(n, op, in, out, scratch);
  K::template gradient<1>(n, in, in, out, scratch);
  K::finish_gradient(n, in, out, out, dot, memory);
};

}  // namespace rotorlin::detail
