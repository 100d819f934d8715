// SPDX-License-Identifier: MIT
#include "rotorlin/layers/rotor_encoder_linear.hpp"

#include <catch2/catch.hpp>

#include "support/layer_laws.hpp"

using namespace rotorlin;
using Catch::Contains;

TEMPLATE_TEST_CASE("RotorEncoderLinear obeys the laws of layers", "", float, double) {
  using L = RotorEncoderLinear<TestType>;
  test::check_layer_laws(L(16, 6, {.rank = 4}));
  test::check_layer_laws(L(9, 7, {.rank = 3, .width = 2, .seed = 1}));  // features that no decoder reads
  test::check_layer_laws(L(5, 3, {.rank = 1, .bias = false}));
}

TEST_CASE("RotorEncoderLinear is its decoder behind its encoder") {
  const RotorEncoderLinear<double> layer(12, 9, {.rank = 5, .bias = false, .seed = 3});
  CHECK(layer.encoder().out_features() == 8);
  CHECK(layer.num_parameters() == layer.encoder().num_parameters() + 9 * 5);
  CHECK(layer.num_parameters() == RotorEncoderLinear<double>::count_parameters(layer.describe()));
  const Matrix<double> x = test::random_matrix<double>(12, 4, 1);
  const Matrix<double> expected = layer.decoder() * layer.encoder().forward(x).topRows(5);
  CHECK(test::relative_difference(layer.forward(x), expected) < 1e-14);
}

TEST_CASE("RotorEncoderLinear: workspaces move between layers of different shapes") {
  const RotorEncoderLinear<double> a(12, 9, {.rank = 5}), b(12, 9, {.rank = 5, .width = 2}),
      c(6, 9, {.rank = 2}), d(12, 9, {.rank = 5, .seed = 4});
  RotorEncoderLinear<double>::Workspace workspace;
  for (const auto* layer : {&a, &b, &c, &d, &a}) {
    const Matrix<double> x = test::random_matrix<double>(layer->in_features(), 3, 1);
    Matrix<double> y(9, 3);
    layer->forward(x, y, workspace);
    CHECK(y == layer->forward(x));
  }
}

TEST_CASE("solve_linear sets the best decoder for the encoder") {
  for (const bool bias : {false, true}) {
    RotorEncoderLinear<double> layer(12, 4, {.rank = 3, .bias = bias, .seed = 3});
    layer.bias().setConstant(0.5);
    RotorEncoderLinear<double>::Workspace workspace;
    const Matrix<double> x = test::random_matrix<double>(12, 40, 1),
                         y = test::random_matrix<double>(4, 40, 2);
    for (const double scale : {1e-30, 1.0, 1e30}) {
      layer.bias() *= scale;
      layer.solve_linear(scale * x, scale * y, workspace);
      const double best = (layer.forward(scale * x) / scale - y).norm();
      CHECK(best < (y.array() - (bias ? 0.5 : 0.0)).matrix().norm());
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        RotorEncoderLinear<double> near = layer;
        near.decoder() += 1e-3 * test::random_matrix<double>(4, 3, seed);
        CHECK((near.forward(scale * x) / scale - y).norm() > best * (1 - 1e-12));
      }
      layer.bias() /= scale;
    }
    CHECK_THROWS_WITH(layer.solve_linear(x, y.topRows(3), workspace),
                      Contains("3 x 40") && Contains("4 x 40"));
    layer.solve_linear(0 * x, y, workspace);  // nothing to go by: nothing changes
    CHECK(layer.decoder().allFinite());
  }
}

TEST_CASE("RotorEncoderLinear refuses impossible shapes") {
  using L = RotorEncoderLinear<float>;
  CHECK_THROWS_WITH(L(1, 4, {.rank = 1}), Contains("in = 1"));
  CHECK_THROWS_WITH(L(8, 4, {.rank = 5}), Contains("rank = 5"));
  CHECK_THROWS_WITH(L(8, 4, {.rank = 0}), Contains("rank = 0"));
  CHECK_THROWS_WITH(L(8, 4, {.rank = 2, .width = 0}), Contains("width = 0"));
}
