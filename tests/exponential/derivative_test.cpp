// SPDX-License-Identifier: MIT
#include "rotorlin/exponential/derivative.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "exponential/cases.hpp"

using namespace rotorlin;

namespace {

/// <dL/db, h> against <G, d exp(b + t h)/dt> of the series in long double.
void check_gradients(int n, std::size_t stride) {
  std::mt19937 generator(static_cast<unsigned>(n));
  const auto cases = test::hard_cases(n);
  for (std::size_t i = 0; i < cases.size(); i += stride) {
    const test::Case& hard = cases[i];
    INFO(hard.name << ", n = " << n);
    const auto h = test::random_element<Bivector<test::Wide, Dynamic>>(n, generator);
    const auto g = test::random_element<Rotor<test::Wide, Dynamic>>(n, generator);
    const test::Wide expected = g.coeffs().dot(test::series_derivative(hard.b, h).coeffs());
    const test::Wide scale = h.coeffs().norm() * g.coeffs().norm() * std::max<test::Wide>(1, hard.norm());
    const auto in_double = exp_vjp(hard.b.cast<double>(), g.cast<double>());
    CHECK(std::abs(in_double.coeffs().cast<test::Wide>().dot(h.coeffs()) - expected) <= 4e-15 * scale);
    const auto in_float = exp_vjp(hard.b.cast<float>(), g.cast<float>());
    CHECK(std::abs(in_float.coeffs().cast<test::Wide>().dot(h.coeffs()) - expected) <= 2e-6 * scale);
  }
}

}  // namespace

TEST_CASE("vjp of exp against AutoDiffScalar, n = 2 ... 11") {
  for (int n = 2; n <= 7; ++n) check_gradients(n, 1);
  check_gradients(8, 3);
  check_gradients(9, 7);
  check_gradients(10, 18);
  check_gradients(11, 18);
}

TEST_CASE("vjp of exp against central differences") {
  std::mt19937 generator(3);
  for (int n : {2, 3, 4, 6, 8, 11}) {
    for (const test::Case& hard : test::hard_cases(n)) {
      if (hard.norm() > 60) continue;
      INFO(hard.name << ", n = " << n);
      const Bivector<double, Dynamic> b = hard.b.cast<double>();
      const auto h = test::random_element<Bivector<double, Dynamic>>(n, generator);
      const auto g = test::random_element<Rotor<double, Dynamic>>(n, generator);
      const double step = 1e-5;
      const double slope =
          g.coeffs().dot(exp(b + h * step).coeffs() - exp(b - h * step).coeffs()) / (2 * step);
      const double scale = h.norm() * g.coeffs().norm() * std::max(1.0, b.norm());
      CHECK(std::abs(exp_vjp(b, g).coeffs().dot(h.coeffs()) - slope) <= 1e-8 * scale);
    }
  }
}

TEST_CASE("vjp of exp: every coefficient, at zero and at equal angles, n at compile time") {
  const Rotor<double, 4> g{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8};
  // at zero the exponential is 1 + b
  CHECK(exp_vjp(Bivector<double, 4>(), g).is_approx(g.bivector_part()));
  const Bivector<long double, 4> b{0.8L, 0, 0, 0, 0, 0.8L};
  const auto computed = exp_vjp(b.cast<double>(), g);
  for (Index i = 0; i < 6; ++i) {
    Bivector<long double, 4> e;
    e[i] = 1;
    CHECK(std::abs(computed[i] - static_cast<double>(g.cast<long double>().coeffs().dot(
                                     test::series_derivative(b, e).coeffs()))) < 1e-15);
  }
}

TEST_CASE("vjp of exp in other signatures against AutoDiffScalar") {
  using Any = Bivector<long double, Dynamic, Dynamic, Dynamic>;
  std::mt19937 generator(5);
  for (const Any::SignatureType& algebra : {Any::SignatureType(1, 3, 0),
                                            {3, 0, 1},
                                            {4, 1, 0},
                                            {2, 2, 1},
                                            {0, 4, 0},
                                            {0, 0, 3},
                                            {4, 0, 0},
                                            {1, 1, 0}}) {
    INFO(algebra);
    for (double size : {0.0, 1e-8, 1.0}) {
      const auto b = test::random_element<Any>(algebra, generator, size),
                 h = test::random_element<Any>(algebra, generator);
      const auto g = test::random_element<Rotor<long double, Dynamic, Dynamic, Dynamic>>(algebra, generator);
      const long double expected = g.coeffs().dot(test::series_derivative(b, h).coeffs());
      const auto computed = exp_vjp(b.cast<double>(), g.cast<double>());
      CHECK(std::abs(computed.coeffs().cast<long double>().dot(h.coeffs()) - expected) < 1e-13L);
    }
  }
}

TEST_CASE("vjp of exp: bad input") {
  Bivector<double, Dynamic> b(4);
  CHECK_THROWS_AS(exp_vjp(b, Rotor<double, Dynamic>(5)), std::invalid_argument);
  CHECK_THROWS_AS(exp_vjp(invariant_decomposition(b), Rotor<double, Dynamic>(5)), std::invalid_argument);
  b[0] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(exp_vjp(b, Rotor<double, Dynamic>(4)), std::domain_error);
}
