// SPDX-License-Identifier: MIT
#include "power_iteration/recorded_exp.hpp"

#include <catch2/catch.hpp>

#include "power_iteration/experiments.hpp"
#include "rotorlin/exponential/derivative.hpp"

using namespace examples;

TEST_CASE("the recorded exponential: the library's power iteration, with the derivative of what it did") {
  rotorlin::Random random(1);
  for (int n : {2, 3, 4, 5, 6, 7}) {
    INFO("n = " << n);
    const Bivector b(n, random_normal(Index{n} * (n - 1) / 2, random));
    rotorlin::PowerIteration<double> iteration;
    const Matrix<double> start = random_normal(n * (n / 2 - 1), random).reshaped(n, n / 2 - 1);
    iteration.compute(b, start);
    const std::vector<int> steps = iteration.steps();
    const RecordedExp recorded(b, start, steps);
    CHECK((recorded.rotor() - iteration.rotor()).norm() < 1e-12);

    const Rotor grad_r(n, random_normal(Index{1} << (n - 1), random));
    const Bivector gradient = recorded.vjp(grad_r);
    for (Index i = 0; i < b.size(); ++i) {
      const auto loss = [&](double change) {
        Bivector moved = b;
        moved[i] += change;
        return RecordedExp(moved, start, steps).rotor().coeffs().dot(grad_r.coeffs());
      };
      CHECK(gradient[i] == Approx((loss(1e-5) - loss(-1e-5)) / 2e-5).margin(1e-6));
    }
  }
}

TEST_CASE("the recorded exponential: with many steps and angles far apart its derivative is the exact one") {
  rotorlin::Random random(2);
  const Bivector b = random_bivector(6, {1.5, 0.7, 0.2}, random);
  const Matrix<double> start = random_normal(12, random).reshaped(6, 2);
  const RecordedExp recorded(b, start, {40, 40});
  const Rotor grad_r(6, random_normal(32, random));
  CHECK((recorded.vjp(grad_r) - rotorlin::exp_vjp(b, grad_r)).norm() < 1e-9 * grad_r.norm());

  rotorlin::PowerIteration<double> iteration;
  for (int pass = 0; pass < 20; ++pass) iteration.compute(b);
  const Bivector published = published_exp(b, iteration).vjp(grad_r);
  CHECK((published - rotorlin::exp_vjp(b, grad_r)).norm() > 1e-3 * grad_r.norm());  // one step is not enough
}
