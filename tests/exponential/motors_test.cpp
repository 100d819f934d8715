// SPDX-License-Identifier: MIT
// exp, log, slerp and sqrt in every signature of up to five dimensions: against the series in long double,
// and the cases that motors, boosts and conformal versors meet.
#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "algebra/oracle.hpp"
#include "exponential/cases.hpp"
#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/log.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;

namespace {

using AnyAlgebra = Signature<Dynamic, Dynamic, Dynamic>;
template <class S>
using AnyBivector = Bivector<S, Dynamic, Dynamic, Dynamic>;
template <class S>
using AnyRotor = Rotor<S, Dynamic, Dynamic, Dynamic>;

template <int P, int Q, int R>
struct Bivectors {
  template <class S>
  using type = Bivector<S, P, Q, R>;
};

template <class F>
void for_each_small_algebra(F&& f) {
  for (int n = 0; n <= 5; ++n) {
    for (int q = 0; q <= n; ++q) {
      for (int r = 0; q + r <= n; ++r) f(AnyAlgebra(n - q - r, q, r));
    }
  }
}

/// Bivectors that meet every case of the closed forms: simple, sparse, with equal and nearly equal parts,
/// null.
std::vector<AnyBivector<test::Wide>> bivectors_of(const AnyAlgebra& algebra, std::mt19937& generator) {
  std::vector<AnyBivector<test::Wide>> list;
  const auto random = [&](double size) {
    return test::random_element<AnyBivector<test::Wide>>(algebra, generator, size);
  };
  for (const double size : {0.0, 1e-30, 1e-12, 1e-4, 0.1, 0.3, 1.0, 2.0, 4.0}) list.push_back(random(size));
  if (algebra.n() < 2) return list;
  const Index count = list[0].size();
  std::uniform_int_distribution<Index> any(0, count - 1);
  for (int i = 0; i < 8; ++i) {
    AnyBivector<test::Wide> b(algebra);
    b[any(generator)] = 0.9L;
    list.push_back(b);                          // an axis
    b[any(generator)] += i % 2 ? 0.9L : -0.9L;  // two of equal size
    list.push_back(b);
    b[any(generator)] += 1e-7L;
    list.push_back(b);
    list.push_back(b + random(1e-9));
    const auto v = test::random_element<Vector<test::Wide, Dynamic, Dynamic, Dynamic>>(algebra, generator);
    const auto w = test::random_element<Vector<test::Wide, Dynamic, Dynamic, Dynamic>>(algebra, generator);
    list.push_back((v ^ w) * 2.0L);  // simple
    list.push_back((v ^ w) + random(1e-10));
  }
  return list;
}

template <class S>
double largest(const AnyRotor<S>& r) {
  return r.size() == 0 ? 0 : static_cast<double>(r.coeffs().cwiseAbs().maxCoeff());
}

template <class S>
void check_closed_forms(const AnyAlgebra& algebra) {
  INFO(algebra << ", " << sizeof(S) << " bytes");
  std::mt19937 generator(17);
  const double epsilon = static_cast<double>(std::numeric_limits<S>::epsilon());
  for (const auto& wide : bivectors_of(algebra, generator)) {
    const AnyBivector<S> b = wide.template cast<S>();
    INFO("b = " << b);
    const auto expected = detail::exp_by_squaring(b.template cast<test::Wide>());
    const AnyRotor<S> r = exp(b);
    const double size = largest(expected), norm = static_cast<double>(b.coeffs().norm());
    CHECK(largest(AnyRotor<test::Wide>(r.template cast<test::Wide>() - expected)) <=
          16 * epsilon * (1 + norm) * std::max(size, 1.0));
    // log: of small elements b itself, else some logarithm
    if (algebra.n() < 2) continue;
    if (norm < 1) {
      CHECK((log(r) - b).coeffs().norm() <= 32 * static_cast<S>(epsilon * size * size * size * norm));
    }
    const AnyRotor<S> half = exp(log(r[0] < S(0) ? -r : r) / S(2));
    const double bound = 64 * epsilon * std::pow(std::max(1.0, largest(half)), 3) * std::max(1.0, norm);
    const AnyRotor<S> back = half * half;
    CHECK((back - (r[0] < S(0) ? -r : r)).coeffs().norm() <= static_cast<S>(bound));
  }
}

}  // namespace

TEST_CASE("exp and log against the series, every signature of up to five dimensions") {
  for_each_small_algebra([](const AnyAlgebra& algebra) {
    check_closed_forms<double>(algebra);
    check_closed_forms<float>(algebra);
  });
}

