// SPDX-License-Identifier: MIT
/// \file
/// The layers that a file may hold, and a load for files of which the type is not known beforehand:
///
///     const AnyLayer<float> layer = load_any<float>("layer.safetensors");
///     std::visit([&](const auto& l) { y = l.forward(x); }, layer);
///     if (const auto* rotors = std::get_if<RotorLinear<float>>(&layer)) ...
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
#include "rotorlin/layers/any_layer.hpp"

namespace rotorlin {

/// The layer under a prefix, whatever its type. Throws as read_layer, and std::runtime_error for an unknown
/// type.
template <class S>
AnyLayer<S> read_any_layer(const SafetensorsFile& file, const std::string& prefix = "") {
  const std::string type = layer_type(file, prefix);
  std::optional<AnyLayer<S>> result;
  detail::visit_layer_type<S>(
      type, [&]<class L>(std::type_identity<L>) { result.emplace(read_layer<L>(file, prefix)); },
      [&](const std::string& known) {
        detail::throw_runtime("read_any_layer: ", file.path(),
                              prefix.empty() ? "" : ", prefix '" + prefix + "'",
                              ": holds a layer of the unknown type '", type, "', expected one of ", known);
      });
  return std::move(*result);
}

/// The layer of a file, whatever its type.
template <class S>
AnyLayer<S> load_any(const std::filesystem::path& path) {
  return read_any_layer<S>(SafetensorsFile(path));
}

}  // namespace rotorlin
