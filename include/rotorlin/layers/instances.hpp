// SPDX-License-Identifier: MIT
/// \file
/// The layers that rotorlin::compiled holds, saves and loads, in float and double.
#pragma once

#include <filesystem>
#include <string>

#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/layers/serialization.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"

/// DO(layer) for every layer that has a description.
#define ROTORLIN_FOR_LAYERS(DO)  \
  DO(RotorLinear<float>)         \
  DO(RotorLinear<double>)        \
  DO(RotorNetwork<float>)        \
  DO(RotorNetwork<double>)       \
  DO(DenseLinear<float>)         \
  DO(DenseLinear<double>)        \
  DO(LowRankLinear<float>)       \
  DO(LowRankLinear<double>)      \
  DO(BlockHadamardLinear<float>) \
  DO(BlockHadamardLinear<double>)

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
