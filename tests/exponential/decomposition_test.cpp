// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <limits>

#include "exponential/cases.hpp"
#include "rotorlin/exponential/invariant_decomposition.hpp"
#include "support/allocation_counter.hpp"

using namespace rotorlin;

namespace {

template <class Scalar, int N>
void check_decompositions(int n) {
  const Scalar rounding = Scalar(8 * (n + 1)) * std::numeric_limits<Scalar>::epsilon();
  InvariantDecomposition<Scalar, N> planes;  // used again for every case
  for (const test::Case& hard : test::hard_cases(n)) {
    INFO(hard.name << ", n = " << n << ", " << sizeof(Scalar) << " bytes, N = " << N);
    const Scalar norm = static_cast<Scalar>(hard.norm());
    const Bivector<Scalar, N> b(n, hard.b.coeffs().template cast<Scalar>());
    planes.compute(b);
    const auto& q = planes.basis();
    CHECK((q.transpose() * q - Matrix<Scalar>::Identity(n, n)).norm() <= rounding);
    REQUIRE(planes.num_planes() == n / 2);
    for (Index p = 0; p < planes.num_planes(); ++p) {
      CHECK(planes.angles()[p] >= (p + 1 < planes.num_planes() ? planes.angles()[p + 1] : Scalar(0)));
      CHECK(std::abs(planes.angles()[p] - static_cast<Scalar>(hard.angles[static_cast<std::size_t>(p)])) <=
            rounding * norm);
      const auto part = planes.simple_part(p);
      CHECK((part ^ part).coeffs().norm() <= rounding * norm * norm);
    }
    CHECK((planes.bivector().coeffs() - b.coeffs()).norm() <= rounding * norm);
    const Rotor<Scalar, N> r = planes.rotor();
    const auto expected =
        test::series_exp(Bivector<test::Wide, Dynamic>(n, b.coeffs().template cast<test::Wide>()));
    CHECK((r.coeffs().template cast<test::Wide>() - expected.coeffs()).norm() <=
          rounding * std::max(Scalar(1), norm));
  }
}

}  // namespace

TEST_CASE("decomposition: planes, angles and rotor of hard bivectors") {
  for (int n = 0; n <= 8; ++n) check_decompositions<double, Dynamic>(n);
  for (int n : {2, 5, 8}) check_decompositions<float, Dynamic>(n);
}

TEST_CASE("decomposition: n at compile time, and long double") {
  check_decompositions<double, 3>(3);
  check_decompositions<float, 6>(6);
  check_decompositions<long double, Dynamic>(5);
}

TEST_CASE("decomposition: large n") {
  for (int n : {11, 14}) {
    const auto q = test::random_basis(n, 1);
    std::vector<test::Wide> angles;
    for (int p = 0; p < n / 2; ++p) angles.push_back(2.0L - 0.25L * static_cast<test::Wide>(p));
    const auto wide = test::bivector_of(q, angles);
    const Bivector<double, Dynamic> b(n, wide.coeffs().cast<double>());
    const auto planes = invariant_decomposition(b);
    for (int p = 0; p < n / 2; ++p)
      CHECK(std::abs(planes.angles()[p] - static_cast<double>(angles[static_cast<std::size_t>(p)])) < 1e-14);
    // the rotor turns u_p by twice the angle of its plane
    const auto r = planes.rotor();
    const Vector<double, Dynamic> u(n, planes.basis().col(0)), v(n, planes.basis().col(1));
    const double t = 2 * planes.angles()[0];
    CHECK((r.apply(u).coeffs() - std::cos(t) * u.coeffs() + std::sin(t) * v.coeffs()).norm() < 1e-13);
    CHECK(std::abs(r.coeffs().norm() - 1) < 1e-14);
  }
}

TEST_CASE("phi is the derivative of the exponential: phi(ad_b)(h) = d exp(b + t h)/dt exp(b)~") {
  std::mt19937 generator(7);
  for (int n : {2, 3, 4, 5, 6, 7}) {
    for (const test::Case& hard : test::hard_cases(n)) {
      INFO(hard.name << ", n = " << n);
      const auto h = test::random_element<Bivector<test::Wide, Dynamic>>(n, generator);
      const auto derivative = test::series_derivative(hard.b, h);
      const auto reversed = test::series_exp(hard.b).reversed();
      const auto left = derivative * reversed, right = reversed * derivative;
      const InvariantDecomposition<double> planes(hard.b.cast<double>());
      const double scale = std::max(1.0, static_cast<double>(hard.norm()));
      const auto check = [&](int sign, const Rotor<test::Wide, Dynamic>& expected) {
        const VectorX<test::Wide> computed = planes.phi(h.cast<double>(), sign).coeffs().cast<test::Wide>();
        CHECK((computed - expected.bivector_part().coeffs()).norm() <= 2e-14 * scale);
      };
      check(+1, left);
      check(-1, right);
      const InvariantDecomposition<float> narrow(hard.b.cast<float>());
      if (hard.norm() < 40) {
        CHECK((narrow.phi(h.cast<float>(), 1).coeffs().cast<test::Wide>() - left.bivector_part().coeffs())
                  .norm() <= 2e-5);
      }
    }
  }
}

TEST_CASE("decomposition: nothing allocates, n at run time or not") {
  if (!test::counts_allocations) return;
  for (int n : {3, 8, 11, 14}) {
    Bivector<float, Dynamic> b(n);
    for (Index i = 0; i < b.size(); ++i) b[i] = std::sin(static_cast<float>(i + 1));
    InvariantDecomposition<float> planes(b);
    Rotor<float, Dynamic> r(n);
    VectorX<float> coeffs(r.size());
    const long before = test::allocations();
    planes.compute(b);
    planes.rotor(r);
    planes.rotor(coeffs);
    const Bivector<float, Dynamic> g = planes.phi(planes.phi(b, 1), -1);
    CHECK(test::allocations() == before);
    CHECK((g.coeffs() - b.coeffs()).norm() < 1e-5f * b.coeffs().norm());
    CHECK(coeffs == r.coeffs());
  }
}

TEST_CASE("decomposition: bad input") {
  Bivector<double, Dynamic> b(4, {1, 2, 3, 4, 5, 6});
  InvariantDecomposition<double> planes(b);
  CHECK_THROWS_AS(planes.simple_part(2), std::invalid_argument);
  CHECK_THROWS_AS(planes.simple_part(-1), std::invalid_argument);
  CHECK_THROWS_AS(planes.phi(b, 2), std::invalid_argument);
  CHECK_THROWS_WITH(planes.phi(Bivector<double, Dynamic>(5), 1),
                    Catch::Matchers::Contains("Cl(5)") && Catch::Matchers::Contains("Cl(4)"));
  CHECK_THROWS_WITH(planes.compute(b, static_cast<DecompositionMethod>(2)),
                    Catch::Matchers::Contains("method = 2"));
  Rotor<double, Dynamic> wrong(5);
  CHECK_THROWS_AS(planes.rotor(wrong), std::invalid_argument);
  VectorX<double> short_of(7);
  CHECK_THROWS_WITH(planes.rotor(short_of), Catch::Matchers::Contains("7") && Catch::Matchers::Contains("8"));
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    b[3] = bad;
    CHECK_THROWS_AS(planes.compute(b), std::domain_error);
    CHECK_THROWS_AS(planes.compute(b, DecompositionMethod::power_iteration), std::domain_error);
    CHECK_THROWS_AS(exp(b), std::domain_error);
  }
}