TEST_CASE("exp: turns of any size have length 1, in every signature") {
  const auto check = [](auto scalar, auto algebra_tag) {
    using S = decltype(scalar);
    using B = typename decltype(algebra_tag)::template type<S>;
    for (double angle = 1; angle < 1e38; angle *= 10) {
      CAPTURE(angle, sizeof(S));
      B b;
      b[0] = static_cast<S>(angle);
      const auto r = exp(b);
      CHECK(std::abs(r.norm() - S(1)) <= 4 * std::numeric_limits<S>::epsilon());
      CHECK(r[0] == Approx(std::cos(b[0])));
      CHECK(r[1] == Approx(std::sin(b[0])));
      if (angle > 1e33) continue;
      b[0] *= S(0.6);
      b[1] = static_cast<S>(0.8 * angle);  // e13
      CHECK(std::abs(exp(b).norm() - S(1)) <= 4 * std::numeric_limits<S>::epsilon());
    }
  };
  const auto for_both = [&](auto tag) {
    check(float(), tag);
    check(double(), tag);
  };
  for_both(Bivectors<3, 0, 1>());
  for_both(Bivectors<2, 0, 1>());
  for_both(Bivectors<4, 1, 0>());
  for_both(Bivectors<3, 1, 0>());
  for_both(Bivectors<4, 0, 0>());
  for_both(Bivectors<5, 0, 0>());
  for_both(Bivectors<0, 4, 0>());
  for_both(Bivectors<3, 0, 2>());
}

TEST_CASE("exp: motors with large angles and translations keep r r~ = 1 and go on the right screw") {
  const double pi = std::numbers::pi;
  for (const double turns : {0.0, 1e-9, 0.25, 1e3, 1e6}) {
    for (const double shift : {0.0, 1e-9, 1.0, 1e6, 1e12}) {
      CAPTURE(turns, shift);
      // about e12 through the origin, along e3
      const Bivector<double, 3, 0, 1> b{turns * pi / 4, 0, 0, 0, 0, shift / 2};
      const auto r = exp(b);
      CHECK((r * ~r).is_approx(Rotor<double, 3, 0, 1>(), 1e-14 * (1 + shift)));
      CHECK(r[6] == Approx(shift / 2 * std::cos(turns * pi / 4)));
      CHECK(r[7] == Approx(shift / 2 * std::sin(turns * pi / 4)));
      const auto single = exp(b.cast<float>());
      CHECK(std::abs(single.norm() - 1) < 1e-6f);
    }
  }
}

TEST_CASE("exp: what overflows is an error, never infinity or NaN; six dimensions too") {
  CHECK_THROWS_AS(exp(Bivector<double, 1, 1>{711}), std::domain_error);
  CHECK_THROWS_AS(exp(Bivector<float, 1, 1>{90}), std::domain_error);
  CHECK_THROWS_AS((exp(Bivector<float, 4, 1>{0, 0, 0, 90, 0, 0, 0, 0, 0, 0})), std::domain_error);
  CHECK(exp(Bivector<double, 1, 1>{700}).all_finite());
  const auto six = [](double size) {
    Bivector<float, Dynamic, Dynamic, Dynamic> b({5, 1, 0});
    b[0] = static_cast<float>(size);
    return exp(b);
  };
  CHECK(std::abs(six(1e4).norm() - 1) < 1e-5f);
  CHECK_THROWS_AS(six(1e6), std::domain_error);
  CHECK_THROWS_AS(six(1e30), std::domain_error);
  Bivector<float, Dynamic, Dynamic, Dynamic> negative({0, 7, 0});
  negative[3] = 1e12f;
  CHECK(std::abs(exp(negative).norm() - 1) < 1e-6f);
  for (Index i = 0; i < 6; ++i) {
    Bivector<double, 3, 0, 1> b{1, 2, 3, 4, 5, 6};
    b[i] = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS(exp(b), std::domain_error);
    b[i] = std::numeric_limits<double>::infinity();
    CHECK_THROWS_AS(exp(b), std::domain_error);
  }
}

