// SPDX-License-Identifier: MIT
// Inverse and normalization in every signature, at every scale: translators and planes far from the origin,
// boosts, products of many versors, odd ones, and what is no versor.
#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <unsupported/Eigen/AutoDiff>

#include "algebra/oracle.hpp"
#include "rotorlin/algebra/multivector.hpp"

using namespace rotorlin;

namespace {

/// The largest coefficient of v v^-1 - 1 beside what rounding may make of the product.
template <class M>
double inversion_error(const M& v, const M& inverted) {
  using Scalar = typename M::Scalar;
  const auto wide = v.template cast<long double>() * inverted.template cast<long double>();
  double error = 0;
  for (Index i = 0; i < wide.size(); ++i) {
    const unsigned target = blade_table(v.dimension()).mask[static_cast<std::size_t>(i)];
    double terms = i == 0 ? 1 : 0;
    for (Index j = 0; j < v.size(); ++j) {
      const unsigned blade = blade_table(v.dimension()).mask[static_cast<std::size_t>(j)];
      if ((blade & (blade ^ target) & v.signature().null_mask()) != 0) continue;
      terms += std::abs(static_cast<double>(v[j]) *
                        static_cast<double>(inverted[blade_table(v.dimension()).index[blade ^ target]]));
    }
    if (terms == 0) continue;
    error = std::max(error, std::abs(static_cast<double>(wide[i]) - (i == 0 ? 1 : 0)) / terms);
  }
  return error / static_cast<double>(std::numeric_limits<Scalar>::epsilon());
}

/// A random vector of the algebra that is far from null, its null coefficients times `far`.
template <class V>
V random_vector(const typename V::SignatureType& algebra, double far, std::mt19937& generator) {
  while (true) {
    V v = test::random_element<V>(algebra, generator);
    if (std::abs(v.squared_norm()) < typename V::Scalar(0.3)) continue;
    for (int k = algebra.p() + algebra.q(); k < algebra.n(); ++k)
      v[k] *= static_cast<typename V::Scalar>(far);
    return v;
  }
}

template <class Scalar, int P, int Q, int R>
void check_versors(const Signature<P, Q, R>& algebra, double far) {
  using M = Multivector<Scalar, P, Q, R>;
  using V = Vector<Scalar, P, Q, R>;
  if (algebra.p() + algebra.q() == 0) return;
  INFO(algebra << ", " << sizeof(Scalar) << " bytes, null coefficients up to " << far);
  std::mt19937 generator(7);
  for (int factors = 0; factors <= 5; ++factors) {
    M v = M::scalar(algebra, Scalar(1));
    for (int k = 0; k < factors; ++k) v = v * random_vector<V>(algebra, far, generator);
    const double far_scale = sizeof(Scalar) == 4 && far > 1 ? 1e20 : 1e30;  // float ends at 1e38
    for (const double scale : {1.0, 1 / far_scale, far_scale}) {
      CAPTURE(factors, scale);
      const M scaled = v * static_cast<Scalar>(scale);
      CHECK(inversion_error(scaled, inverse(scaled)) < 300);
    }
  }
}

using Any = Signature<Dynamic, Dynamic, Dynamic>;

}  // namespace

TEST_CASE("inverse: versors of every signature, even and odd, at every scale") {
  for (int n = 1; n <= 5; ++n) {
    for (int q = 0; q <= n; ++q) {
      for (int r = 0; q + r <= n; ++r) {
        check_versors<double>(Any(n - q - r, q, r), 1);
        check_versors<float>(Any(n - q - r, q, r), 1);
        if (r > 0) check_versors<double>(Any(n - q - r, q, r), 1e9);
        if (r > 0) check_versors<float>(Any(n - q - r, q, r), 1e3);
      }
    }
  }
  check_versors<double>(Signature<3, 0, 1>(), 1e100);
  check_versors<float>(Signature<4, 1>(), 1);
  check_versors<float>(Signature<7>(), 1);
  check_versors<double>(Signature<Dynamic>(9), 1);
}

