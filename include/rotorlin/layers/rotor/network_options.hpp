// SPDX-License-Identifier: MIT
/// \file
/// What a RotorNetwork looks like, what follows from that before one is made, and how a file says it.
#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/activation.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/options.hpp"
#include "rotorlin/layers/rotor/options.hpp"

namespace rotorlin {

/// What a RotorNetwork looks like; the defaults are the paper's network for a query projection.
struct RotorNetworkOptions {
  Index hidden = 0;           ///< features of h; default: the largest power of two <= in, at most 2^14
  Index depth = 2;            ///< hidden blocks
  Index width = 3;            ///< parallel branches of each
  bool single_rotor = false;  ///< r x r~ instead of r x s~
  bool use_permutations = true;
  bool normalize = true;
  double epsilon = 1e-5;  ///< of the normalisation
  Activation activation = Activation::prelu;
  bool residual = false;         ///< h_0 += x and y += h_depth, where the shapes match
  bool parallel_output = false;  ///< y = sum_b v_b rotor_b(h_depth) with `width` rotors, instead of one
  Kernel kernel = Kernel::automatic;
  std::uint64_t seed = 0;  ///< of bivectors (normal with variance 1) and permutations

  static constexpr auto fields() {
    using O = RotorNetworkOptions;
    return std::tuple(option_field("hidden", &O::hidden), option_field("depth", &O::depth),
                      option_field("width", &O::width), option_field("single_rotor", &O::single_rotor),
                      option_field("use_permutations", &O::use_permutations),
                      option_field("normalize", &O::normalize), option_field("epsilon", &O::epsilon),
                      option_field("activation", &O::activation), option_field("residual", &O::residual),
                      option_field("parallel_output", &O::parallel_output));
  }
};

namespace detail {

/// The same with everything chosen. \throws std::invalid_argument for what cannot be.
inline RotorNetworkOptions complete(Index in, Index out, RotorNetworkOptions options) {
  if (in < 2 || out < 2)
    throw_invalid("RotorNetwork: in = ", in, ", out = ", out, "; both must be at least 2");
  constexpr Index largest = Index{1} << max_dimension;
  if (options.hidden == 0)
    options.hidden = static_cast<Index>(std::bit_floor(static_cast<std::size_t>(std::min(in, largest))));
  constexpr Index most_features = Index{1} << 20;
  constexpr Index most_branches = Index{1} << 16;
  if (options.hidden < 2 || options.hidden > most_features || options.depth < 0 || options.width < 1 ||
      options.width > most_branches || options.depth > most_branches / options.width) {
    throw_invalid("RotorNetwork: hidden = ", options.hidden, ", depth = ", options.depth,
                  ", width = ", options.width, "; expected hidden from 2 to ", most_features,
                  ", depth >= 0, width >= 1, and at most ", most_branches, " branches");
  }
  if (!is_activation(options.activation)) {
    throw_invalid("RotorNetwork: activation = ", static_cast<int>(options.activation),
                  "; expected one of the enumeration Activation");
  }
  if (!(options.epsilon > 0 && is_finite(options.epsilon)))
    throw_invalid("RotorNetwork: epsilon = ", options.epsilon, "; expected a number > 0");
  return options;
}

/// Of every rotor layer in the network.
inline RotorLinearOptions rotor_options(const RotorNetworkOptions& options) {
  RotorLinearOptions rotor;
  rotor.single_rotor = options.single_rotor;
  rotor.bias = false;
  rotor.kernel = options.kernel;
  return rotor;
}

/// Rotor layers before those that make y, and those.
inline Index num_inner_rotors(const RotorNetworkOptions& options) {
  return 1 + options.depth * options.width;
}
inline Index num_output_rotors(const RotorNetworkOptions& options) {
  return options.parallel_output ? options.width : 1;
}
inline Index num_branch_weights(const RotorNetworkOptions& options) {
  return (options.depth + (options.parallel_output ? 1 : 0)) * options.width;
}

/// Parameters of a network, for options that `complete` made.
inline Index count_parameters(Index in, Index out, const RotorNetworkOptions& options) {
  const Index hidden = options.hidden;
  const auto size = [&](Index from, Index to, Index count) {
    return checked_product(count, count_rotor_parameters(complete(from, to, rotor_options(options))));
  };
  Index sum = size(in, hidden, 1);
  sum = checked_sum(sum, size(hidden, hidden, options.depth * options.width));
  sum = checked_sum(sum, size(hidden, out, num_output_rotors(options)));
  return checked_sum(sum, num_branch_weights(options) + (options.activation == Activation::prelu ? 1 : 0));
}

/// Feature j of the result is feature p[j] of the argument.
using Permutation = std::vector<std::int32_t>;

/// \throws std::invalid_argument unless permutation `number` holds 0 .. hidden - 1, each once.
inline void check_permutation(const Permutation& permutation, Index hidden, Index number) {
  if (static_cast<Index>(permutation.size()) != hidden) {
    throw_invalid("RotorNetwork: permutation ", number, " has ", permutation.size(), " entries, expected ",
                  hidden, ", the hidden features");
  }
  std::vector<bool> seen(permutation.size());
  for (const std::int32_t from : permutation) {
    const bool outside = from < 0 || from >= hidden;
    if (outside || seen[static_cast<std::size_t>(from)]) {
      throw_invalid("RotorNetwork: permutation ", number, " has the entry ", from, outside ? "" : " twice",
                    "; expected 0 to ", hidden - 1, ", each once");
    }
    seen[static_cast<std::size_t>(from)] = true;
  }
}

// ---- descriptions

inline const std::string& option_at(const Description& description, const std::string& key) {
  const auto found = description.find(key);
  if (found == description.end()) throw_invalid("layer description: option '", key, "' is missing");
  return found->second;
}
inline std::string permutation_key(Index number) { return "permutation." + std::to_string(number); }

inline Description describe(Index in, Index out, const RotorNetworkOptions& options,
                            const std::vector<Permutation>& permutations) {
  Description result = describe_options(in, out, options);
  for (std::size_t i = 0; i < permutations.size(); ++i) {
    std::string& text = result[permutation_key(static_cast<Index>(i))];
    for (const std::int32_t from : permutations[i]) text += (text.empty() ? "" : " ") + std::to_string(from);
  }
  return result;
}

/// The options of a description, completed. \throws std::invalid_argument where one is missing or cannot be.
inline RotorNetworkOptions network_options_of(const Description& description) {
  return complete(option<Index>(description, "in"), option<Index>(description, "out"),
                  parse_options<RotorNetworkOptions>(description));
}

inline Permutation permutation_of(const Description& description, Index number) {
  const std::string& text = option_at(description, permutation_key(number));
  Permutation permutation;
  const char* next = text.data();
  const char* end = next + text.size();
  while (next != end) {
    if (!permutation.empty() && *next++ != ' ') break;
    std::int32_t from = 0;
    const auto [rest, error] = std::from_chars(next, end, from);
    if (error != std::errc()) break;
    permutation.push_back(from);
    next = rest;
  }
  if (next != end) throw_invalid("layer description: a permutation is not a list of integers");
  return permutation;
}

}  // namespace detail

}  // namespace rotorlin
