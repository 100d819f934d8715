// SPDX-License-Identifier: MIT
// Products and sandwiches in registers against the products by definition, for all parts and layouts.
#include <catch2/catch.hpp>
#include <random>

#include "algebra/oracle.hpp"
#include "rotorlin/algebra/multivector.hpp"

namespace {

using namespace rotorlin;

template <class M, class A, class B>
void check_lanes(const A& a, const B& b) {
  CHECK(M(a * b).is_approx(test::product(M(a), M(b), [](int, int, int) { return true; })));
  CHECK(M(b * a).is_approx(test::product(M(b), M(a), [](int, int, int) { return true; })));
}

template <class M, class R, class X>
void check_turn(const R& r, const X& x) {
  const auto all = [](int, int, int) { return true; };
  const M expected = test::product(test::product(M(r), M(x), all), M(r.reversed()), all);
  CHECK(r.apply(x).is_approx(expected.template projected<X>()));
  if (r.signature().is_euclidean()) {
    using D = Rotor<typename X::Scalar, Dynamic>;
    const D dynamic(r.dimension(), r.coeffs());
    if constexpr (X::part == Part::vector) {
      const Vector<typename X::Scalar, Dynamic> y(x.dimension(), x.coeffs());
      CHECK((dynamic.apply(y).coeffs() - r.apply(x).coeffs()).norm() <= 1e-5 * r.coeffs().squaredNorm());
    }
  }
}

template <class Scalar, int P, int Q = 0, int R = 0>
void check_lane_products() {
  constexpr Signature<P, Q, R> algebra;
  INFO("algebra " << algebra << ", " << sizeof(Scalar) << " bytes");
  std::mt19937 generator(static_cast<unsigned>(P + 10 * Q + 100 * R));
  using M = Multivector<Scalar, P, Q, R>;
  const auto m = test::random_element<M>(algebra, generator);
  const auto v = test::random_element<Vector<Scalar, P, Q, R>>(algebra, generator);
  const auto b = test::random_element<Bivector<Scalar, P, Q, R>>(algebra, generator);
  const auto r = test::random_element<Rotor<Scalar, P, Q, R>>(algebra, generator);
  const auto s = test::random_element<Rotor<Scalar, P, Q, R>>(algebra, generator);
  check_lanes<M>(m, M(m.reversed() + m));
  check_lanes<M>(m, v);
  check_lanes<M>(m, b);
  check_lanes<M>(m, r);
  check_lanes<M>(r, s);
  check_lanes<M>(r, v);
  check_lanes<M>(r, b);
  check_turn<M>(r, v);
  check_turn<M>(r, b);
  check_turn<M>(r, s);
  check_turn<M>(r, m);
  M even(algebra), odd(algebra);
  for (Index i = 0; i < m.size(); ++i) {
    (std::popcount(unsigned{m.blades().mask[i]}) % 2 == 0 ? even : odd)[i] = m[i];
  }
  check_turn<M>(r, even);
  check_turn<M>(r, odd);
  check_turn<M>(r, m.grade_part(algebra.n() - 1));
}

}  // namespace

TEST_CASE("Products in registers") {
  check_lane_products<float, 3>();
  check_lane_products<double, 2>();
  check_lane_products<double, 3>();
  check_lane_products<float, 2, 0, 1>();
  check_lane_products<float, 3, 0, 1>();
  check_lane_products<double, 4>();
  check_lane_products<long double, 3>();
}
TEST_CASE("Products in registers: 16 even blades") { check_lane_products<float, 4, 1>(); }