TEST_CASE("inverse: translators and planes far from the origin") {
  const auto check = [](auto scalar, double distance) {
    using S = decltype(scalar);
    const S t = static_cast<S>(distance);
    CAPTURE(distance, sizeof(S));
    const Multivector<S, 3, 0, 1> translator = Rotor<S, 3, 0, 1>{1, 0, 0, t / 2, 0, -t, t / 3, 0};
    CHECK(inverse(translator) == translator.reversed());
    CHECK(inverse(translator.even_part()) == translator.even_part().reversed());
    const Vector<S, 3, 0, 1> plane{S(0.6), 0, S(0.8), t};
    CHECK(inverse(plane).is_approx(plane));
    // the same in Cl(4, 1), where e_inf = e4 + e5
    using V = Vector<S, 4, 1>;
    const V infinity{0, 0, 0, 1, 1};
    const Multivector<S, 4, 1> one = Multivector<S, 4, 1>::scalar({}, S(1));
    const Multivector<S, 4, 1> far = one + (V{t, 0, 0, 0, 0} ^ infinity);
    CHECK(inverse(far) == far.reversed());
    CHECK(inverse(Multivector<S, 4, 1>(far.even_part())) == far.reversed());
    const V sphere = V{0, 0, 1, 0, 0} + infinity * t;
    CHECK(inverse(sphere) == sphere);
  };
  for (const double distance : {1.0, 200.0, 500.0, 1e5, 1e7, 1e15}) {
    check(float(), distance);
    check(double(), distance);
    check(double(), distance * 1e10);
  }
}

TEST_CASE("inverse: one that has drifted is corrected, what is no versor is refused") {
  std::mt19937 generator(3);
  for (const Any& algebra :
       {Any(4, 0, 0), Any(3, 0, 1), Any(4, 1, 0), Any(2, 2, 0), Any(1, 3, 0), Any(2, 1, 2)}) {
    INFO(algebra);
    using M = Multivector<double, Dynamic, Dynamic, Dynamic>;
    using V = Vector<double, Dynamic, Dynamic, Dynamic>;
    M v = M::scalar(algebra, 1);
    for (int k = 0; k < 4; ++k) v = v * random_vector<V>(algebra, 1, generator);
    const M noise = test::random_element<M>(algebra, generator, 1e-10 * v.coeffs().norm());
    const M drifted = v + M(noise.even_part());
    CHECK((drifted * inverse(drifted)).is_approx(M::scalar(algebra, 1), 1e-12));
    CHECK_THROWS_AS(inverse(v + M(test::random_element<M>(algebra, generator, v.coeffs().norm()))),
                    std::invalid_argument);
    CHECK_THROWS_AS(inverse(M::scalar(algebra, 1) + M::pseudoscalar(algebra) * 0.5 + M::blade(algebra, 1)),
                    std::invalid_argument);
  }
}

