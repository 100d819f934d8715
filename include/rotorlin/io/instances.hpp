// SPDX-License-Identifier: MIT
/// \file
/// What rotorlin::compiled holds of files: all that needs JSON.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rotorlin/io/json_strings.hpp"
#include "rotorlin/io/safetensors.hpp"

#define ROTORLIN_INSTANTIATE_IO(KEYWORD)                                                           \
  KEYWORD template SafetensorsHeader read_safetensors_header<void>(std::string_view, std::size_t); \
  KEYWORD template std::string safetensors_header_text<void>(const SafetensorsHeader&);            \
  KEYWORD template std::map<std::string, std::string> parse_json_strings<void>(std::string_view);  \
  KEYWORD template std::string json_strings_text<void>(const std::map<std::string, std::string>&,  \
                                                       std::string_view);

#define ROTORLIN_INSTANTIATE_SAFETENSORS(KEYWORD)                                            \
  KEYWORD template void SafetensorsFile::open<void>();                                       \
  KEYWORD template void SafetensorsWriter::write<void>(const std::filesystem::path&) const;  \
  KEYWORD template std::vector<std::byte> SafetensorsWriter::bytes<void>() const;            \
  KEYWORD template void SafetensorsWriter::check_new<void>(const std::string&, const DType&, \
                                                           const std::vector<Index>&, std::size_t);

#if defined(ROTORLIN_COMPILED)
namespace rotorlin::detail {
ROTORLIN_INSTANTIATE_IO(extern)
}
namespace rotorlin {
ROTORLIN_INSTANTIATE_SAFETENSORS(extern)
}
#endif