TEST_CASE("log: translators, screws and what they meet") {
  using M = Rotor<double, 3, 0, 1>;
  using B = Bivector<double, 3, 0, 1>;
  std::mt19937 generator(2);
  for (const double size : {1e-20, 1.0, 1e8, 1e200}) {
    const B shift{0, 0, size, 0, -2 * size, size / 3};
    CHECK(log(exp(shift)) == shift);
    // -T is the same motion: a full turn about a line along its way
    const M other = -exp(shift);
    if (size < 1e100) CHECK((exp(log(other)) - other).coeffs().norm() <= 1e-14 * (1 + size));
  }
  // tiny angles with big translations, angles near pi
  for (const double angle : {1e-15, 1e-9, 1e-4, 0.1, 1.0, 1.5, 3.0, 3.1415926}) {
    for (const double shift : {0.0, 1e-6, 1.0, 1e6}) {
      const auto line = test::random_element<B>({}, generator);
      const double length = std::sqrt(line[0] * line[0] + line[1] * line[1] + line[3] * line[3]);
      B b = line * (angle / length);
      for (const Index i : {2, 4, 5}) b[i] = line[i] * shift;
      CAPTURE(angle, shift);
      const M r = exp(b);
      const B l = log(r);
      const double near_pi = 1 / (std::numbers::pi - angle);
      for (const Index i : {0, 1, 3}) CHECK(l[i] == Approx(b[i]).epsilon(1e-13 * near_pi));
      for (const Index i : {2, 4, 5}) CHECK(std::abs(l[i] - b[i]) <= 1e-14 * near_pi * near_pi * (1 + shift));
      CHECK((exp(l) - r).coeffs().norm() <= 1e-14 * near_pi * (1 + shift));
      const M half = sqrt(r);
      CHECK((half * half - r).coeffs().norm() <= 1e-14 * near_pi * (1 + shift));
    }
  }
  // 90 degrees in float: a quarter turn and a step
  const Bivector<float, 3, 0, 1> quarter{std::numbers::pi_v<float> / 4, 0, 0.5f, 0, 0.25f, 1.5f};
  CHECK(log(exp(quarter)).is_approx(quarter, 1e-6f));
  // in the plane: Cl(2, 0, 1)
  const Bivector<double, 2, 0, 1> plane{0.4, 3, -5};
  CHECK(log(exp(plane)).is_approx(plane, 1e-14));
  CHECK_THROWS_WITH((log(Rotor<double, 2, 0, 1>{-1, 0, 1, 0})), Contains("log") && Contains("Cl(2, 0, 1)"));
}

TEST_CASE("log and slerp name themselves, and refuse what is no rotor") {
  Rotor<double, 3, 0, 1> r;
  r[1] = 0.1;
  CHECK_THROWS_WITH(log(r), Contains("log: ") && Contains("normalized"));
  CHECK_THROWS_WITH(slerp(r, Rotor<double, 3, 0, 1>(), 0.5), Contains("slerp: "));
  CHECK_THROWS_WITH(sqrt(r), Contains("sqrt: "));
  r[1] = 0;
  r[7] = 0.1;  // r~ r = 1 + 0.2 e1234
  CHECK_THROWS_AS(log(r), std::invalid_argument);
  r[7] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(log(r), std::domain_error);
  CHECK_THROWS_WITH((log(Rotor<double, 6, 0, 1>())), Contains("log: rotor of Cl(6, 0, 1)"));
  CHECK_THROWS_WITH((log(Rotor<double, 1, 1>{-std::cosh(1.0), std::sinh(1.0)})), Contains("no logarithm"));
  CHECK_THROWS_AS((slerp(Rotor<double, 3>(), Rotor<double, 3>{0.6, 0.8, 0, 0}, std::nan(""))),
                  std::domain_error);
}