TEST_CASE("inverse: null vectors are refused, with rounding in them too") {
  std::mt19937 generator(4);
  for (int i = 0; i < 50; ++i) {
    // points of conformal geometry: x + x^2/2 e_inf + e_o
    const auto x = test::random_element<Vector<double, 3>>({}, generator, std::pow(10, i % 4));
    const double h = x.squared_norm() / 2;
    const Vector<double, 4, 1> point{x[0], x[1], x[2], h - 0.5, h + 0.5};
    CHECK_THROWS_AS(inverse(point), std::invalid_argument);
    CHECK_THROWS_AS(inverse(point.cast<float>()), std::invalid_argument);
    CHECK_THROWS_AS(inverse(point * 1e-30), std::invalid_argument);
  }
  CHECK_THROWS_AS(inverse(Vector<double, 1, 1>{1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(inverse(Vector<double, 3, 0, 1>{0, 0, 0, 1e9}), std::invalid_argument);
  CHECK_THROWS_AS(inverse(Bivector<float, 3, 0, 1>{0, 0, 1, 0, 1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(inverse(Rotor<double, 4, 1>() - Rotor<double, 4, 1>()), std::invalid_argument);
}

TEST_CASE("inverse: an inverse that overflows is an error") {
  CHECK_THROWS_AS(inverse(Vector<float, 3>{1e-42f, 0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(inverse(Vector<float, 3, 0, 1>{1e-20f, 0, 0, 1e20f}), std::invalid_argument);
  CHECK(inverse(Vector<float, 3, 0, 1>{1e20f, 0, 0, 1e30f}).is_approx({1e-20f, 0, 0, 1e-10f}));
}

TEST_CASE("inverse of Eigen's AutoDiffScalar: d(v^-1) = -v^-1 dv v^-1") {
  using Dual = Eigen::AutoDiffScalar<Eigen::Matrix<double, 1, 1>>;
  const Rotor<double, 3, 0, 1> r{0.6, 0.8, 0, 3, 0, -4, 5, 0.8 * 5 / 0.6};
  std::mt19937 generator(1);
  const auto b = test::random_element<Bivector<double, 3, 0, 1>>({}, generator);
  const Rotor<double, 3, 0, 1> d = r * b.even_part();  // stays a versor
  Rotor<Dual, 3, 0, 1> dual;
  for (Index i = 0; i < r.size(); ++i) dual[i] = Dual(r[i], Eigen::Matrix<double, 1, 1>(d[i]));
  const auto inverted = inverse(dual);
  const auto expected = -(inverse(r) * d * inverse(r));
  for (Index i = 0; i < r.size(); ++i)
    CHECK(inverted[i].derivatives()[0] == Approx(expected[i]).margin(1e-13));
  const Dual big(1e4, Eigen::Matrix<double, 1, 1>(1.0));
  const Rotor<Dual, 4, 1> translator = Rotor<Dual, 4, 1>(
      {}, {Dual(1.0), Dual(0.0), Dual(0.0), big, big, Dual(0.0), Dual(0.0), Dual(0.0), Dual(0.0), Dual(0.0),
           Dual(0.0), Dual(0.0), Dual(0.0), Dual(0.0), Dual(0.0), Dual(0.0)});
  CHECK(inverse(translator)[3].derivatives()[0] == Approx(-1));
}

TEST_CASE("normalized: motors far from the origin") {
  std::mt19937 generator(11);
  const auto check = [&](auto scalar, double distance) {
    using S = decltype(scalar);
    using R = Rotor<S, 3, 0, 1>;
    CAPTURE(distance, sizeof(S));
    const double epsilon = std::numeric_limits<S>::epsilon();
    for (int i = 0; i < 20; ++i) {
      const auto part = test::random_element<Rotor<double, 3, 0, 1>>({}, generator);
      const auto shift = test::random_element<Vector<double, 3>>({}, generator, distance);
      const Rotor<double, 3, 0, 1> turn({}, {1.2 + part[0], part[1], part[2], 0, part[4], 0, 0, 0});
      const Rotor<double, 3, 0, 1> translator({}, {1, 0, 0, shift[0], 0, shift[1], shift[2], 0});
      const Rotor<double, 3, 0, 1> motor = translator * turn / turn.norm();
      R drifted = motor.template cast<S>() * S(3);
      drifted[7] *= S(1.01);
      drifted[3] += static_cast<S>(distance / 100);
      const R restored = drifted.normalized();
      const auto wide = restored.template cast<long double>();
      const auto square = ~wide * wide;
      CHECK(std::abs(static_cast<double>(square[0]) - 1) < 8 * epsilon);
      CHECK(std::abs(static_cast<double>(square[7])) < 16 * epsilon * (1 + distance));
      CHECK((restored.coeffs().template cast<double>() - motor.coeffs()).norm() < 0.2 * distance);
      CHECK(restored.normalized().is_approx(restored, static_cast<S>(16 * epsilon)));
      const R again = (motor.template cast<S>() * S(1e-30)).normalized();
      CHECK((again.coeffs().template cast<double>() - motor.coeffs()).norm() < 32 * epsilon * (1 + distance));
    }
  };
  for (const double distance : {1.0, 1e3, 1e5, 1e9}) {
    check(float(), distance);
    check(double(), distance);
  }
}

TEST_CASE("normalized: boosts, up to a rapidity that double precision holds") {
  for (int rapidity = 0; rapidity <= 36; ++rapidity) {
    CAPTURE(rapidity);
    const double c = std::cosh(rapidity), s = std::sinh(rapidity);
    const Rotor<double, 1, 3> boost({}, {c, s, 0, 0, 0, 0, 0, 0});
    CHECK((boost.normalized().coeffs() - boost.coeffs()).norm() <= 1e-14 * c);
    const Rotor<double, 4, 1> dilator({}, {c, 0, 0, 0, 0, 0, 0, 0, 0, 0, s, 0, 0, 0, 0, 0});
    CHECK((dilator.normalized().coeffs() - dilator.coeffs()).norm() <= 1e-14 * c);
    const Rotor<double, 1, 3> turn({}, {0.6, 0, 0, 0, 0, 0, 0.8, 0}), other({}, {0.8, 0, 0, 0, 0.6, 0, 0, 0});
    const Rotor<double, 1, 3> product = other * boost * turn * ~other;
    CHECK((product.normalized().coeffs() - product.coeffs()).norm() <= 1e-13 * c);
    const Rotor<float, 1, 3> single = boost.cast<float>();
    CHECK((single.normalized().coeffs() - single.coeffs()).norm() <= 1e-5f * static_cast<float>(c));
  }
}

TEST_CASE("normalized: in every signature of up to five dimensions") {
  std::mt19937 generator(5);
  using V = Vector<double, Dynamic, Dynamic, Dynamic>;
  using R = Rotor<double, Dynamic, Dynamic, Dynamic>;
  for (int n = 1; n <= 5; ++n) {
    for (int q = 0; q <= n; ++q) {
      for (int r = 0; q + r < n; ++r) {
        const Any algebra(n - q - r, q, r);
        INFO(algebra);
        for (int i = 0; i < 5; ++i) {
          R rotor(algebra);
          for (int k = 0; k < 2; ++k) {
            V a = random_vector<V>(algebra, 10, generator), b = a;
            b[0] += 0.05;
            b[n - 1] -= 0.05;
            if (a.squared_norm() * b.squared_norm() < 0.01) continue;
            rotor = rotor * (a * b).even_part();
          }
          rotor /= rotor.norm();
          const double size = rotor.coeffs().norm();
          const R drifted = rotor + test::random_element<R>(algebra, generator, 1e-6 / (size * size));
          const R restored = drifted.normalized();
          CHECK((restored.coeffs() - rotor.coeffs()).norm() < 1e-4 * size);
          CHECK((~restored * restored).is_approx(R(algebra), 1e-14 * size * size));
          CHECK((restored * ~restored).is_approx(R(algebra), 1e-14 * size * size));
        }
      }
    }
  }
}

TEST_CASE("normalized: a long product of motors, and what is no rotor") {
  const Rotor<float, 3, 0, 1> step({}, {std::cos(0.3f), std::sin(0.3f), 0, 0.25f, 0, -0.5f, 0.1f, 0});
  Rotor<float, 3, 0, 1> motor = step.normalized();
  const Rotor<float, 3, 0, 1> unit = motor;
  for (int i = 0; i < 100000; ++i) {
    motor = motor * unit;
    if (i % 100 == 0) motor = motor.normalized();
  }
  CHECK((motor * ~motor - Rotor<float, 3, 0, 1>()).coeffs().norm() < 1e-5f * motor.coeffs().norm());
  CHECK(std::isfinite(motor.coeffs().norm()));
  CHECK_THROWS_AS((Rotor<float, 3, 0, 1>({}, {0, 0, 0, 1, 0, 0, 0, 0}).normalized()), std::invalid_argument);
  CHECK_THROWS_AS((Rotor<float, 1, 1>({}, {1, 1}).normalized()), std::invalid_argument);
  CHECK_THROWS_AS((Rotor<float, 1, 1>({}, {1, 2}).normalized()), std::invalid_argument);
}
