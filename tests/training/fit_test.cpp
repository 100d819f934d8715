// SPDX-License-Identifier: MIT
#include "rotorlin/training/fit.hpp"
#include "rotorlin/training/schedule.hpp"

#include <catch2/catch.hpp>

#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"

using namespace rotorlin;
using Catch::Contains;

namespace {

Matrix<double> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  Matrix<double> m(rows, cols);
  Random(seed).fill_uniform(m, -1, 1);
  return m;
}

const Matrix<double> w = random_matrix(3, 5, 1), x = random_matrix(5, 100, 2);
const VectorX<double> b = random_matrix(3, 1, 3);
const Matrix<double> y = (w * x).colwise() + b;

double mean_square(const Matrix<double>& m) { return m.squaredNorm() / static_cast<double>(m.size()); }

}  // namespace

TEST_CASE("fit recovers a known map") {
  DenseLinear<double> layer(5, 3);
  const double before = mean_square(layer.forward(x) - y);
  const FitResult result = fit(layer, x, y, {.epochs = 200, .batch_size = 16, .learning_rate = 0.05});
  CHECK((layer.weight() - w).norm() < 1e-5);
  CHECK((layer.bias() - b).norm() < 1e-5);
  CHECK(result.stop == FitStop::finished);
  CHECK(result.epochs == 200);
  CHECK(result.loss.size() == 201);
  CHECK(result.validation_loss.empty());
  CHECK(result.loss.front() == Approx(before));
  CHECK(result.best_loss == Approx(mean_square(layer.forward(x) - y)));
  CHECK(result.best_loss == *std::min_element(result.loss.begin(), result.loss.end()));
  CHECK(result.relative_error == Approx((layer.forward(x) - y).norm() / y.norm()));
  CHECK(result.seconds > 0);
  CHECK(layer.gradients().isZero(0));
}

TEST_CASE("fit works in float, and on a full batch") {
  DenseLinear<float> layer(5, 3);
  const FitResult result =
      fit(layer, x.cast<float>(), y.cast<float>(), {.epochs = 500, .learning_rate = 0.05});
  CHECK((layer.weight().cast<double>() - w).norm() < 1e-3);
  CHECK(result.relative_error < 1e-3);
}

TEST_CASE("fit is the same with the same seed, and another with another") {
  const auto run = [](FitOptions options) {
    options.epochs = 3;
    options.batch_size = 16;
    DenseLinear<double> layer(5, 3);
    fit(layer, x, y, options);
    return VectorX<double>(layer.parameters());
  };
  CHECK(run({.seed = 1}) == run({.seed = 1}));
  CHECK(run({.seed = 1}) != run({.seed = 2}));
  CHECK(run({.seed = 1, .shuffle = false}) == run({.seed = 2, .shuffle = false}));
}

TEST_CASE("a full batch step is the gradient of the mean squared error") {
  // In units in which inputs and outputs have a mean square of 1, which are those of the fit.
  const Matrix<double> u = x / std::sqrt(mean_square(x)), v = y / std::sqrt(mean_square(y));
  DenseLinear<double> layer(5, 3), copy = layer;
  fit(layer, u, v, {.epochs = 1, .learning_rate = 1e-3, .match_scale = false});
  Matrix<double> grad_x(5, 100);
  DenseLinear<double>::Workspace workspace;
  copy.backward(u, (2.0 / 300) * (copy.forward(u) - v), grad_x, workspace);
  Adam<double> adam;
  adam.step(copy.parameters(), copy.gradients(), 1e-3);
  CHECK((layer.parameters() - copy.parameters()).norm() < 1e-14);
}

TEST_CASE("no fit leaves a layer worse than it was") {
  auto layer = DenseLinear<double>::from_matrix(w, b);
  const VectorX<double> before = layer.parameters();
  const FitResult result = fit(layer, x, y, {.epochs = 5, .learning_rate = 0.1});
  CHECK(layer.parameters() == before);
  CHECK(result.best_loss == result.loss.front());

  SECTION("nor one that diverges") {
    const double rate = GENERATE(1e30, 1e300);  // the loss overflows, and the parameters themselves
    DenseLinear<float> start(5, 3), diverged = start;
    const FitResult wild = fit(diverged, x.cast<float>(), y.cast<float>(),
                               {.epochs = 5, .batch_size = 10, .learning_rate = rate, .match_scale = false});
    CHECK(wild.stop == FitStop::diverged);
    CHECK(diverged.parameters() == start.parameters());
    CHECK(wild.best_loss == wild.loss.front());
    CHECK(wild.best_epoch == 0);
  }
}

