// SPDX-License-Identifier: MIT
/// \file
/// What the library rotorlin::compiled holds of geopair.
#pragma once

#include <functional>
#include <vector>

#include "rotorlin/geopair/compressor.hpp"

#define ROTORLIN_INSTANTIATE_GEOPAIR(KEYWORD)                                                               \
  KEYWORD template std::vector<PlannedGroup> GeoPairCompressor::plan<void>(const CompressorOptions&) const; \
  KEYWORD template CompressedGroup GeoPairCompressor::compress_group<void>(                                 \
      const PlannedGroup&, const CompressorOptions&, const std::function<void(double)>&) const;             \
  KEYWORD template CompressionResult GeoPairCompressor::compress<void>(const CompressorOptions&) const;

#if defined(ROTORLIN_COMPILED)
namespace rotorlin {
ROTORLIN_INSTANTIATE_GEOPAIR(extern)
}
#endif
