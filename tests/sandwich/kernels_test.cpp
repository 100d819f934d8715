// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <string>

#include "rotorlin/sandwich/kernel.hpp"
#include "support/direct.hpp"

using namespace rotorlin;
using detail::PackBuffer;

namespace {

/// y for W samples x (2^n x W), through kernel K alone.
template <class K, class S, int W>
Matrix<S> run(int n, const typename K::Operator& op, const Matrix<S>& x) {
  const Index size = Index{1} << n;
  PackBuffer<S> memory[5];
  S* tile = memory[0].reserve(size * W);
  S* domain = memory[1].reserve(size * W);
  S* result = memory[2].reserve(size * W);
  S* chunk = memory[3].reserve(size * W);
  S* scratch = memory[4].reserve(std::max<Index>(K::scratch_size(n), 1) * W);
  detail::load_tile<S, W>(x.data(), size, size, W, tile);
  const S* entered = K::template enter<W>(n, tile, domain, scratch);
  K::template apply<W, false>(n, op, entered, result, scratch);
  K::template apply<W, true>(n, op, entered, result, scratch);  // the second adds
  const S* y = K::template leave<W>(n, result, chunk, scratch);
  Matrix<S> out(size, W);
  detail::store_tile<S, W>(y, size, out.data(), size, W);
  return out / S(2);
}

template <class K, class S, int W>
void check(int n, bool single, double tolerance) {
  CAPTURE(n, single, W);
  const test::RandomRotor r(n, 10 + static_cast<unsigned>(n));
  const test::RandomRotor other(n, 50 + static_cast<unsigned>(n));
  const test::RandomRotor& s = single ? r : other;
  const detail::RotorPair<double> pair{n, r.even.data(), s.even.data(), r.rotation.data()};
  const double alpha = -0.75;
  typename K::Weights weights;
  PackBuffer<double> memory;
  K::prepare(pair, alpha, true, weights, memory);

  const Index size = Index{1} << n;
  Matrix<S> x(size, W);
  Random(3).fill_uniform(x, -1.0, 1.0);
  const Matrix<S> y = run<K, S, W>(n, weights.forward, x);
  const Matrix<S> back = run<K, S, W>(n, weights.adjoint, y);
  for (Index sample : {Index{0}, Index{W - 1}}) {
    const VectorX<double> input = x.col(sample).template cast<double>();
    const VectorX<double> expected = alpha * test::direct_sandwich(n, r.even, s.even, input);
    CHECK((y.col(sample).template cast<double>() - expected).norm() <= tolerance * expected.norm());
    // the adjoint of an orthogonal map is its inverse; it leaves alpha out
    CHECK((back.col(sample).template cast<double>() / alpha - input).norm() <= 2 * tolerance * input.norm());
  }
}

template <class K, class S>
void check_lanes(int n, bool single, double tolerance) {
  check<K, S, 1>(n, single, tolerance);
  if constexpr (detail::native_lanes < S >> 1) check<K, S, detail::native_lanes<S>>(n, single, tolerance);
}

}  // namespace

TEMPLATE_TEST_CASE("Kernels equal the product term by term", "", float, double) {
  using S = TestType;
  const double tolerance = std::is_same_v<S, float> ? 2e-6 : 1e-14;
  for (int n = 1; n <= 9; ++n) {
    for (const bool single : {false, true}) {
      check_lanes<detail::SpinorKernel<S>, S>(n, single, tolerance);
      if (n <= 7) check_lanes<detail::ParityKernel<S>, S>(n, single, tolerance);
    }
    check_lanes<detail::ShearKernel<S>, S>(n, true, tolerance);
  }
  // float32 at n = 11: within 4e-6 of the product in float64
  check_lanes<detail::SpinorKernel<S>, S>(11, false, std::is_same_v<S, float> ? 4e-6 : 1e-14);
  check_lanes<detail::ShearKernel<S>, S>(11, true, std::is_same_v<S, float> ? 4e-6 : 1e-14);
}

TEST_CASE("Kernels run on long double, which has no vectors") {
  for (int n = 1; n <= 6; ++n) {
    const test::RandomRotor r(n, 1);
    const VectorX<long double> even = r.even.cast<long double>();
    const Matrix<long double> rotation = r.rotation.cast<long double>();
    const detail::RotorPair<long double> pair{n, even.data(), even.data(), rotation.data()};
    Matrix<long double> x = Matrix<long double>::Random(Index{1} << n, 1);
    PackBuffer<long double> memory;
    detail::SpinorKernel<long double>::Weights spinor;
    detail::ShearKernel<long double>::Weights shears;
    detail::SpinorKernel<long double>::prepare(pair, 1.0L, false, spinor, memory);
    detail::ShearKernel<long double>::prepare(pair, 1.0L, false, shears, memory);
    const auto a = run<detail::SpinorKernel<long double>, long double, 1>(n, spinor.forward, x);
    const auto b = run<detail::ShearKernel<long double>, long double, 1>(n, shears.forward, x);
    CHECK(static_cast<double>((a - b).norm()) < 1e-14);
  }
}

