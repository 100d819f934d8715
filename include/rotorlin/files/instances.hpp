// SPDX-License-Identifier: MIT
/// \file
/// The files of layers that rotorlin::compiled holds.
#pragma once

#include <filesystem>
#include <string>

#include "rotorlin/files/serialization.hpp"
#include "rotorlin/layers/instances.hpp"

#define ROTORLIN_INSTANTIATE_FILES(KEYWORD, L)                                            \
  KEYWORD template void write_layer<L>(SafetensorsWriter&, const std::string&, const L&); \
  KEYWORD template L read_layer<L>(const SafetensorsFile&, const std::string&);           \
  KEYWORD template void save<L>(const L&, const std::filesystem::path&);                  \
  KEYWORD template L load<L>(const std::filesystem::path&);

#if defined(ROTORLIN_COMPILED)
namespace rotorlin {
#define ROTORLIN_EXTERN_FILES(L) ROTORLIN_INSTANTIATE_FILES(extern, L)
ROTORLIN_FOR_LAYERS(ROTORLIN_EXTERN_FILES)
#undef ROTORLIN_EXTERN_FILES
}  // namespace rotorlin
#endif
