// SPDX-License-Identifier: MIT
// Compiled with -ffast-math and ROTORLIN_ALLOW_FAST_MATH: what is NaN or infinite is refused as without.
#include <catch2/catch.hpp>
#include <limits>

#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/log.hpp"
#include "rotorlin/files/serialization.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/linalg/gram_accumulator.hpp"
#include "rotorlin/training/fit.hpp"
#include "support/temporary_folder.hpp"

using namespace rotorlin;

namespace {

template <class S>
Matrix<S> random(Index rows, Index cols, std::uint64_t seed) {
  Matrix<S> m(rows, cols);
  Random(seed).fill_uniform(m, -1, 1);
  return m;
}

// Read at run time: a compiler that is told of no NaN may do as it likes with a constant one.
template <class S>
S bad(int which) {
  volatile S value = which == 0   ? std::numeric_limits<S>::quiet_NaN()
                     : which == 1 ? std::numeric_limits<S>::infinity()
                                  : -std::numeric_limits<S>::infinity();
  return value;
}

}  // namespace

#if !defined(__FINITE_MATH_ONLY__) || __FINITE_MATH_ONLY__ == 0
#error "compile this file with -ffast-math"
#endif

TEMPLATE_TEST_CASE("NaN and infinities are refused under -ffast-math", "", float, double) {
  using S = TestType;
  const int which = GENERATE(0, 1, 2);
  Bivector<S, 4> b;
  b[3] = bad<S>(which);
  CHECK_THROWS_AS(exp(b), std::domain_error);
  Rotor<S, 4> r;
  r[1] = bad<S>(which);
  CHECK_THROWS_AS(log(r), std::domain_error);
  CHECK_THROWS_AS(r.normalized(), std::domain_error);
  Bivector<S, Dynamic> dynamic(Signature<Dynamic>(6));
  dynamic[14] = bad<S>(which);
  CHECK_THROWS_AS(exp(dynamic), std::domain_error);
  CHECK_THROWS_AS(invariant_decomposition(dynamic), std::domain_error);

  CHECK_THROWS_AS(Adam<S>({.epsilon = static_cast<double>(bad<S>(which))}), std::invalid_argument);
}

// The layers look for NaN with the same functions in both scalars.
TEST_CASE("Layers refuse NaN and infinities under -ffast-math") {
  using S = float;
  const int which = GENERATE(0, 1, 2);
  RotorLinear<S> layer(16, 16);
  Matrix<S> x = random<S>(16, 20, 1), y = layer.forward(x);
  const Matrix<S> good = x;
  x(3, 7) = bad<S>(which);
  CHECK_THROWS_AS(fit(layer, x, y, {.epochs = 1}), std::domain_error);
  CHECK_THROWS_AS(fit(layer, y, x, {.epochs = 1}), std::domain_error);
  Matrix<S> w = random<S>(16, 16, 2);
  w(0, 5) = bad<S>(which);
  LowRankLinear<S> low(16, 16, 2);
  CHECK_THROWS_AS(low.fit_closed_form(w, Matrix<S>::Identity(16, 16)), std::domain_error);
  GramAccumulator seen(16);
  CHECK_THROWS_AS(seen.add(x), std::domain_error);

  layer.parameters()[2] = bad<S>(which);
  CHECK_THROWS_AS(layer.forward(good), std::domain_error);
  const test::TemporaryFolder folder;
  CHECK_THROWS_AS(save(layer, folder / "layer"), std::domain_error);
}

TEMPLATE_TEST_CASE("Finite numbers come out right under -ffast-math", "", float, double) {
  using S = TestType;
  const S accuracy = 100 * std::numeric_limits<S>::epsilon();
  for (const S scale : {S(0), S(1e-8), S(0.3), S(1)}) {
    Bivector<S, 5> b;
    Random(3).fill_uniform(b.coeffs(), -1, 1);
    b *= scale;
    const auto r = exp(b);
    CHECK(std::abs((r * ~r)[0] - 1) < accuracy);
    CHECK((log(r).coeffs() - b.coeffs()).norm() <= accuracy * (scale + std::numeric_limits<S>::min()));
  }
}

TEST_CASE("Layers come out right under -ffast-math") {
  using S = float;
  const S accuracy = 100 * std::numeric_limits<S>::epsilon();
  const RotorLinear<S> layer(16, 12);
  const Matrix<S> x = random<S>(16, 40, 1), y = layer.forward(x);
  CHECK((layer.to_dense() * x - y).norm() < accuracy * y.norm());
  LowRankLinear<S> low(16, 12, 12);
  low.fit_closed_form(layer.to_dense(), Matrix<S>::Identity(16, 16));
  CHECK((low.forward(x) - y).norm() < accuracy * y.norm());
  const test::TemporaryFolder folder;
  save(layer, folder / "layer");
  CHECK(load<RotorLinear<S>>(folder / "layer").parameters() == layer.parameters());
}
