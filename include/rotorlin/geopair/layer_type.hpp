// SPDX-License-Identifier: MIT
/// \file
/// The place of a layer in its block, by its name.
#pragma once

#include <cctype>
#include <cstddef>
#include <string>

namespace rotorlin::detail {

/// The name without the number of the layer: "layers.3.w1" -> "layers.#.w1". Numbers are whole components;
/// where there are none, the first digits of the name: "layer3.w1" -> "layer#.w1".
inline std::string type_of(const std::string& name) {
  const auto end_of_digits = [&](std::size_t at) {
    while (at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0) ++at;
    return at;
  };
  std::string type;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = end_of_digits(at);
    const bool begins = at == 0 || name[at - 1] == '.', ends = end == name.size() || name[end] == '.';
    if (end > at && begins && ends) {
      type += '#';
      at = end;
    } else {
      type += name[at++];
    }
  }
  const std::size_t first = name.find_first_of("0123456789");
  if (type == name && first != std::string::npos) type.replace(first, end_of_digits(first) - first, "#");
  return type;
}

}  // namespace rotorlin::detail
