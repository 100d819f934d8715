// SPDX-License-Identifier: MIT
#include "rotorlin/exponential/power_iteration.hpp"

#include <catch2/catch.hpp>

#include "exponential/cases.hpp"
#include "rotorlin/exponential/invariant_decomposition.hpp"

using namespace rotorlin;

TEST_CASE("power iteration: the parts sum to the bivector, and distinct angles are found") {
  for (int n = 2; n <= 8; ++n) {
    for (const test::Case& hard : test::hard_cases(n)) {
      INFO(hard.name << ", n = " << n);
      const Bivector<double, Dynamic> b = hard.b.cast<double>();
      PowerIteration<double> iteration;
      iteration.compute(b);
      REQUIRE(iteration.parts().size() == static_cast<std::size_t>(n / 2));
      Bivector<double, Dynamic> sum(n);
      for (const auto& part : iteration.parts()) sum += part;
      CHECK((sum.coeffs() - b.coeffs()).norm() <= 1e-14 * b.norm());
      for (int steps : iteration.steps()) CHECK((steps >= 1 && steps <= 20));

      const InvariantDecomposition<double> planes(b, DecompositionMethod::power_iteration);
      const auto& q = planes.basis();
      CHECK((q.transpose() * q - Matrix<double>::Identity(n, n)).cwiseAbs().maxCoeff() < 1e-13);
      if (hard.name == "graded" || hard.name.starts_with("simple") || n <= 3) {
        const auto exact = test::series_exp(hard.b);
        const double tolerance = 1e-13 * std::max(1.0, b.norm());
        CHECK((iteration.rotor().coeffs().cast<test::Wide>() - exact.coeffs()).norm() < tolerance);
        CHECK((planes.rotor().coeffs().cast<test::Wide>() - exact.coeffs()).norm() < tolerance);
        CHECK((planes.bivector().coeffs() - b.coeffs()).norm() < tolerance);
      }
    }
  }
}

TEST_CASE("power iteration: close angles are what it gets wrong, and the exact method does not") {
  const auto q = test::random_basis(8, 3);
  const auto wide = test::bivector_of(q, {1.0L, 0.98L, 0.7L, 0.3L});
  const Bivector<double, Dynamic> b = wide.cast<double>();
  const auto exact = test::series_exp(wide);
  const auto error = [&](DecompositionMethod method) {
    return static_cast<double>(
        (invariant_decomposition(b, method).rotor().coeffs().cast<test::Wide>() - exact.coeffs()).norm());
  };
  CHECK(error(DecompositionMethod::power_iteration) > 1e-4);
  CHECK(error(DecompositionMethod::exact) < 1e-14);
}

TEST_CASE("power iteration: a warm start takes fewer steps; start vectors are checked") {
  const auto wide = test::bivector_of(test::random_basis(6, 4), {1.0L, 0.8L, 0.5L});
  PowerIteration<double> iteration;
  iteration.compute(wide.cast<double>());
  const int cold = iteration.steps()[0];
  iteration.compute(wide.cast<double>());
  CHECK(iteration.steps()[0] < cold);
  iteration.compute(Bivector<double, Dynamic>(4, {1, 2, 3, 4, 5, 6}));  // another dimension starts anew
  CHECK(iteration.parts().size() == 2);
  CHECK_THROWS_WITH(iteration.compute(wide.cast<double>(), Matrix<double>::Ones(6, 3)),
                    Catch::Matchers::Contains("6 x 3") && Catch::Matchers::Contains("6 x 2"));
}