TEST_CASE("log: what is no exponential is refused in words, never NaN") {
  // in Cl(2, 2) an angle beyond pi/2 and a boost: minus an exponential in one of the two halves
  std::mt19937 generator(8);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto r = exp(test::random_element<Bivector<double, 2, 2>>({}, generator, 4));
    if (!(r.coeffs().norm() < 1e3)) continue;
    for (const auto& x : {r, -r}) {
      try {
        const auto b = log(x);
        CHECK((exp(b) - x).coeffs().norm() <= 1e-10 * std::pow(r.coeffs().norm(), 2));
      } catch (const std::invalid_argument&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("log: boosts and conformal motions") {
  for (const double rapidity : {1e-12, 0.1, 1.0, 5.0, 12.0}) {
    CAPTURE(rapidity);
    const Bivector<double, 1, 3> boost{0, rapidity, 0, 0, 0, 0};
    CHECK((log(exp(boost)) - boost).coeffs().norm() <= 1e-14 * (1 + rapidity));
    const Bivector<double, 1, 3> with_turn{0, rapidity, 0, 0.7, 0.1, 0.4};
    const double condition = std::exp(2 * rapidity);
    CHECK((log(exp(with_turn)) - with_turn).coeffs().norm() <= 1e-14 * condition);
    CHECK((slerp(Rotor<double, 1, 3>(), exp(with_turn), 0.25) - exp(with_turn * 0.25)).coeffs().norm() <=
          1e-14 * condition);
  }
  // turn, step along its axis and dilation in Cl(4, 1)
  using V = Vector<double, 4, 1>;
  const V e1{1, 0, 0, 0, 0}, e2{0, 1, 0, 0, 0}, e3{0, 0, 1, 0, 0}, infinity{0, 0, 0, 1, 1}, e4{0, 0, 0, 1, 0},
      e5{0, 0, 0, 0, 1};
  for (const double shift : {0.0, 1e-8, 1.0, 1e3, 1e5}) {
    const Bivector<double, 4, 1> screw = (e1 ^ e2) * 0.6 + (e3 ^ infinity) * shift;
    CHECK((log(exp(screw)) - screw).coeffs().norm() <= 1e-14 * (1 + shift));
    const auto single = screw.cast<float>();
    CHECK((log(exp(single)) - single).coeffs().norm() <= 1e-5f * static_cast<float>(1 + shift));
    const Bivector<double, 4, 1> aside = (e1 ^ e2) * 0.6 + (e1 ^ infinity) * shift;
    CHECK((log(exp(aside)) - aside).coeffs().norm() <= 1e-13 * (1 + shift));
  }
  const Bivector<double, 4, 1> growing = (e1 ^ e2) * 0.6 + (e4 ^ e5) * 0.9;
  CHECK((log(exp(growing)) - growing).coeffs().norm() < 1e-14);
  const Bivector<double, 4, 1> far = (e1 ^ e2) * 2.8 + (e4 ^ e5) * 0.9;  // cos < 0
  CHECK((log(exp(far)) - far).coeffs().norm() < 1e-13);
}

TEST_CASE("isoclinic turns in four and five dimensions, by angles that are equal to rounding") {
  for (const double gap : {0.0, 1e-16, 1e-12, 1e-8, 1e-3}) {
    for (const double angle : {1e-9, 0.3, std::numbers::pi / 2, 1.5707, 1.7, 3.0}) {
      CAPTURE(gap, angle);
      const Rotor<double, 4> r = exp(Bivector<double, 4>{angle + gap, 0, 0, 0, 0, angle});
      CHECK((exp(log(r)) - r).coeffs().norm() < 4e-15);
      CHECK((exp(log(-r)) + r).coeffs().norm() < 4e-15);
      const Rotor<double, 5> s = exp(Bivector<double, 5>{0, angle + gap, 0, 0, 0, 0, angle, 0, 0, 0});
      CHECK((exp(log(s)) - s).coeffs().norm() < 4e-15);
      CHECK((exp(log(-s)) + s).coeffs().norm() < 4e-15);
      const Rotor<double, 0, 5> t = exp(Bivector<double, 0, 5>{0, angle + gap, 0, 0, 0, 0, angle, 0, 0, 0});
      CHECK((exp(log(t)) - t).coeffs().norm() < 4e-15);
    }
  }
}

TEST_CASE("slerp of motors: constant speed along a screw, the short way, a million small steps") {
  std::mt19937 generator(6);
  for (int i = 0; i < 20; ++i) {
    const auto a = exp(test::random_element<Bivector<double, 3, 0, 1>>({}, generator, 2));
    const auto b = exp(test::random_element<Bivector<double, 3, 0, 1>>({}, generator, 2));
    const auto middle = slerp(a, b, 0.5), end = slerp(a, b, 1.0);
    CHECK(slerp(a, b, 0.0).is_approx(a, 1e-14));
    CHECK(std::min((end - b).coeffs().norm(), (end + b).coeffs().norm()) < 1e-12);
    CHECK((~a * middle * ~a * middle).is_approx(~a * end, 1e-12));
    CHECK(slerp(a, -b, 0.5).is_approx(middle, 1e-12));
    CHECK((~a * middle)[0] >= std::sqrt(0.5) - 1e-12);  // at most a quarter turn
  }
  const Bivector<double, 3, 0, 1> step{1e-6, 2e-6, 3e-6, -1e-6, 1e-6, 0};
  Rotor<double, 3, 0, 1> motor;
  const Rotor<double, 3, 0, 1> small = exp(step);
  for (int i = 0; i < 1000000; ++i) motor = motor * small;
  CHECK((motor - exp(step * 1e6)).coeffs().norm() < 1e-9);
  CHECK((motor.normalized() - exp(step * 1e6)).coeffs().norm() < 1e-9);
}
