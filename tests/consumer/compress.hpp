// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <rotorlin/rotorlin.hpp>

/// A compression of two layers, instantiated in every file that includes this: number of its groups.
inline std::size_t compress_two_layers() {
  rotorlin::Matrix<float> weight(8, 8), x(8, 40);
  rotorlin::Random random(1);
  random.fill_uniform(weight, -1, 1);
  random.fill_uniform(x, -1, 1);
  rotorlin::GramAccumulator seen(8);
  seen.add(x);
  rotorlin::GeoPairCompressor compressor;
  const auto gram = compressor.add_gram(seen.gram());
  compressor.add_layer("layers.0.q", weight, gram);
  compressor.add_layer("layers.1.q", 2 * weight, gram);
  return compressor
      .compress({.ratio = 0.2, .method = rotorlin::CompressionMethod::geopair_dense, .iterations = 2})
      .groups.size();
}