TEST_CASE("Large dimensions: the spinor form is a true representation") {
  // generators anticommute and square to -1: checked through r x r~ of vectors for n up to 14
  for (int n = 10; n <= max_dimension; ++n) {
    CAPTURE(n);
    const test::RandomRotor r(n, 5);
    const detail::RotorPair<double> pair{n, r.even.data(), r.even.data(), r.rotation.data()};
    using K = detail::SpinorKernel<double>;
    K::Weights weights;
    PackBuffer<double> memory;
    K::prepare(pair, 1.0, false, weights, memory);
    Matrix<double> x = Matrix<double>::Zero(Index{1} << n, 1);
    Random(8).fill_uniform(x.block(1, 0, n, 1), -1.0, 1.0);
    const Matrix<double> y = run<K, double, 1>(n, weights.forward, x);
    const VectorX<double> turned = r.rotation * x.block(1, 0, n, 1);
    CHECK((y.block(1, 0, n, 1) - turned).norm() < 1e-13);
    CHECK(std::abs(y.norm() - x.norm()) < 1e-13);
  }
}

namespace {

/// <gx x~>_2, <gx~ x>_2 and <gx, x> through kernel K, summed over W samples.
template <class K, class S, int W>
VectorX<double> gradient(int n, const Matrix<S>& gx, const Matrix<S>& x) {
  const Index size = Index{1} << n;
  const Index bivectors = Index{n} * (n - 1) / 2;
  PackBuffer<S> memory[5];
  S* tile[2] = {memory[0].reserve(size * W), memory[1].reserve(size * W)};
  S* domain[2] = {memory[2].reserve(size * W), memory[3].reserve(size * W)};
  S* scratch = memory[4].reserve(std::max({K::scratch_size(n), K::gradient_scratch_size(n), Index{1}}) * W);
  const S* entered[2];
  for (int k : {0, 1}) {
    detail::load_tile<S, W>((k ? x : gx).data(), size, size, W, tile[k]);
    entered[k] = K::template enter<W>(n, tile[k], domain[k], scratch);
  }
  std::vector<S> sums(static_cast<std::size_t>(K::gradient_size(n)), S(0));
  K::template gradient<W>(n, entered[0], entered[1], sums.data(), scratch);
  VectorX<double> result(2 * bivectors + 1);
  PackBuffer<double> wide;
  K::finish_gradient(n, sums.data(), result.data(), result.data() + bivectors, result[2 * bivectors], wide);
  return result;
}

/// The same term by term for one sample.
VectorX<double> direct_gradient(int n, const VectorX<double>& gx, const VectorX<double>& x) {
  const BladeTable& blades = blade_table(n);
  const Index bivectors = Index{n} * (n - 1) / 2;
  VectorX<double> result = VectorX<double>::Zero(2 * bivectors + 1);
  const auto reversion = [](unsigned blade) { return std::popcount(blade) % 4 >= 2 ? -1 : 1; };
  for (Index i = 0; i < gx.size(); ++i) {
    for (Index j = 0; j < x.size(); ++j) {
      const unsigned a = blades.mask[static_cast<std::size_t>(i)];
      const unsigned b = blades.mask[static_cast<std::size_t>(j)];
      if (a == b) result[2 * bivectors] += gx[i] * x[j];
      if (std::popcount(a ^ b) != 2) continue;
      const Index k = blades.index[a ^ b] - (n + 1);
      result[k] += reorder_sign(a, b) * reversion(b) * gx[i] * x[j];
      result[bivectors + k] += reorder_sign(a, b) * reversion(a) * gx[i] * x[j];
    }
  }
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("Bivector parts of the gradient equal the product term by term", "", float, double) {
  using S = TestType;
  constexpr int W = detail::native_lanes<S>;
  const double tolerance = std::is_same_v<S, float> ? 1e-5 : 1e-13;
  for (int n = 1; n <= 9; ++n) {
    CAPTURE(n);
    Matrix<S> gx(Index{1} << n, W);
    Matrix<S> x(Index{1} << n, W);
    Random random(static_cast<unsigned>(n));
    random.fill_uniform(gx, -1.0, 1.0);
    random.fill_uniform(x, -1.0, 1.0);
    const Index bivectors = Index{n} * (n - 1) / 2;
    VectorX<double> expected = VectorX<double>::Zero(2 * bivectors + 1);
    for (Index sample = 0; sample < W; ++sample) {
      expected +=
          direct_gradient(n, gx.col(sample).template cast<double>(), x.col(sample).template cast<double>());
    }
    const double scale = gx.template cast<double>().norm() * x.template cast<double>().norm();
    CHECK((gradient<detail::SpinorKernel<S>, S, W>(n, gx, x) - expected).norm() <= tolerance * scale);
    if (n <= 6)
      CHECK((gradient<detail::ParityKernel<S>, S, W>(n, gx, x) - expected).norm() <= tolerance * scale);
    // shears know only the sum of both sides, which is all that a single rotor needs
    const VectorX<double> sums = gradient<detail::ShearKernel<S>, S, W>(n, gx, x);
    const VectorX<double> both = expected.head(bivectors) + expected.segment(bivectors, bivectors);
    CHECK((sums.head(bivectors) - both).norm() <= tolerance * scale);
    CHECK(std::abs(sums[2 * bivectors] - expected[2 * bivectors]) <= tolerance * scale);
  }
}

TEST_CASE("Kernels have names") {
  for (const auto& [kernel, name] : kernel_names) CHECK(kernel_from_string(to_string(kernel)) == kernel);
  CHECK_THROWS_WITH(kernel_from_string("cuda"), Catch::Matchers::Contains("'cuda'"));
}

TEST_CASE("Dimensions outside 1 .. 14 have no spinor form") {
  CHECK_THROWS_AS(spinor_basis(0), std::invalid_argument);
  CHECK_THROWS_AS(spinor_basis(15), std::invalid_argument);
}
