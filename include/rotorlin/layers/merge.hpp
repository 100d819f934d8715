// SPDX-License-Identifier: MIT
/// \file
/// Rotor layers one after another, merged: r2 (r1 x s1~) s2~ = (r2 r1) x (s2 s1)~, and the bivector of the
/// product is its logarithm. Layers of one chunk merge, as do sums of rotors: every rotor of the second layer
/// with every one of the first.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/log.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"

namespace rotorlin {

/// Whether second(first(x)) is one rotor layer: both of one input and one output chunk of the same size.
template <class S>
bool can_merge(const RotorLinear<S>& first, const RotorLinear<S>& second) {
  const auto is_one_chunk = [](const RotorLinear<S>& layer) {
    return layer.options().in_chunks == 1 && layer.options().out_chunks == 1;
  };
  return is_one_chunk(first) && is_one_chunk(second) && first.dimension() == second.dimension();
}

/// The layer second(first(x)), of width first.width * second.width, with a bias where one of them has one.
/// \throws std::invalid_argument where these cannot be merged.
template <class S>
RotorLinear<S> merge(const RotorLinear<S>& first, const RotorLinear<S>& second) {
  if (!can_merge(first, second)) {
    const auto text = [](const RotorLinear<S>& layer) {
      const RotorLinearOptions& o = layer.options();
      return detail::concatenate(layer.out_features(), " x ", layer.in_features(), " with ", o.in_chunks,
                                 " x ", o.out_chunks, " chunks of ", o.chunk);
    };
    detail::throw_invalid("merge: layers of ", text(first), " and then ", text(second),
                          "; expected one chunk of the same size in both");
  }
  using Wide = std::conditional_t<std::is_same_v<S, float>, double, S>;
  const int n = first.dimension();
  const auto product = [&](const auto& later, const auto& earlier) {
    const Bivector<Wide, Dynamic> b(n, later.template cast<Wide>()), a(n, earlier.template cast<Wide>());
    return VectorX<S>(log(exp(b) * exp(a)).coeffs().template cast<S>());
  };
  RotorLinearOptions options = second.options();
  options.width = first.options().width * second.options().width;
  options.single_rotor = first.options().single_rotor && second.options().single_rotor;
  options.bias = first.has_bias() || second.has_bias();
  options.bias_inside_alpha = false;
  if (!options.single_rotor && needs_single_rotor(options.kernel)) options.kernel = Kernel::automatic;
  RotorLinear<S> result(first.in_features(), second.out_features(), options);
  for (Index j = 0, pair = 0; j < second.num_pairs(); ++j) {
    for (Index i = 0; i < first.num_pairs(); ++i, ++pair) {
      result.bivectors_left().col(pair) =
          product(second.bivectors_left().col(j), first.bivectors_left().col(i));
      if (!options.single_rotor) {
        result.bivectors_right().col(pair) =
            product(second.bivectors_right().col(j), first.bivectors_right().col(i));
      }
      result.alpha()[pair] = second.alpha()[j] * first.alpha()[i];
    }
  }
  if (options.bias)  // what zero is mapped to
    result.bias() = second.forward(first.forward(Matrix<S>::Zero(first.in_features(), 1))).col(0);
  return result;
}

/// The same map with fewer parameters: neighbours are merged where one of the two has width 1.
template <class S>
std::vector<RotorLinear<S>> merge_consecutive(const std::vector<RotorLinear<S>>& layers) {
  std::vector<RotorLinear<S>> result;
  for (const RotorLinear<S>& layer : layers) {
    const bool merges = !result.empty() && can_merge(result.back(), layer) &&
                        (layer.options().width == 1 || result.back().options().width == 1);
    if (merges) {
      RotorLinear<S> merged = merge(result.back(), layer);
      result.pop_back();
      result.push_back(std::move(merged));
    } else {
      result.push_back(layer);
    }
  }
  return result;
}

/// A network with nothing between its rotors as rotor layers one after another, each block one layer of its
/// width. \throws std::invalid_argument for a network with activation, normalisation, permutations or
/// residual connections.
template <class S>
std::vector<RotorLinear<S>> rotor_chain(const RotorNetwork<S>& network) {
  const RotorNetworkOptions& o = network.options();
  if (!network.is_linear() || o.use_permutations || o.residual) {
    detail::throw_invalid("rotor_chain: a network with activation ", to_string(o.activation),
                          o.normalize ? ", normalisation" : "", o.use_permutations ? ", permutations" : "",
                          o.residual ? ", residual connections" : "",
                          "; expected none of these between its rotors");
  }
  const auto block = [&](Index first_rotor, Index width, Index first_weight) {
    const RotorLinear<S> shape = network.rotor(first_rotor);
    RotorLinearOptions options = shape.options();
    options.width = width;
    RotorLinear<S> layer(shape.in_features(), shape.out_features(), options);
    for (Index w = 0; w < width; ++w) {
      const RotorLinear<S> branch = network.rotor(first_rotor + w);
      const S weight = first_weight < 0 ? S(1) : network.branch_weights()[first_weight + w];
      for (Index p = 0; p < branch.num_pairs(); ++p) {
        const Index pair = p * width + w;
        layer.bivectors_left().col(pair) = branch.bivectors_left().col(p);
        layer.bivectors_right().col(pair) = branch.bivectors_right().col(p);
        layer.alpha()[pair] = weight * branch.alpha()[p];
      }
    }
    return layer;
  };
  std::vector<RotorLinear<S>> chain = {network.rotor(0)};
  for (Index k = 0; k < o.depth; ++k) chain.push_back(block(network.branch(k, 0), o.width, k * o.width));
  const Index output = network.output_rotor();
  chain.push_back(o.parallel_output ? block(output, o.width, o.depth * o.width) : network.rotor(output));
  return chain;
}

}  // namespace rotorlin
