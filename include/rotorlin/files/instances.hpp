// SPDX-License-Identifier: MIT
/// \file
/// What rotorlin::compiled holds of the files of layers: the part that is the same for every type of layer.
#pragma once

#include <string>

#include "rotorlin/files/serialization.hpp"

#define ROTORLIN_INSTANTIATE_FILES(KEYWORD, S)                                                             \
  KEYWORD template void write_described<S>(SafetensorsWriter&, const std::string&, const char*,            \
                                           const Description&, const ConstVectorRef<S>&, const Matrix<S>&, \
                                           const Matrix<S>&);                                              \
  KEYWORD template struct StoredLayer<S>;

#if defined(ROTORLIN_COMPILED)
namespace rotorlin::detail {
ROTORLIN_INSTANTIATE_FILES(extern, float)
ROTORLIN_INSTANTIATE_FILES(extern, double)
}  // namespace rotorlin::detail
#endif
