// SPDX-License-Identifier: MIT
/// \file
/// JSON objects of strings, which is what descriptions in files are.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace rotorlin::detail {

/// Of JSON text; std::runtime_error where it is something else, or has a key twice.
template <class = void>
std::map<std::string, std::string> parse_json_strings(std::string_view text);

/// As JSON text; std::invalid_argument, beginning with `who`, where a string is not UTF-8.
template <class = void>
std::string json_strings_text(const std::map<std::string, std::string>& strings, std::string_view who);

}  // namespace rotorlin::detail

#if defined(ROTORLIN_COMPILED)
#include "rotorlin/io/instances.hpp"
#else
#include "rotorlin/io/detail/json_strings_text.hpp"
#endif
