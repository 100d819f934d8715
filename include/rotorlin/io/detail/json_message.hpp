// SPDX-License-Identifier: MIT
/// \file
/// What nlohmann's exceptions say.
#pragma once

#include <cstddef>
#include <exception>
#include <string>

namespace rotorlin::detail {

/// The message of an exception of nlohmann's without the name of its type.
inline std::string json_message(const std::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.starts_with("[json.exception") ? text.find("] ") : text.npos;
  return end == text.npos ? text : text.substr(end + 2);
}

}  // namespace rotorlin::detail
