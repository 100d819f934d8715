// SPDX-License-Identifier: MIT
/// \file
/// What rotorlin::compiled holds of files: all that needs JSON.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "rotorlin/io/json_strings.hpp"
#include "rotorlin/io/safetensors.hpp"

#define ROTORLIN_INSTANTIATE_IO(KEYWORD)                                                           \
  KEYWORD template SafetensorsHeader read_safetensors_header<void>(std::string_view, std::size_t); \
  KEYWORD template std::string safetensors_header_text<void>(const SafetensorsHeader&);            \
  KEYWORD template std::map<std::string, std::string> parse_json_strings<void>(std::string_view);  \
  KEYWORD template std::string json_strings_text<void>(const std::map<std::string, std::string>&,  \
                                                       std::string_view);

#if defined(ROTORLIN_COMPILED)
namespace rotorlin::detail {
ROTORLIN_INSTANTIATE_IO(extern)
}
#endif
