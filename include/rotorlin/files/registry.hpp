// SPDX-License-Identifier: MIT
/// \file
/// The layers that a file may hold, and a load for files of which the type is not known beforehand:
///
///     const AnyLayer<float> layer = load_any<float>("layer.safetensors");
///     std::visit([&](const auto& l) { y = l.forward(x); }, layer);
///     if (const auto* rotors = std::get_if<RotorLinear<float>>(&layer)) ...
///
/// A new layer type is entered in AnyLayer. SharedDictionaryLinear is not among them, since layers share
/// dictionaries within a file: see shared_dictionary_file.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "rotorlin/core/error.hpp"
#include "rotorlin/files/serialization.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/kronecker_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_encoder_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"

namespace rotorlin {

/// Any layer that `save` writes.
template <class S>
using AnyLayer = std::variant<DenseLinear<S>, LowRankLinear<S>, BlockHadamardLinear<S>, KroneckerLinear<S>,
                              RotorLinear<S>, RotorNetwork<S>, RotorEncoderLinear<S>>;

namespace detail {

template <class... Layers>
std::variant<Layers...> read_one_of(std::type_identity<std::variant<Layers...>>, const SafetensorsFile& file,
                                    const std::string& prefix) {
  const std::string type = layer_type(file, prefix);
  std::optional<std::variant<Layers...>> result;
  std::string known;
  const auto try_type = [&]<class L>(std::type_identity<L>) {
    known += (known.empty() ? "" : ", ") + std::string(L::type_name);
    if (type == L::type_name) result.emplace(read_layer<L>(file, prefix));
  };
  (try_type(std::type_identity<Layers>{}), ...);
  if (!result) {
    throw_runtime("read_any_layer: ", file.path(), prefix.empty() ? "" : ", prefix '" + prefix + "'",
                  ": holds a layer of the unknown type '", type, "', expected one of ", known);
  }
  return std::move(*result);
}

}  // namespace detail

/// The layer under a prefix, whatever its type. Throws as read_layer, and std::runtime_error for an unknown
/// type.
template <class S>
AnyLayer<S> read_any_layer(const SafetensorsFile& file, const std::string& prefix = "") {
  return detail::read_one_of(std::type_identity<AnyLayer<S>>{}, file, prefix);
}

/// The layer of a file, whatever its type.
template <class S>
AnyLayer<S> load_any(const std::filesystem::path& path) {
  return read_any_layer<S>(SafetensorsFile(path));
}

}  // namespace rotorlin
