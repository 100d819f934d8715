// SPDX-License-Identifier: MIT
// The laws of the algebra, the same for every signature, scalar and way to hold n.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "algebra/oracle.hpp"
#include "rotorlin/algebra/multivector.hpp"

namespace test {

/// A CHECK of its own: compiled once an algebra, not for every product and pair of types.
template <class M>
void check_product(const char* what, const M& computed, const M& expected) {
  INFO(what);
  CHECK(computed.is_approx(expected));
}

/// All products of two elements against the oracle and against those of the elements as multivectors.
template <class A, class B>
void check_products(const A& a, const B& b) {
  using M = typename rotorlin::detail::ElementRebind<A>::template type<rotorlin::Part::all>;
  const M ma = a, mb = b;
  const auto check = [&](const char* what, const M& computed, Keeps keeps) {
    check_product(what, computed, product(ma, mb, keeps));
  };
  check("a b", a * b, [](int, int, int) { return true; });
  check("a ^ b", a ^ b, [](int s, int t, int g) { return g == s + t; });
  check("left_contraction", left_contraction(a, b), [](int s, int t, int g) { return g == t - s; });
  check("right_contraction", right_contraction(a, b), [](int s, int t, int g) { return g == s - t; });
  check("a | b", a | b, [](int s, int t, int g) { return g == std::abs(s - t); });
  const M scalar = M::scalar(a.signature(), scalar_product(a, b));
  check("scalar_product", scalar, [](int, int, int g) { return g == 0; });
  const M bracket = (product(ma, mb, [](int, int, int) { return true; }) -
                     product(mb, ma, [](int, int, int) { return true; })) /
                    typename M::Scalar(2);
  check_product("commutator_product", M(commutator_product(a, b)), bracket);
  check_product("a + b", M(a + b), ma + mb);
  check_product("a - b", M(a - b), ma - mb);
}

template <class Scalar, int P, int Q = 0, int R = 0>
void check_laws(const rotorlin::Signature<P, Q, R>& algebra) {
  using namespace rotorlin;
  using M = Multivector<Scalar, P, Q, R>;
  using V = Vector<Scalar, P, Q, R>;
  using B = Bivector<Scalar, P, Q, R>;
  using E = Rotor<Scalar, P, Q, R>;
  INFO("algebra " << algebra);
  const int n = algebra.n();
  std::mt19937 generator(static_cast<unsigned>(100 * n + algebra.q() + 10 * algebra.r()));
  for (double scale : {0.0, 1e-8, 1.0}) {
    const M a = random_element<M>(algebra, generator, scale), b = random_element<M>(algebra, generator);
    const M c = random_element<M>(algebra, generator);
    const V v = random_element<V>(algebra, generator, scale), w = random_element<V>(algebra, generator);
    const B f = random_element<B>(algebra, generator), h = random_element<B>(algebra, generator);
    const E r = random_element<E>(algebra, generator), s = random_element<E>(algebra, generator);

    check_products(a, b);
    check_products(a, v);
    check_products(f, b);
    check_products(r, b);
    check_products(v, w);
    check_products(v, f);
    check_products(f, w);
    check_products(f, h);
    check_products(r, s);
    check_products(r, w);
    check_products(f, s);

    // an associative algebra with a distributive product, and a vector that squares to a scalar
    CHECK(((a * b) * c).is_approx(a * (b * c)));
    CHECK(((a ^ b) ^ c).is_approx(a ^ (b ^ c)));
    CHECK((a * (b + c)).is_approx(a * b + a * c));
    CHECK((v * v).is_approx(M::scalar(algebra, scalar_product(v, v))));
    CHECK((v * w + w * v).is_approx(M::scalar(algebra, Scalar(2) * scalar_product(v, w))));
    CHECK(left_contraction(a ^ b, c).is_approx(left_contraction(a, left_contraction(b, c))));

    // the involutions
    CHECK((~(a * b)).is_approx(~b * ~a));
    CHECK((~(r * s)).is_approx(~s * ~r));
    CHECK((a * b).involuted().is_approx(a.involuted() * b.involuted()));
    CHECK((a * b).conjugated().is_approx(b.conjugated() * a.conjugated()));
    CHECK(a.conjugated().is_approx((~a).involuted()));
    CHECK((~f).is_approx(-f));
    CHECK((~v).is_approx(v));

    // grades, and norms
    M sum(algebra);
    for (int k = 0; k <= n; ++k) sum += a.grade_part(k);
    CHECK(sum == a);
    CHECK(M(a.vector_part()) == a.grade_part(1));
    CHECK(M(a.bivector_part()) == a.grade_part(2));
    CHECK(M(a.even_part()).is_approx((a + a.involuted()) / Scalar(2)));
    CHECK(M(f).bivector_part() == f);
    CHECK(M(r).even_part() == r);
    CHECK(M::scalar(algebra, a.squared_norm()).is_approx(M::scalar(algebra, scalar_product(a, ~a))));
    CHECK(std::abs(a.norm() * a.norm() - std::abs(a.squared_norm())) <=
          Scalar(1e-5) * (1 + a.norm() * a.norm()));

    // duality
    for (unsigned blade = 0; blade < (1u << n); ++blade) {
      const M e = M::blade(algebra, blade);
      CHECK((e ^ complement(e)) == M::pseudoscalar(algebra));
    }
    if (algebra.r() == 0) {
      CHECK(undual(dual(a)).is_approx(a));
      CHECK((a * M::pseudoscalar(algebra)).is_approx(undual(a)));
      CHECK((dual(a) * M::pseudoscalar(algebra)).is_approx(a));
    } else {
      CHECK_THROWS_AS(dual(a), std::invalid_argument);
      CHECK_THROWS_AS(inverse(M::pseudoscalar(algebra)), std::invalid_argument);
    }

    // inverses of versors: here w and products of it with one of its kind
    if (std::abs(scalar_product(w, w)) > Scalar(0.05)) {
      const M one = M::scalar(algebra, Scalar(1));
      CHECK((w * inverse(w)).is_approx(one));
      const V u = w + V(algebra, Scalar(0.1) * random_element<V>(algebra, generator).coeffs());
      if (std::abs(scalar_product(u, u)) > Scalar(0.05)) {
        const M versor = w * u;
        CHECK(
            (inverse(versor) * versor).is_approx(one, Scalar(1000) * std::numeric_limits<Scalar>::epsilon()));
        CHECK(inverse(versor.even_part()).is_approx(inverse(versor).even_part()));
      }
    }
    CHECK_THROWS_AS(inverse(M(algebra)), std::invalid_argument);
    if (n >= 3) CHECK_THROWS_AS(inverse(M(w) + M::scalar(algebra, Scalar(1)) + M(f)), std::invalid_argument);

    // the vector space
    CHECK(a + b == b + a);
    CHECK((a - a) == M(algebra));
    CHECK((Scalar(2) * a).is_approx(a + a));
    CHECK((a / Scalar(2)).is_approx(a * Scalar(0.5)));
    CHECK_FALSE(b.is_approx(b + M::scalar(algebra, Scalar(0.01))));
    const auto wide = f.template cast<long double>();
    CHECK(wide.template cast<Scalar>() == f);
  }
}

}  // namespace test
