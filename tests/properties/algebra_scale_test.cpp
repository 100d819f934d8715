// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>

#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/algebra/products.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "scale.hpp"

using namespace properties;

namespace {

template <class A>
A random_element(A a, std::uint64_t seed) {
  Random(seed).fill_uniform(a.coeffs(), -1, 1);
  return a;
}

}  // namespace

TEMPLATE_TEST_CASE("Algebra at any scale: products are linear in each factor", "", float, double) {
  using S = TestType;
  const auto a = random_element(Multivector<S, 4>(), 1), b = random_element(Multivector<S, 4>(), 2);
  const auto v = random_element(Vector<S, 4>(), 3);
  const auto r = exp(random_element(Bivector<S, 4>(), 4));
  for (const double scale : scales) {
    CAPTURE(scale);
    const S s = static_cast<S>(scale);
    CHECK(difference(((s * a) * b).coeffs(), (a * b).coeffs(), scale) < rounding<S>());
    CHECK(difference((a ^ (s * b)).coeffs(), (a ^ b).coeffs(), scale) < rounding<S>());
    CHECK(difference(((s * a) | b).coeffs(), (a | b).coeffs(), scale) < rounding<S>());
    CHECK(difference(r.apply(s * a).coeffs(), r.apply(a).coeffs(), scale) < rounding<S>());
    CHECK(difference(r.apply(s * v).coeffs(), r.apply(v).coeffs(), scale) < rounding<S>());
  }
}

TEMPLATE_TEST_CASE("Algebra at any scale: inverses scale the other way, or are refused", "", float, double) {
  using S = TestType;
  const auto v = random_element(Vector<S, 5>(), 3);
  const auto r = exp(random_element(Bivector<S, 5>(), 4));
  for (const double scale : scales) {
    CAPTURE(scale);
    const S s = static_cast<S>(scale);
    try {
      CHECK(difference(inverse(s * v).coeffs(), inverse(v).coeffs(), 1 / scale) < rounding<S>());
    } catch (const std::exception& refusal) {
      WARN("inverse of a vector at " << scale << ": " << refusal.what());
      CHECK(std::abs(std::log10(scale)) > 18);  // where squares leave the range of float
    }
    try {
      const Multivector<S, 5> scaled = s * Multivector<S, 5>(r);
      CHECK(difference(inverse(scaled).coeffs(), Multivector<S, 5>(~r).coeffs(), 1 / scale) < rounding<S>());
    } catch (const std::exception& refusal) {
      WARN("inverse of a versor at " << scale << ": " << refusal.what());
      CHECK(std::abs(std::log10(scale)) > 18);
    }
  }
}

TEMPLATE_TEST_CASE("Algebra at any scale: a rotor that has drifted by a factor comes back", "", float,
                   double) {
  using S = TestType;
  const auto r = exp(random_element(Bivector<S, 5>(), 4));
  for (const double scale : scales) {
    CAPTURE(scale);
    Rotor<S, 5> drifted = r;
    drifted.coeffs() *= static_cast<S>(scale);
    try {
      CHECK(difference(drifted.normalized().coeffs(), r.coeffs(), 1) < rounding<S>());
    } catch (const std::exception& refusal) {
      WARN("normalized at " << scale << ": " << refusal.what());
      CHECK(std::abs(std::log10(scale)) > 18);
    }
  }
}
