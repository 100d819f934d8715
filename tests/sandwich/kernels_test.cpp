// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rotorlin/sandwich/kernel.hpp"
#include "rotorlin/sandwich/sandwich.hpp"
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

/// Up to which n a kernel is tried: parity blocks are matrices of half of 2^n rows.
template <class K>
int largest_dimension() {
  return K::name == "parity_blocks" ? 7 : 9;
}

/// What somebody new would write first: a kernel that sums the products of coefficients, term by term. It
/// stands for any kernel that is still to come.
template <class S>
struct TermByTerm {
  struct Operator {
    int n = 0;
    std::vector<S> r, s;  // even coefficients, alpha in r
    bool adjoint = false;
  };
  struct Weights {
    Operator forward, adjoint;
  };
  static constexpr std::string_view name = "term_by_term";
  static constexpr bool single_rotor_only = false;
  static constexpr bool transforms = false;
  static constexpr bool fastest(int, bool, Index) { return false; }
  static Index singles_of_gradient(int) { return 0; }
  static double work(int n) { return std::ldexp(1.0, 3 * n); }
  static Index scratch_size(int n) { return Index{7} << n; }  // more than it needs: it is asked for, and used
  static Index singles_per_tile(int) { return 1; }

  template <class Wide>
  static void prepare(const detail::RotorPair<Wide>& pair, Wide alpha, bool with_adjoint, Weights& weights,
                      PackBuffer<Wide>&) {
    for (const bool adjoint : {false, true}) {
      if (adjoint && !with_adjoint) continue;
      Operator& op = adjoint ? weights.adjoint : weights.forward;
      op = {pair.n, {}, {}, adjoint};
      for (Index i = 0; i < Index{1} << (pair.n - 1); ++i) {
        op.r.push_back(static_cast<S>(pair.left_even[i] * (adjoint ? Wide(1) : alpha)));
        op.s.push_back(static_cast<S>(pair.right_even[i]));
      }
    }
  }
  template <int W>
  static const S* enter(int, const S* coefficients, S*, S*) {
    return coefficients;
  }
  template <int W>
  static const S* leave(int, const S* coefficients, S*, S*) {
    return coefficients;
  }
  template <int W, bool Add>
  static void apply(int n, const Operator& op, const S* x, S* y, S* scratch) {
    const BladeTable& blades = blade_table(n);
    const Index size = Index{1} << n;
    std::fill(scratch, scratch + scratch_size(n) * W, S(0));
    S* product = scratch + 6 * size * W;
    const auto reversion = [](unsigned blade) { return std::popcount(blade) % 4 >= 2 ? -1 : 1; };
    const auto multiply = [&](const std::vector<S>& even, bool left, bool reversed, const S* from, S* to) {
      for (std::size_t i = 0; i < even.size(); ++i) {
        const unsigned a = blades.even[i];
        for (Index j = 0; j < size; ++j) {
          const unsigned b = blades.mask[static_cast<std::size_t>(j)];
          const int sign = (left ? reorder_sign(a, b) : reorder_sign(b, a)) * (reversed ? reversion(a) : 1);
          for (int w = 0; w < W; ++w)
            to[Index{blades.index[a ^ b]} * W + w] += static_cast<S>(sign) * even[i] * from[j * W + w];
        }
      }
    };
    multiply(op.r, true, op.adjoint, x, product);
    if (!Add) std::fill(y, y + size * W, S(0));
    multiply(op.s, false, !op.adjoint, product, y);
  }

  static Index gradient_size(int n) { return Index{n} * (n - 1) + 1; }
  static Index gradient_scratch_size(int) { return 0; }
  template <int W>
  static void gradient(int n, const S* gx, const S* x, S* sums, S*) {
    const BladeTable& blades = blade_table(n);
    const Index size = Index{1} << n, bivectors = Index{n} * (n - 1) / 2;
    const auto reversion = [](unsigned blade) { return std::popcount(blade) % 4 >= 2 ? -1 : 1; };
    for (Index i = 0; i < size; ++i) {
      for (Index j = 0; j < size; ++j) {
        const unsigned a = blades.mask[static_cast<std::size_t>(i)],
                       b = blades.mask[static_cast<std::size_t>(j)];
        if (a != b && std::popcount(a ^ b) != 2) continue;
        S dot(0);
        for (int w = 0; w < W; ++w) dot += gx[i * W + w] * x[j * W + w];
        if (a == b) {
          sums[2 * bivectors] += dot;
          continue;
        }
        const Index k = blades.index[a ^ b] - (n + 1);
        sums[k] += static_cast<S>(reorder_sign(a, b) * reversion(b)) * dot;
        sums[bivectors + k] += static_cast<S>(reorder_sign(a, b) * reversion(a)) * dot;
      }
    }
  }
  template <class Wide>
  static void finish_gradient(int n, const S* sums, Wide* left, Wide* right, Wide& dot, PackBuffer<Wide>&) {
    const Index bivectors = Index{n} * (n - 1) / 2;
    std::copy(sums, sums + bivectors, left);
    std::copy(sums + bivectors, sums + 2 * bivectors, right);
    dot = static_cast<Wide>(sums[2 * bivectors]);
  }
};
static_assert(detail::SandwichKernel<TermByTerm<float>, float>);

/// body(K{}) for the kernels of the list and the one above.
template <class S, class F>
void for_all_kernels(const F& body) {
  detail::for_each_kernel<S>(body);
  body(TermByTerm<S>{});
}

}  // namespace

