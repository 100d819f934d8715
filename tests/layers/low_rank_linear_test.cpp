// SPDX-License-Identifier: MIT
#include "rotorlin/layers/low_rank_linear.hpp"

#include <Eigen/Cholesky>
#include <Eigen/SVD>
#include <catch2/catch.hpp>

#include "support/layer_laws.hpp"

using namespace rotorlin;
using Catch::Contains;
using test::random_matrix;

namespace {

template <class S>
LowRankLinear<S> random_layer(Index in, Index out, Index rank, bool bias) {
  LowRankLinear<S> layer(in, out, {.rank = rank, .bias = bias});
  Random(5).fill_uniform(layer.parameters(), -1, 1);
  return layer;
}

/// tr((W - M) G (W - M)^T), relative, and its root.
double relative_error(const Matrix<double>& w, const Matrix<double>& m, const Matrix<double>& g) {
  const Matrix<double> d = w - m;
  return std::sqrt((d * g * d.transpose()).trace() / (w * g * w.transpose()).trace());
}

}  // namespace

TEST_CASE("LowRankLinear obeys the laws of layers") {
  test::check_layer_laws(random_layer<double>(5, 4, 2, true));
  test::check_layer_laws(random_layer<double>(3, 6, 3, false));
  test::check_layer_laws(random_layer<double>(1, 1, 1, true));
  test::check_layer_laws(random_layer<float>(4, 5, 1, true));
}

TEST_CASE("LowRankLinear starts at the scale of a dense layer") {
  const LowRankLinear<double> layer(300, 200, {.rank = 40, .seed = 2});
  CHECK(layer.to_dense().squaredNorm() / (300 * 200) == Approx(2.0 / 300).epsilon(0.1));
  CHECK(layer.bias().isZero(0));
}

TEST_CASE("the closed-form fit reaches the bound of Eckart and Young, and nothing near it is better") {
  const Matrix<double> w = random_matrix<double>(5, 7, 1), f = random_matrix<double>(7, 12, 2);
  const Matrix<double> g = f * f.transpose();
  // The bound, by another road: singular values of W L with a Cholesky factor.
  const Matrix<double> l = g.llt().matrixL();
  const VectorX<double> sigma = Eigen::JacobiSVD<Matrix<double>>(w * l).singularValues();
  for (Index rank = 1; rank <= 5; ++rank) {
    LowRankLinear<double> layer(7, 5, rank);
    layer.bias().setConstant(3);
    const double error = layer.fit_closed_form(w, g);
    CHECK(error == Approx(sigma.tail(5 - rank).norm() / sigma.norm()).margin(1e-13));
    CHECK(relative_error(w, layer.to_dense(), g) == Approx(error).margin(1e-7));
    CHECK((layer.bias().array() == 3).all());
    for (Index i = 0; i < rank; ++i) CHECK(layer.u().col(i).norm() == Approx(layer.v().row(i).norm()));
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      LowRankLinear<double> near = layer;
      near.parameters() += random_matrix<double>(near.num_parameters(), 1, seed).col(0) * 1e-3;
      CHECK(relative_error(w, near.to_dense(), g) >= error - 1e-7);
    }
  }
}

TEST_CASE("the closed-form fit is the same for tall and for wide weights") {
  const Matrix<double> w = random_matrix<double>(9, 4, 1), f = random_matrix<double>(4, 6, 2);
  const VectorX<double> sigma = Eigen::JacobiSVD<Matrix<double>>(w * f).singularValues();
  for (Index rank = 1; rank <= 4; ++rank) {
    LowRankLinear<double> layer(4, 9, rank);
    CHECK(layer.fit_closed_form(w, f * f.transpose()) ==
          Approx(sigma.tail(6 - rank).norm() / sigma.norm()).margin(1e-13));
  }
}

TEST_CASE("the metric counts: the fit is better than a plain truncation where inputs are uneven") {
  const Matrix<double> w = random_matrix<double>(6, 6, 1);
  const VectorX<double> scales = VectorX<double>::LinSpaced(6, 0, 5).array().exp();
  const Matrix<double> g = scales.asDiagonal();
  LowRankLinear<double> weighted(6, 6, 2), plain(6, 6, 2);
  const double error = weighted.fit_closed_form(w, g);
  plain.fit_closed_form(w, Matrix<double>::Identity(6, 6));
  CHECK(error < 0.7 * relative_error(w, plain.to_dense(), g));
}

