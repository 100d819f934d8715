// SPDX-License-Identifier: MIT
// rotorlin's GeoPairCompressor, which takes minutes to compile, in a file of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/compression.hpp"

namespace examples {

/// As rotorlin::GeoPairCompressor, with numbers for Gram matrices.
class Compressor {
 public:
  using Load = std::function<rotorlin::Matrix<double>()>;

  Compressor();
  ~Compressor();
  std::size_t add_gram(rotorlin::Index features, Load load);
  void add_layer(const std::string& name, rotorlin::Index out, rotorlin::Index in, Load load,
                 std::size_t gram, rotorlin::LayerOptions options);
  std::vector<rotorlin::PlannedGroup> plan(const rotorlin::CompressorOptions& options) const;
  double cost(const rotorlin::PlannedGroup& group) const;
  rotorlin::CompressedGroup compress_group(const rotorlin::PlannedGroup& group,
                                           const rotorlin::CompressorOptions& options,
                                           const std::function<void(double)>& progress) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace examples
