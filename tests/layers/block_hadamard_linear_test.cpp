// SPDX-License-Identifier: MIT
#include "rotorlin/layers/block_hadamard_linear.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "support/layer_laws.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;

namespace {

/// B H as its documentation defines it.
Matrix<double> by_definition(const BlockHadamardLinear<double>& layer) {
  const Index size = layer.hidden_features(), width = layer.block_width();
  Matrix<double> dense = Matrix<double>::Zero(layer.out_features(), layer.in_features());
  for (Index k = 0; k < layer.blocks(); ++k) {
    for (Index o = k * layer.out_features() / layer.blocks();
         o < (k + 1) * layer.out_features() / layer.blocks(); ++o) {
      for (Index i = 0; i < width; ++i) {
        for (Index j = 0; j < layer.in_features(); ++j) {
          const Index row = k * width + i;
          const double sign = std::popcount(static_cast<std::size_t>(row & j)) % 2 == 0 ? 1 : -1;
          const double entry =
              layer.hadamard() ? sign / std::sqrt(static_cast<double>(size)) : (row == j ? 1 : 0);
          dense(o, j) += layer.weights()(i, o) * entry;
        }
      }
    }
  }
  return dense;
}

}  // namespace

TEST_CASE("A block-Hadamard layer obeys the laws of layers and is what its documentation defines") {
  for (const bool hadamard : {true, false}) {
    for (const auto& [in, out, blocks] : std::vector<std::array<Index, 3>>{
             {8, 8, 4}, {5, 7, 2}, {16, 6, 4}, {1, 3, 1}, {3, 9, 4}, {32, 32, 32}, {17, 1, 1}}) {
      CAPTURE(in, out, blocks, hadamard);
      BlockHadamardLinear<double> layer(in, out, {.blocks = blocks, .hadamard = hadamard, .seed = 1});
      layer.bias() = test::random_matrix<double>(out, 1, 2);
      CHECK(test::relative_difference(layer.to_dense(), by_definition(layer)) < 1e-14);
      test::check_layer_laws(layer);
    }
  }
  test::check_layer_laws(BlockHadamardLinear<float>(12, 20, {.blocks = 8, .bias = false, .seed = 1}));
}

TEST_CASE("Blocks as BH1") {
  CHECK(BlockHadamardLinear<float>(2048, 2048, {.blocks = 128, .bias = false}).num_parameters() == 32768);
  CHECK(BlockHadamardLinear<float>(256, 256, {.blocks = 64, .bias = false}).num_parameters() == 1024);
  CHECK(BlockHadamardLinear<float>(2048, 512, {.blocks = 128, .bias = false}).num_parameters() == 512 * 16);
}

TEST_CASE("Impossible block-Hadamard layers are refused") {
  CHECK_THROWS_WITH(BlockHadamardLinear<float>(8, 8, 3), Contains("blocks = 3") && Contains("power of two"));
  CHECK_THROWS_WITH(BlockHadamardLinear<float>(8, 8, 0), Contains("blocks = 0"));
  CHECK_THROWS_WITH(BlockHadamardLinear<float>(8, 8, -4), Contains("blocks = -4"));
  CHECK_THROWS_WITH(BlockHadamardLinear<float>(8, 8, 16), Contains("blocks = 16"));
  CHECK_THROWS_WITH(BlockHadamardLinear<float>(8, 3, 4), Contains("out = 3"));
  CHECK_THROWS_AS(BlockHadamardLinear<float>(0, 3, 1), std::invalid_argument);
  CHECK_THROWS_AS(BlockHadamardLinear<float>(std::numeric_limits<Index>::max(), 3, 1), std::invalid_argument);
}