TEST_CASE("fit stops when the validation loss stalls, and keeps its best") {
  const Matrix<double> few = x.leftCols(4), noisy = y.leftCols(4) + 2 * random_matrix(3, 4, 7);
  DenseLinear<double> layer = DenseLinear<double>::from_matrix(w, b);
  layer.parameters() *= 0.5;
  const FitResult result =
      fit(layer, few, noisy, x, y, {.epochs = 1000, .learning_rate = 0.02, .patience = 5});
  CHECK(result.stop == FitStop::patience);
  CHECK(result.epochs < 1000);
  CHECK(result.validation_loss.size() == static_cast<std::size_t>(result.epochs) + 1);
  const auto best = std::min_element(result.validation_loss.begin(), result.validation_loss.end());
  CHECK(result.best_loss == *best);
  CHECK(result.validation_loss.end() - best == 6);
  CHECK(result.best_loss == Approx(mean_square(layer.forward(x) - y)));
  CHECK(result.relative_error == Approx((layer.forward(x) - y).norm() / y.norm()));
}

TEST_CASE("min_delta asks for progress") {
  DenseLinear<double> layer(5, 3);
  const FitResult result =
      fit(layer, x, y, {.epochs = 100, .learning_rate = 1e-5, .patience = 4, .min_delta = 0.5});
  CHECK(result.stop == FitStop::patience);
  CHECK(result.epochs == 4);
  CHECK(result.best_loss == result.loss.back());
}

TEST_CASE("the callback sees what happens and can stop it") {
  DenseLinear<double> layer(5, 3);
  std::vector<FitProgress> seen;
  FitOptions options{.epochs = 10, .batch_size = 30, .learning_rate = 0.1, .min_learning_rate = 0.01};
  options.progress = [&](const FitProgress& progress) {
    seen.push_back(progress);
    return progress.epoch < 3;
  };
  SECTION("once an epoch") {
    options.progress_interval = 1e9;
    const FitResult result = fit(layer, x, y, options);
    CHECK(result.stop == FitStop::callback);
    CHECK(result.epochs == 3);
    REQUIRE(seen.size() == 3);
    CHECK(seen[0].step == 4);
    CHECK(seen[0].steps == 40);
    CHECK(seen[0].epochs == 10);
    for (std::size_t e = 0; e < 3; ++e) CHECK(seen[e].loss == result.loss[e + 1]);
    CHECK(std::isnan(seen[0].validation_loss));
    CHECK(seen[2].learning_rate == Approx(CosineSchedule(0.1, 0.01, 40).rate(11)));
    CHECK(seen[2].seconds_left == Approx(seen[2].seconds / 12 * 28));
  }
  SECTION("and between") {
    options.progress_interval = 0;
    fit(layer, x, y, x, y, options);
    REQUIRE(seen.size() == 12);
    CHECK(seen[1].step == 2);
    CHECK(seen[1].epoch == 0);
    CHECK(seen[1].loss > 0);
    CHECK(seen[1].validation_loss > 0);
  }
}

TEST_CASE("fit refuses samples that do not fit the layer") {
  DenseLinear<double> layer(5, 3);
  CHECK_THROWS_WITH(fit(layer, x.topRows(4), y), Contains("4 x 100") && Contains("5 x N"));
  CHECK_THROWS_WITH(fit(layer, x, y.topRows(2)), Contains("2 x 100") && Contains("3 x N"));
  CHECK_THROWS_WITH(fit(layer, x, y.leftCols(99)), Contains("5 x 100") && Contains("3 x 99"));
  CHECK_THROWS_WITH(fit(layer, x.leftCols(0), y.leftCols(0)), Contains("5 x 0") && Contains("N >= 1"));
  CHECK_THROWS_WITH(fit(layer, x, y, x, y.topRows(2)), Contains("validation") && Contains("2 x 100"));
  CHECK_THROWS_AS(fit(layer, x, y, {.epochs = 0}), std::invalid_argument);
  CHECK_THROWS_AS(fit(layer, x, y, {.batch_size = 0}), std::invalid_argument);
  CHECK_THROWS_WITH(fit(layer, x, y, {.learning_rate = -1}), Contains(" learning_rate = -1"));
  CHECK_THROWS_AS(fit(layer, x, y, {.learning_rate = std::nan("")}), std::invalid_argument);
  CHECK_THROWS_AS(fit(layer, x, y, {.patience = -1}), std::invalid_argument);

  Matrix<double> bad = x;
  bad(2, 50) = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(fit(layer, bad, y), std::domain_error);
  CHECK_THROWS_AS(fit(layer, x, y * std::nan("")), std::domain_error);
  CHECK_THROWS_AS(fit(layer, x, y, bad, y), std::domain_error);
  CHECK_THROWS_AS(fit(layer, x, 1e200 * y), std::domain_error);
  layer.parameters()[3] = std::nan("");
  CHECK_THROWS_AS(fit(layer, x, y), std::domain_error);
}
