// SPDX-License-Identifier: MIT
// The compressor on several threads: the thread sanitizer looks at it, and the result is that of one thread.
#include <catch2/catch.hpp>
#include <string>

#include "rotorlin/core/random.hpp"
#include "rotorlin/geopair/compressor.hpp"

using namespace rotorlin;

namespace {

CompressionResult compress_with(int threads, CompressionMethod method) {
  Matrix<double> activations(12, 80);
  Random(1).fill_uniform(activations, -1, 1);
  GeoPairCompressor compressor;
  for (int block = 0; block < 6; ++block) {
    activations.row(block) *= 2;
    const auto gram = compressor.add_gram(activations * activations.transpose());
    for (const char* name : {"q", "k"}) {
      Matrix<double> weight(10, 12);
      Random(static_cast<std::uint64_t>(block) + 10).fill_uniform(weight, -1, 1);
      compressor.add_layer("layers." + std::to_string(block) + "." + name, weight, gram);
    }
  }
  CompressorOptions options;
  options.ratio = 0.3;
  options.method = method;
  options.iterations = 4;
  options.threads = threads;
  return compressor.compress(options);
}

}  // namespace

TEST_CASE("Groups compressed on several threads are those of one thread") {
  for (const CompressionMethod method :
       {CompressionMethod::geopair_sparse, CompressionMethod::geopair_dense}) {
    const CompressionResult one = compress_with(1, method), four = compress_with(4, method);
    for (const char* name : {"layers.0.q", "layers.3.k", "layers.5.q"})
      CHECK(one.layer(name).to_dense() == four.layer(name).to_dense());
  }
}
