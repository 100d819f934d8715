// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <string>

#include "rotorlin/geopair/compressor.hpp"
#include "scale.hpp"

using namespace properties;

TEST_CASE(
    "A compression at any scale of weights and activations ends where it ends at scale 1, or is refused") {
  const auto errors = [](double weight_scale, double activation_scale, CompressionMethod method) {
    GeoPairCompressor compressor;
    const Matrix<double> a = activation_scale * random<double>(12, 60, 1);
    const auto gram = compressor.add_gram(a * a.transpose() / 60);
    for (int i = 0; i < 2; ++i)
      compressor.add_layer("layers." + std::to_string(i),
                           weight_scale * random<double>(12, 12, 2 + static_cast<std::uint64_t>(i)), gram);
    CompressorOptions options;
    options.ratio = 0.3;
    options.method = method;
    options.iterations = 5;
    const auto result = compressor.compress(options);
    VectorX<double> relative(2);
    for (Index i = 0; i < 2; ++i)
      relative[i] = result.layer_reports[static_cast<std::size_t>(i)].relative_error;
    return relative;
  };
  for (const CompressionMethod method :
       {CompressionMethod::svd_llm, CompressionMethod::geopair_dense, CompressionMethod::geopair_sparse}) {
    const VectorX<double> expected = errors(1, 1, method);
    REQUIRE(expected.maxCoeff() < 1);
    for (const double scale : scales) {
      for (const bool weights : {true, false}) {
        CAPTURE(scale, weights, static_cast<int>(method));
        try {
          const VectorX<double> found = weights ? errors(scale, 1, method) : errors(1, scale, method);
          CHECK((found - expected).cwiseAbs().maxCoeff() < 0.02);
        } catch (const std::exception& refusal) {
          WARN("compression at " << scale << ": " << refusal.what());
          CHECK(std::abs(std::log10(scale)) > 18);
        }
      }
    }
  }
}