TEMPLATE_TEST_CASE("Kernels equal the product term by term", "", float, double) {
  using S = TestType;
  const double tolerance = std::is_same_v<S, float> ? 2e-6 : 1e-14;
  for_all_kernels<S>([&]<class K>(K) {
    INFO(K::name);
    for (int n = 1; n <= largest_dimension<K>() - (K::name == "term_by_term" ? 2 : 0); ++n) {
      for (const bool single : {false, true}) {
        if (single || !K::single_rotor_only) check_lanes<K, S>(n, single, tolerance);
      }
    }
  });
  // float32 at n = 11: within 4e-6 of the product in float64
  check_lanes<detail::SpinorKernel<S>, S>(11, false, std::is_same_v<S, float> ? 4e-6 : 1e-14);
  check_lanes<detail::ShearKernel<S>, S>(11, true, std::is_same_v<S, float> ? 4e-6 : 1e-14);
}

TEMPLATE_TEST_CASE("Kernels keep to the scratch that they ask for", "", float, double) {
  using S = TestType;
  constexpr int lanes = detail::native_lanes<S>;
  for_all_kernels<S>([&]<class K>(K) {
    for (int n = 1; n <= 7; ++n) {
      INFO(K::name << " n = " << n);
      const test::RandomRotor r(n, 1);
      const detail::RotorPair<double> pair{n, r.even.data(), r.even.data(), r.rotation.data()};
      typename K::Weights weights;
      PackBuffer<double> memory;
      K::prepare(pair, 1.0, true, weights, memory);
      const Index size = Index{1} << n;
      const auto check_memory = [&](auto width) {
        constexpr int W = decltype(width)::value;
        // every scalar of the memory holds a value that nobody computes, and behind it a fence
        const Index needed = detail::act_memory<K, S>(n, W), fence = 64;
        VectorX<S> arena = VectorX<S>::Constant(needed + fence, S(12345)), x(size * W), y(size * W);
        Random(1).fill_uniform(x, -1, 1);
        detail::act<K, W>(n, weights.forward, x.data(), y.data(), detail::Arena<S>(arena.data()));
        CHECK((arena.tail(fence).array() == S(12345)).all());
        VectorX<S> in_place = x;
        detail::act<K, W>(n, weights.forward, in_place.data(), in_place.data(),
                          detail::Arena<S>(arena.data()));
        CHECK(in_place == y);

        const Index scratch_size = K::gradient_scratch_size(n) * W;
        VectorX<S> scratch = VectorX<S>::Constant(scratch_size + fence, S(12345));
        VectorX<S> sums = VectorX<S>::Constant(K::gradient_size(n) + fence, S(0));
        VectorX<S> domain(2 * size * W), enter_scratch(K::scratch_size(n) * W + 1);
        const S* entered = K::template enter<W>(n, x.data(), domain.data(), enter_scratch.data());
        K::template gradient<W>(n, entered, entered, sums.data(), scratch.data());
        CHECK((scratch.tail(fence).array() == S(12345)).all());
        CHECK(sums.tail(fence).isZero(0));
      };
      check_memory(std::integral_constant<int, 1>{});
      check_memory(std::integral_constant<int, lanes>{});
    }
  });
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
    for_all_kernels<S>([&]<class K>(K) {
      INFO(K::name);
      VectorX<double> found = gradient<K, S, W>(n, gx, x), wanted = expected;
      if (K::single_rotor_only) {  // only the sum of both sides, which is all that a single rotor needs
        for (VectorX<double>* v : {&found, &wanted}) {
          v->head(bivectors) += v->segment(bivectors, bivectors);
          v->segment(bivectors, bivectors).setZero();
        }
      }
      if (n <= largest_dimension<K>()) CHECK((found - wanted).norm() <= tolerance * scale);
    });
  }
}

TEST_CASE("The choice of kernel") {
  for (int n = 1; n <= max_dimension; ++n) {
    CHECK(choose_kernel(n, false) == (n <= 5 ? Kernel::parity_blocks : Kernel::spinor));
    const bool transforms = n >= 8 && n <= 10;
    CHECK(choose_kernel(n, true) == (n <= 5       ? Kernel::parity_blocks
                                     : transforms ? Kernel::spinor
                                                  : Kernel::shears));
    CHECK(choose_kernel(n, true, 4) == (n <= 5                 ? Kernel::parity_blocks
                                        : transforms || n == 7 ? Kernel::spinor
                                                               : Kernel::shears));
  }
}

TEST_CASE("Kernels have names") {
  for (const auto& [kernel, name] : kernel_names) CHECK(kernel_from_string(to_string(kernel)) == kernel);
  CHECK_THROWS_WITH(kernel_from_string("cuda"),
                    Catch::Matchers::Contains("'cuda'") &&
                        Catch::Matchers::Contains("automatic, parity_blocks, spinor, shears or dense"));
  CHECK(to_string(Kernel::spinor) == detail::SpinorKernel<float>::name);
  CHECK(to_string(Kernel::shears) == detail::ShearKernel<float>::name);
  CHECK(to_string(Kernel::parity_blocks) == detail::ParityKernel<float>::name);
  CHECK(to_string(Kernel::dense) == "dense");
  for (const int outside : {-1, 5, 1000}) {
    CHECK_FALSE(is_kernel(static_cast<Kernel>(outside)));
    CHECK(to_string(static_cast<Kernel>(outside)) == "unknown");
  }
}

TEST_CASE("Dimensions outside 1 .. 14 have no spinor form") {
  CHECK_THROWS_AS(spinor_basis(0), std::invalid_argument);
  CHECK_THROWS_AS(spinor_basis(15), std::invalid_argument);
}
