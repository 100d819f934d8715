// SPDX-License-Identifier: MIT
#include "rotorlin/exponential/log.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numbers>

#include "exponential/cases.hpp"
#include "rotorlin/exponential/exp.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;

namespace {

constexpr double pi = std::numbers::pi;

template <class Scalar>
void check_logarithms(int n) {
  const Scalar rounding = Scalar(16 * (n + 1)) * std::numeric_limits<Scalar>::epsilon();
  for (const test::Case& hard : test::hard_cases(n)) {
    INFO(hard.name << ", n = " << n << ", " << sizeof(Scalar) << " bytes");
    const Bivector<Scalar, Dynamic> b = hard.b.template cast<Scalar>();
    const Rotor<Scalar, Dynamic> r = exp(b);
    const Bivector<Scalar, Dynamic> l = log(r);
    CHECK((exp(l).coeffs() - r.coeffs()).norm() <= rounding);
    const auto angles = InvariantDecomposition<Scalar>(l).angles();
    for (Index p = 0; p < angles.size(); ++p)
      CHECK(angles[p] <= std::numbers::pi_v<Scalar> / (p == 0 ? 1 : 2) + rounding);
    if (hard.angles.empty() ||
        static_cast<double>(hard.angles[0]) < pi / 2 - 1e-3) {  // already the principal one
      CHECK((l.coeffs() - b.coeffs()).norm() <= rounding * static_cast<Scalar>(hard.norm()));
    }
    const Rotor<Scalar, Dynamic> minus = -r;
    if (n >= 2) CHECK((exp(log(minus)).coeffs() - minus.coeffs()).norm() <= rounding);
  }
}

}  // namespace

TEST_CASE("log is the inverse of exp, on hard bivectors too") {
  for (int n = 0; n <= 8; ++n) check_logarithms<double>(n);
  check_logarithms<double>(11);
  for (int n : {2, 3, 6, 7}) check_logarithms<float>(n);
}

TEST_CASE("log: long double, n at compile time, signature at run time") {
  check_logarithms<long double>(5);
  const Bivector<double, 3> b{0.1, -0.2, 0.3};
  CHECK(log(exp(b)).is_approx(b, 1e-15));
  const Bivector<double, Dynamic, Dynamic, Dynamic> any({3, 0, 0}, b.coeffs());
  CHECK(log(exp(any)).is_approx(any, 1e-15));
}

TEST_CASE("log: the double cover, and half turns") {
  CHECK(log(Rotor<double, 3>()) == Bivector<double, 3>());
  CHECK_THROWS_AS(log(-Rotor<double, 1>()), std::invalid_argument);
  CHECK(log(-Rotor<double, 3>()).norm() == Approx(pi));  // a full turn
  CHECK(log(Rotor<double, 3>{0, 1, 0, 0}).is_approx(Bivector<double, 3>{pi / 2, 0, 0}));
  // angles of 1.3 and 0.4 and then -r: only the largest angle goes to the other side
  const Bivector<double, 4> b{1.3, 0, 0, 0, 0, 0.4};
  CHECK(log(exp(b)).is_approx(b, 1e-14));
  CHECK(log(-exp(b)).is_approx(Bivector<double, 4>{1.3 - pi, 0, 0, 0, 0, 0.4}, 1e-14));
  // tiny angles to full relative accuracy
  const Bivector<double, 3> tiny{1e-14, -2e-14, 3e-14};
  CHECK((log(exp(tiny)) - tiny).norm() < 1e-15 * tiny.norm());
}

TEST_CASE("log: bad input") {
  CHECK_THROWS_AS(log(Rotor<double, 6, 1>()), std::invalid_argument);
  Rotor<double, Dynamic> r(4);
  r[1] = 0.1;
  CHECK_THROWS_WITH(log(r), Contains("normalized"));
  CHECK_NOTHROW(log(r.normalized()));
  r[1] = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(log(r), std::domain_error);
  CHECK_THROWS_AS(slerp(Rotor<double, Dynamic>(3), Rotor<double, Dynamic>(4), 0.5), std::invalid_argument);
}

TEST_CASE("slerp: constant speed, the short way, the same rotation at the end") {
  for (int n : {3, 4, 7}) {
    const auto first = test::hard_cases(n)[3].b.cast<double>();
    const Rotor<double, Dynamic> start = exp(first), end = exp(first * -0.6) * start;
    const Rotor<double, Dynamic> middle = slerp(start, end, 0.5);
    CHECK(slerp(start, end, 0.0).is_approx(start));
    const auto at_end = slerp(start, end, 1.0);
    CHECK((at_end.to_rotation_matrix() - end.to_rotation_matrix()).norm() < 1e-13);
    CHECK((~start * middle * ~start * middle).is_approx(~start * at_end, 1e-13));
    CHECK((slerp(start, -end, 0.5).to_rotation_matrix() - middle.to_rotation_matrix()).norm() < 1e-13);
    const InvariantDecomposition<double> turned(log(~start * middle));
    CHECK(turned.angles().maxCoeff() <= pi / 4 + 1e-12);
  }
}

TEST_CASE("exp, slerp and sqrt are named in what they throw, in every algebra") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Rotor<double, 6> r6 = exp(0.3 * (Vector<double, 6>::basis(1) ^ Vector<double, 6>::basis(4)));
  const Rotor<double, 3, 0, 1> motor{1, 0, 0, 1, 0, 0, 0, 0};
  CHECK_THROWS_WITH(slerp(Rotor<double, 6>(), r6, nan), Contains("slerp: t"));
  CHECK_THROWS_WITH(slerp(Rotor<double, 3, 0, 1>(), motor, nan), Contains("slerp: t"));
  const Rotor<double, 1, 1> boost{std::cosh(1.0), std::sinh(1.0)};
  CHECK_THROWS_WITH(slerp(Rotor<double, 1, 1>(), boost, 1e4), Catch::StartsWith("slerp: overflow"));

  Bivector<float, 6> b;
  b.coeffs().setConstant(std::numeric_limits<float>::max());
  CHECK_THROWS_WITH(exp(b), Catch::StartsWith("exp: the angles"));
  Bivector<float, Dynamic, Dynamic, Dynamic> negative({0, 7, 0});
  negative.coeffs().setConstant(3e38f);
  CHECK_THROWS_WITH(exp(negative), Catch::StartsWith("exp: the angles"));
}
