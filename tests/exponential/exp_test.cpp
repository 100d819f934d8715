// SPDX-License-Identifier: MIT
#include "rotorlin/exponential/exp.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "exponential/cases.hpp"

using namespace rotorlin;
TEST_CASE("exp of simple bivectors: cos + sin, cosh + sinh, 1 + b") {
  const double t = 0.7;
  CHECK(exp(Bivector<double, 2>{t}).is_approx(Rotor<double, 2>{std::cos(t), std::sin(t)}));
  CHECK(exp(Bivector<double, 1, 1>{t}).is_approx(Rotor<double, 1, 1>{std::cosh(t), std::sinh(t)}));
  CHECK(exp(Bivector<double, 0, 2>{t}).is_approx(Rotor<double, 0, 2>{std::cos(t), std::sin(t)}));
  CHECK(exp(Bivector<double, 1, 0, 1>{t}) == Rotor<double, 1, 0, 1>{1, t});
  CHECK(exp(Bivector<double, 3>()) == Rotor<double, 3>());
  CHECK(exp(Bivector<double, 0>()) == Rotor<double, 0>());
  CHECK(exp(Bivector<double, Dynamic>(1)).coeffs() == Eigen::VectorXd::Ones(1));
}

TEST_CASE("exp in any signature: a one-parameter group, and a rotor") {
  using Any = Bivector<double, Dynamic, Dynamic, Dynamic>;
  std::mt19937 generator(1);
  for (const Any::SignatureType& algebra :
       {Any::SignatureType(1, 3, 0), {3, 0, 1}, {4, 1, 0}, {2, 2, 2}, {0, 5, 0}, {0, 0, 4}, {5, 0, 0}}) {
    INFO(algebra);
    const Any b = test::random_element<Any>(algebra, generator);
    const auto r = exp(b);
    CHECK((r * ~r).is_approx(Rotor<double, Dynamic, Dynamic, Dynamic>(algebra),
                             1e-12 * r.coeffs().squaredNorm()));
    CHECK((exp(b * 0.25) * exp(b * 0.75)).is_approx(r, 1e-13));
    const auto wide = exp(b.cast<long double>());
    CHECK(wide.cast<double>().is_approx(r, 1e-13));
    Any bad = b;
    bad[1] = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS(exp(bad), std::domain_error);
    bad.coeffs().setConstant(1.7e308);  // finite, its angles are not
    CHECK_THROWS_AS(exp(bad), std::domain_error);
  }
  const auto negative = test::random_element<Any>({0, 4, 0}, generator);  // Cl(0, n) has the rotors of Cl(n)
  const auto positive = exp(Any({4, 0, 0}, -negative.coeffs()));
  CHECK(exp(negative).coeffs().squaredNorm() == Approx(1));
  CHECK(std::abs(exp(negative)[0] - positive[0]) < 1e-14);
}

TEST_CASE("exp of a large signature at run time") {
  using Any = Bivector<float, Dynamic, Dynamic, Dynamic>;
  Any b({7, 1, 0});
  b[0] = 0.5f;
  b[b.size() - 1] = 0.25f;
  const auto r = exp(b);
  CHECK(std::abs(r[0] - std::cos(0.5f) * std::cosh(0.25f)) < 1e-6f);
}
