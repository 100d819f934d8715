// SPDX-License-Identifier: MIT
#include "rotorlin/layers/dense_linear.hpp"

#include <catch2/catch.hpp>

#include "support/layer_laws.hpp"

using namespace rotorlin;
using Catch::Contains;

namespace {

template <class S>
DenseLinear<S> random_layer(Index in, Index out, bool bias) {
  DenseLinear<S> layer(in, out, {.bias = bias});
  Random(5).fill_uniform(layer.parameters(), -1, 1);
  return layer;
}

}  // namespace

TEST_CASE("DenseLinear obeys the laws of layers") {
  test::check_layer_laws(random_layer<double>(5, 3, true));
  test::check_layer_laws(random_layer<double>(3, 4, false));
  test::check_layer_laws(random_layer<double>(1, 1, true));
  test::check_layer_laws(random_layer<float>(4, 5, true));
}

TEST_CASE("DenseLinear is W x + b") {
  const Eigen::Matrix<double, 2, 3> w{{1, 2, 3}, {4, 5, 6}};
  const Eigen::Vector2d b(10, 20);
  const auto layer = DenseLinear<double>::from_matrix(w, b);
  CHECK(layer.to_dense() == w);
  CHECK(layer.forward(Eigen::Vector3d(1, 0, -1)) == Eigen::Vector2d(8, 18));
  CHECK(layer.parameters().head(2) == Eigen::Vector2d(1, 4));
  CHECK(layer.bias_offset() == 6);

  const auto linear = DenseLinear<double>::from_matrix(w);
  CHECK(linear.forward(Eigen::Vector3d(1, 0, -1)) == Eigen::Vector2d(-2, -2));
  CHECK_FALSE(linear.has_bias());
  CHECK(linear.num_parameters() == 6);
}

TEST_CASE("DenseLinear starts seeded, within the bound, with zero bias") {
  const DenseLinear<double> layer(24, 50, {.seed = 3});
  CHECK(layer.bias().isZero(0));
  CHECK(layer.weight().cwiseAbs().maxCoeff() <= 0.5);
  CHECK(layer.weight().cwiseAbs().maxCoeff() > 0.49);
  CHECK(layer.weight().squaredNorm() / 1200 == Approx(2.0 / 24).epsilon(0.05));
  CHECK(layer.parameters() == DenseLinear<double>(24, 50, {.seed = 3}).parameters());
  CHECK(layer.parameters() != DenseLinear<double>(24, 50, {.seed = 4}).parameters());
}

TEST_CASE("DenseLinear refuses impossible sizes") {
  CHECK_THROWS_WITH((DenseLinear<double>(0, 3)), Contains("in = 0"));
  CHECK_THROWS_WITH((DenseLinear<double>(3, -1)), Contains("out = -1"));
  CHECK_THROWS_WITH((DenseLinear<double>(Index{1} << 40, Index{1} << 40)), Contains("too many"));
  CHECK_THROWS_WITH(DenseLinear<double>::from_matrix(Matrix<double>(2, 3), VectorX<double>(3)),
                    Contains("3 x 1") && Contains("2 x 1"));
  CHECK_THROWS_AS(DenseLinear<double>::from_matrix(Matrix<double>(2, 0)), std::invalid_argument);
}

TEST_CASE("a NaN in the input reaches its own sample only") {
  const auto layer = random_layer<double>(2, 2, true);
  Matrix<double> x = Matrix<double>::Ones(2, 2);
  x(0, 1) = std::nan("");
  const Matrix<double> y = layer.forward(x);
  CHECK(y.col(0).allFinite());
  CHECK(y.col(1).array().isNaN().all());
}
