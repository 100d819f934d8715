// SPDX-License-Identifier: MIT
/// \file
/// Definitions of json_strings.hpp.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/io/json.hpp"
#include "rotorlin/io/json_strings.hpp"

namespace rotorlin::detail {

template <class>
std::map<std::string, std::string> parse_json_strings(std::string_view text) {
  std::map<std::string, std::string> strings;
  nlohmann::json object = parse_strict_json(text);
  if (!object.is_object()) throw_runtime("expected a JSON object, found ", object.type_name());
  for (auto entry = object.begin(); entry != object.end(); ++entry) {
    if (!entry->is_string()) throw_runtime("'", entry.key(), "' is not a string");
    strings.emplace(entry.key(), std::move(entry->get_ref<std::string&>()));
  }
  return strings;
}

template <class>
std::string json_strings_text(const std::map<std::string, std::string>& strings, std::string_view who) {
  return json_text(strings, who);
}

}  // namespace rotorlin::detail
