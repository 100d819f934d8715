// SPDX-License-Identifier: MIT
/// \file
/// Definitions of json_strings.hpp.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "rotorlin/io/json.hpp"
#include "rotorlin/io/json_strings.hpp"

namespace rotorlin::detail {

template <class>
std::map<std::string, std::string> parse_json_strings(std::string_view text) {
  return parse_strict_json(text);
}

template <class>
std::string json_strings_text(const std::map<std::string, std::string>& strings, std::string_view who) {
  return json_text(strings, who);
}

}  // namespace rotorlin::detail
