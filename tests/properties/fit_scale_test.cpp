// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>

#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/training/fit.hpp"
#include "scale.hpp"

using namespace properties;

TEMPLATE_TEST_CASE("A fit at any scale ends where it ends at scale 1, or is refused", "", float, double) {
  using S = TestType;
  const RotorLinear<S> target(16, 16, {.seed = 1});
  const Matrix<S> x = random<S>(16, 200, 2), y = target.forward(x);
  RotorLinear<S> start = target;
  start.parameters() += S(0.1) * random<S>(start.num_parameters(), 1, 3);
  const auto error_at = [&](double scale) {
    RotorLinear<S> layer = start;
    return fit(layer, static_cast<S>(scale) * x, static_cast<S>(scale) * y, {.epochs = 5}).relative_error;
  };
  const double expected = error_at(1);
  REQUIRE(expected < 0.2);
  for (const double scale : scales) {
    CAPTURE(scale, expected);
    try {
      const double error = error_at(scale);
      CHECK(error < 1.3 * expected);
      CHECK(error > 0.7 * expected);
    } catch (const std::exception& refusal) {
      WARN("fit at " << scale << ": " << refusal.what());
      CHECK(std::abs(std::log10(scale)) > 18);  // where squares leave the range of float
    }
  }
}

TEMPLATE_TEST_CASE("A low rank at any scale is the scaled low rank, or is refused", "", float, double) {
  using S = TestType;
  const Matrix<S> w = random<S>(10, 12, 4), a = random<S>(12, 40, 5), gram = a * a.transpose();
  LowRankLinear<S> exact(12, 10, 3);
  exact.fit_closed_form(w, gram);
  const Matrix<S> expected = exact.to_dense();
  for (const double scale : scales) {
    for (const double gram_scale : {1e-20, 1.0, 1e20}) {
      CAPTURE(scale, gram_scale);
      LowRankLinear<S> layer(12, 10, 3);
      try {
        layer.fit_closed_form(static_cast<S>(scale) * w, static_cast<S>(gram_scale) * gram);
        CHECK(difference(layer.to_dense(), expected, scale) < 100 * rounding<S>());
      } catch (const std::exception& refusal) {
        WARN("low rank at " << scale << ", Gram matrix at " << gram_scale << ": " << refusal.what());
        CHECK(std::abs(std::log10(scale)) + std::abs(std::log10(gram_scale)) > 18);
      }
    }
  }
}