TEST_CASE("the closed-form fit bears singular Gram matrices") {
  const Matrix<double> w = random_matrix<double>(6, 8, 1);
  const Matrix<double> f = random_matrix<double>(8, 3, 2);  // three samples in eight dimensions
  LowRankLinear<double> three(8, 6, 3), two(8, 6, 2), five(8, 6, 5);
  CHECK(three.fit_closed_form(w, f * f.transpose()) < 1e-14);
  CHECK(test::relative_difference(three.to_dense() * f, w * f) < 1e-13);
  const VectorX<double> sigma = Eigen::JacobiSVD<Matrix<double>>(w * f).singularValues();
  CHECK(two.fit_closed_form(w, f * f.transpose()) == Approx(sigma[2] / sigma.norm()));
  CHECK(five.fit_closed_form(w, f * f.transpose()) < 1e-14);
  CHECK(test::relative_difference(five.to_dense() * f, w * f) < 1e-13);

  // Scales of any size, and a map of low rank recovered exactly.
  const Matrix<double> low = random_matrix<double>(6, 2, 3) * random_matrix<double>(2, 8, 4);
  for (const double scale : {1e-200, 1.0, 1e200}) {
    CHECK(two.fit_closed_form(low, scale * Matrix<double>::Identity(8, 8)) < 1e-14);
    CHECK(test::relative_difference(two.to_dense(), low) < 1e-13);
  }
}

TEST_CASE("the closed-form fit of a zero weight is zero") {
  LowRankLinear<double> layer(4, 3, 2);
  CHECK(layer.fit_closed_form(Matrix<double>::Zero(3, 4), Matrix<double>::Identity(4, 4)) == 0);
  CHECK(layer.to_dense().isZero(0));
}

TEST_CASE("a float layer fits weights and Gram matrices of either scalar") {
  const Matrix<double> w = random_matrix<double>(4, 5, 1), f = random_matrix<double>(5, 9, 2);
  const Matrix<double> g = f * f.transpose();
  LowRankLinear<double> reference(5, 4, 2);
  LowRankLinear<float> layer(5, 4, 2);
  reference.fit_closed_form(w, g);
  layer.fit_closed_form(w, g);
  CHECK(test::relative_difference(layer.to_dense().cast<double>(), reference.to_dense()) < 1e-6);
  layer.fit_closed_form(w.cast<float>(), g.cast<float>());
  CHECK(test::relative_difference(layer.to_dense().cast<double>(), reference.to_dense()) < 1e-4);
}

TEST_CASE("the closed-form fit refuses what makes no sense") {
  LowRankLinear<double> layer(3, 2, 1);
  const Matrix<double> w = random_matrix<double>(2, 3, 1), identity = Matrix<double>::Identity(3, 3);
  CHECK_THROWS_WITH(layer.fit_closed_form(w.transpose(), identity), Contains("3 x 2") && Contains("2 x 3"));
  CHECK_THROWS_WITH(layer.fit_closed_form(w, Matrix<double>::Identity(4, 4)),
                    Contains("4 x 4") && Contains("3 x 3"));
  CHECK_THROWS_WITH(layer.fit_closed_form(w, -identity), Contains("semidefinite"));
  CHECK_THROWS_WITH(layer.fit_closed_form(w, 0 * identity), Contains("zero"));
  Matrix<double> bad = identity;
  bad(0, 1) = 1e-3;
  CHECK_THROWS_WITH(layer.fit_closed_form(w, bad), Contains("symmetric"));
  bad(0, 1) = std::nan("");
  CHECK_THROWS_AS(layer.fit_closed_form(w, bad), std::domain_error);
  Matrix<double> infinite = w;
  infinite(1, 1) = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(layer.fit_closed_form(infinite, identity), std::domain_error);
}

TEST_CASE("LowRankLinear refuses impossible ranks") {
  CHECK_THROWS_WITH((LowRankLinear<double>(5, 3, 0)), Contains("rank = 0") && Contains("1 ... 3"));
  CHECK_THROWS_WITH((LowRankLinear<double>(5, 3, 4)), Contains("rank = 4"));
  const Index huge = std::numeric_limits<Index>::max();
  CHECK_THROWS_AS((LowRankLinear<double>(huge, huge, 2)), std::invalid_argument);
}
