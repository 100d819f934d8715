// SPDX-License-Identifier: MIT
#include "rotorlin/layers/kronecker_linear.hpp"

#include <catch2/catch.hpp>

#include "support/layer_laws.hpp"

using namespace rotorlin;
using Catch::Contains;

namespace kronecker_linear_test {
namespace {

/// sum_t A_t (x) B_t by its definition, cut to out x in.
Matrix<double> dense(const KroneckerLinear<double>& layer) {
  const Index a = layer.options().left_rows, c = layer.options().left_cols, rows = layer.right_rows(),
              cols = layer.right_cols();
  Matrix<double> sum = Matrix<double>::Zero(a * rows, c * cols);
  for (Index t = 0; t < layer.terms(); ++t) {
    for (Index j = 0; j < c; ++j) {
      for (Index i = 0; i < a; ++i)
        sum.block(i * rows, j * cols, rows, cols) += layer.left(t)(i, j) * layer.right(t);
    }
  }
  return sum.topLeftCorner(layer.out_features(), layer.in_features());
}

}  // namespace

TEMPLATE_TEST_CASE("KroneckerLinear obeys the laws of layers", "", float, double) {
  using L = KroneckerLinear<TestType>;
  test::check_layer_laws(L(16, 16));
  test::check_layer_laws(L(12, 20, {.terms = 3, .seed = 1}));
  test::check_layer_laws(L(7, 11, {.terms = 2, .bias = false}));  // padded
  test::check_layer_laws(L(1, 1));
  test::check_layer_laws(L(6, 4, {.terms = 2, .left_rows = 4, .left_cols = 1}));
  test::check_layer_laws(L(5, 9, {.left_rows = 1, .left_cols = 5}));
}

TEST_CASE("KroneckerLinear is the sum of its Kronecker products") {
  for (const auto& [in, out] : {std::pair<Index, Index>{16, 36}, {12, 20}, {7, 11}, {1, 5}}) {
    const KroneckerLinear<double> layer(in, out, {.terms = 2, .bias = false});
    CHECK((layer.to_dense() - dense(layer)).norm() < 1e-13 * dense(layer).norm());
    CHECK(layer.num_parameters() == KroneckerLinear<double>::count_parameters(layer.describe()));
  }
  const KroneckerLinear<float> square(1024, 1024, {.terms = 3, .bias = false});
  CHECK(square.options().left_rows == 32);
  CHECK(square.right_cols() == 32);
  CHECK(square.num_parameters() == 3 * 2048);
}

TEST_CASE("KroneckerLinear is as random as DenseLinear, and the same with the same seed") {
  const KroneckerLinear<double> layer(64, 64, {.terms = 4}), again(64, 64, {.terms = 4});
  CHECK(layer.parameters() == again.parameters());
  CHECK(layer.parameters() != KroneckerLinear<double>(64, 64, {.terms = 4, .seed = 1}).parameters());
  const Matrix<double> x = test::random_matrix<double>(64, 500, 1);
  const double gain = layer.forward(x).squaredNorm() / x.squaredNorm();
  CHECK(gain > 0.7);
  CHECK(gain < 5);
}

TEST_CASE("the nearest sum of Kronecker products is found") {
  SECTION("where there is one: exactly") {
    const KroneckerLinear<double> target(12, 20, {.terms = 2, .bias = false, .seed = 5});
    KroneckerLinear<double> layer(12, 20, {.terms = 2, .bias = true});
    layer.bias().setConstant(3);
    for (const double scale : {1e-150, 1.0, 1e150}) {
      CHECK(layer.fit_closed_form(scale * target.to_dense()) < 1e-7);
      CHECK((layer.to_dense() / scale - target.to_dense()).norm() < 1e-12);
      CHECK(layer.left(0).norm() == Approx(layer.right(0).norm()));
      CHECK(layer.bias().isConstant(3));
    }
  }
  SECTION("with padding, more terms than needed, and float") {
    const KroneckerLinear<double> target(7, 11, {.terms = 1, .bias = false, .seed = 5});
    KroneckerLinear<float> layer(7, 11, {.terms = 3});
    // The padding is of zeros: a product that is cut may need some more terms.
    CHECK(layer.fit_closed_form(target.to_dense()) < 0.5);
    KroneckerLinear<float> all(6, 4, {.terms = 6, .left_rows = 2, .left_cols = 3});
    const Matrix<double> any = test::random_matrix<double>(4, 6, 8);
    CHECK(all.fit_closed_form(any) < 1e-6);
    CHECK((all.to_dense().cast<double>() - any).norm() < 1e-6);
  }
  SECTION("of a random matrix: the error is what is left, and no neighbour is nearer") {
    const Matrix<double> weight = test::random_matrix<double>(20, 12, 3);
    double last = 1;
    for (const Index terms : {1, 2, 3, 4}) {
      KroneckerLinear<double> layer(12, 20, {.terms = terms, .bias = false});
      const double error = layer.fit_closed_form(weight);
      CHECK(error < last);
      CHECK((layer.to_dense() - weight).norm() == Approx(error * weight.norm()));
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        KroneckerLinear<double> near = layer;
        near.parameters() += 1e-3 * test::random_matrix<double>(near.num_parameters(), 1, seed).col(0);
        CHECK((near.to_dense() - weight).norm() > error * weight.norm());
      }
      last = error;
    }
  }
  SECTION("of nothing: nothing") {
    KroneckerLinear<double> layer(4, 4);
    CHECK(layer.fit_closed_form(Matrix<double>::Zero(4, 4)) == 0);
    CHECK(layer.to_dense().isZero(0));
  }
  KroneckerLinear<double> layer(4, 6);
  CHECK_THROWS_WITH(layer.fit_closed_form(Matrix<double>::Zero(4, 6)),
                    Contains("4 x 6") && Contains("6 x 4"));
  CHECK_THROWS_AS(layer.fit_closed_form(Matrix<double>::Constant(6, 4, std::nan(""))), std::domain_error);
}

TEST_CASE("KroneckerLinear refuses impossible shapes") {
  using L = KroneckerLinear<float>;
  CHECK_THROWS_WITH(L(0, 4), Contains("in = 0"));
  CHECK_THROWS_WITH(L(4, 4, {.terms = 0}), Contains("terms = 0"));
  CHECK_THROWS_WITH(L(4, 4, {.left_rows = 5}), Contains("5 x 2"));
  CHECK_THROWS_AS(L(4, 4, {.left_cols = -1}), std::invalid_argument);
  CHECK_THROWS_AS(L(4, 4, {.terms = Index{1} << 62}), std::invalid_argument);
}

}  // namespace kronecker_linear_test
