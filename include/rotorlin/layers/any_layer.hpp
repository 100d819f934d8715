// SPDX-License-Identifier: MIT
/// \file
/// The layers of which the type is known at run time only: in files, and within a Sequential. A new layer
/// type is entered in AnyLayer. SharedDictionaryLinear is not among them, since layers share dictionaries
/// within a file: see files/shared_dictionary_file.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/activation_layer.hpp"
#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/kronecker_linear.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_encoder_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/layers/sequential.hpp"

namespace rotorlin {

/// Any layer that `save` writes.
template <class S>
using AnyLayer =
    std::variant<DenseLinear<S>, LowRankLinear<S>, BlockHadamardLinear<S>, KroneckerLinear<S>, RotorLinear<S>,
                 RotorNetwork<S>, RotorEncoderLinear<S>, ActivationLayer<S>, Sequential<S>>;

namespace detail {

/// visit(type_identity of the layer) for the type of this name in AnyLayer<S>; otherwise
/// unknown(the names that there are, with commas).
template <class S, class Visit, class Unknown>
void visit_layer_type(const std::string& name, const Visit& visit, const Unknown& unknown) {
  const auto among = [&]<class... L>(std::type_identity<std::variant<L...>>) {
    std::string names;
    const bool found = (... || (name == L::type_name ? (visit(std::type_identity<L>{}), true)
                                                     : (names += std::string(L::type_name) + ", ", false)));
    if (!found) unknown(names.substr(0, names.size() - 2));
  };
  among(std::type_identity<AnyLayer<S>>{});
}

/// How deep a Sequential in a file may hold others.
inline constexpr int deepest_sequential = 32;

/// visit(k, type_identity of the layer, its description, the features that it makes) for the layers of a
/// Sequential, and checks that they fit each other.
template <class S, class Visit>
void for_each_described_layer(const Description& description, const Visit& visit) {
  const auto in = option<Index>(description, "in"), out = option<Index>(description, "out");
  const auto count = option<std::size_t>(description, "layers");
  if (in < 1 || count < 1)
    throw_invalid("Sequential: in = ", in, " with ", count, " layers, expected at least 1 of each");
  Index features = in;
  for (std::size_t k = 0; k < count; ++k) {
    const std::string prefix = std::to_string(k) + ".";
    Description part;
    for (auto entry = description.lower_bound(prefix);
         entry != description.end() && entry->first.starts_with(prefix); ++entry)
      part.emplace(entry->first.substr(prefix.size()), entry->second);
    const auto type = part.find("layer");
    if (type == part.end()) throw_invalid("Sequential: layer ", k, " of ", count, " is not described");
    const std::string name = type->second;
    part.erase(type);
    const auto part_in = option<Index>(part, "in"), part_out = option<Index>(part, "out");
    if (part_in < 1 || part_out < 1 || features % part_in != 0) {
      throw_invalid("Sequential: layer ", k, " is a ", name, " ", part_in, " -> ", part_out, " after ",
                    features, " features, expected in to be these features or a divisor");
    }
    features = checked_product(features / part_in, part_out);
    visit_layer_type<S>(
        name, [&](auto layer) { visit(k, layer, part, features); },
        [&](const std::string& known) {
          throw_invalid("Sequential: layer ", k, " is of the unknown type '", name, "', expected one of ",
                        known);
        });
  }
  if (features != out)
    throw_invalid("Sequential: its layers map ", in, " features to ", features, ", the description says ",
                  out);
}

/// How many Sequentials are within each other.
inline int depth_of(const Description& description) {
  int depth = 0;
  for (const auto& [key, value] : description) {
    int levels = 1;
    for (char c : key) levels += c == '.';
    depth = std::max(depth, levels);
  }
  return depth;
}

}  // namespace detail

template <class S>
Index Sequential<S>::count_parameters(const Description& description) {
  if (const int depth = detail::depth_of(description); depth > detail::deepest_sequential) {
    detail::throw_invalid(type_name, ": ", depth, " levels within each other, expected at most ",
                          detail::deepest_sequential);
  }
  Index sum = 0, values = 0;
  detail::for_each_described_layer<S>(
      description, [&]<class L>(std::size_t, std::type_identity<L>, const Description& part, Index features) {
        values = detail::checked_sum(values, features);
        sum = detail::checked_sum(sum, L::count_parameters(part));
      });
  // What a small file asks for must be small: layers can make many features of few parameters.
  const auto in = detail::option<Index>(description, "in"), out = detail::option<Index>(description, "out");
  const Index numbers = detail::checked_sum(sum, detail::checked_sum(in, out));
  if (values / 64 > detail::checked_sum(numbers, Index{1} << 14)) {
    detail::throw_invalid(type_name, ": the layers make ", values, " values a sample of ", sum,
                          " parameters, ", in, " inputs and ", out,
                          " outputs, expected at most 64 for each of these");
  }
  return sum;
}

/// \throws std::invalid_argument where a layer is missing, of an unknown type, or doesn't fit the one before.
template <class S>
Sequential<S> Sequential<S>::from_description(const Description& description) {
  count_parameters(description);
  Sequential result(detail::option<Index>(description, "in"));
  detail::for_each_described_layer<S>(
      description, [&]<class L>(std::size_t, std::type_identity<L>, const Description& part, Index) {
        result.add(L::from_description(part));
      });
  if (detail::option<bool>(description, "adds_input")) result.add_input();
  return result;
}

ROTORLIN_COMPILED_LAYER(Sequential)

}  // namespace rotorlin
