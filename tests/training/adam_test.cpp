// SPDX-License-Identifier: MIT
#include "rotorlin/training/adam.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "support/allocation_counter.hpp"

using namespace rotorlin;
using Catch::Contains;

TEST_CASE("Adam follows its formula") {
  const AdamOptions options{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1};
  Adam<double> adam(options);
  VectorX<double> p{{1.0, -2.0}};
  double m[2] = {}, v[2] = {}, expected[2] = {1.0, -2.0};
  for (int t = 1; t <= 20; ++t) {
    const VectorX<double> g = (p.array() * 3 + t).matrix();
    const double rate = 0.05 / t;
    for (int i = 0; i < 2; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * g[i];
      v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(0.8, t)), v_hat = v[i] / (1 - std::pow(0.95, t));
      expected[i] -= rate * (m_hat / (std::sqrt(v_hat) + 1e-3) + 0.1 * expected[i]);
    }
    adam.step(p, g, rate);
    CHECK(p[0] == Approx(expected[0]).epsilon(1e-13));
    CHECK(p[1] == Approx(expected[1]).epsilon(1e-13));
  }
  CHECK(adam.steps() == 20);
}

TEST_CASE("Adam's first step is the rate against the sign of the gradient, at any scale") {
  for (const float scale : {1e-4f, 1.0f, 1e6f}) {
    Adam<float> adam;
    VectorX<float> p = VectorX<float>::Zero(3);
    adam.step(p, VectorX<float>{{scale, -scale, 0}}, 0.5);
    CHECK(p.isApprox(VectorX<float>{{-0.5f, 0.5f, 0}}, 1e-3f));
  }
}

TEST_CASE("Adam finds the minimum of a badly scaled quadratic") {
  const VectorX<double> curvature{{1e-3, 1, 1e3}}, minimum{{1, -2, 3}};
  VectorX<double> p = VectorX<double>::Zero(3);
  Adam<double> adam;
  for (int t = 0; t < 3000; ++t) adam.step(p, curvature.cwiseProduct(p - minimum), 0.05 * (1 - t / 3000.0));
  CHECK((p - minimum).norm() < 1e-4);
}

TEST_CASE("Adam allocates in its first step only") {
  Adam<double> adam;
  VectorX<double> p = VectorX<double>::Zero(1000), g = VectorX<double>::Ones(1000);
  adam.step(p, g, 0.1);
  const long before = test::allocations();
  adam.step(p, g, 0.1);
  CHECK(test::allocations() == before);
}

TEST_CASE("Adam refuses vectors of another size and impossible options") {
  Adam<double> adam;
  VectorX<double> p = VectorX<double>::Zero(3), q = VectorX<double>::Zero(2);
  CHECK_THROWS_WITH(adam.step(p, q, 0.1), Contains("3 x 1") && Contains("2 x 1"));
  adam.step(q, q, 0.1);
  CHECK_THROWS_WITH(adam.step(p, p, 0.1), Contains("3 x 1") && Contains("2 x 1"));
  CHECK_THROWS_WITH(adam.step(q, q, std::numeric_limits<double>::quiet_NaN()), Contains("rate = nan"));
  CHECK(q.allFinite());
  CHECK_THROWS_WITH(Adam<double>({.beta1 = 1}), Contains("beta1 = 1"));
  CHECK_THROWS_AS(Adam<double>({.beta2 = -0.1}), std::invalid_argument);
  CHECK_THROWS_AS(Adam<double>({.epsilon = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Adam<double>({.weight_decay = std::numeric_limits<double>::quiet_NaN()}),
                  std::invalid_argument);
}
