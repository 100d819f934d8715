// SPDX-License-Identifier: MIT
#include "compressor.hpp"

#include <utility>

#include "rotorlin/geopair/compressor.hpp"

namespace examples {

struct Compressor::Implementation {
  rotorlin::GeoPairCompressor compressor;
  std::vector<rotorlin::GeoPairCompressor::GramHandle> grams;
};

Compressor::Compressor() : implementation_(std::make_unique<Implementation>()) {}
Compressor::~Compressor() = default;

std::size_t Compressor::add_gram(rotorlin::Index features, Load load) {
  implementation_->grams.push_back(implementation_->compressor.add_gram(features, std::move(load)));
  return implementation_->grams.size() - 1;
}

void Compressor::add_layer(const std::string& name, rotorlin::Index out, rotorlin::Index in, Load load,
                           std::size_t gram, rotorlin::LayerOptions options) {
  implementation_->compressor.add_layer(name, out, in, std::move(load), implementation_->grams.at(gram),
                                        std::move(options));
}

std::vector<rotorlin::PlannedGroup> Compressor::plan(const rotorlin::CompressorOptions& options) const {
  return implementation_->compressor.plan(options);
}

double Compressor::cost(const rotorlin::PlannedGroup& group) const {
  return implementation_->compressor.cost(group);
}

rotorlin::CompressedGroup Compressor::compress_group(const rotorlin::PlannedGroup& group,
                                                     const rotorlin::CompressorOptions& options,
                                                     const std::function<void(double)>& progress) const {
  return implementation_->compressor.compress_group(group, options, progress);
}

}  // namespace examples
