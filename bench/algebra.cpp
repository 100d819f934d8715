// SPDX-License-Identifier: MIT
// Products of multivectors (by the library and by a table of 4^n), exp, log, the decompositions and the
// derivative of exp.
#include <benchmark/benchmark.h>

#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/exponential/derivative.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/log.hpp"
#include "support/layers.hpp"
#include "support/table_product.hpp"

namespace {

using bench::Index;
using rotorlin::DecompositionMethod;
using rotorlin::Dynamic;

template <class Element>
Element random_element(int n, std::uint64_t seed) {
  Element element(n);
  element.coeffs() = bench::random_matrix<typename Element::Scalar>(element.size(), 1, seed);
  return element;
}

template <class M>
void product(benchmark::State& state, int n) {
  const M a = random_element<M>(n, 1), b = random_element<M>(n, 2);
  for (auto _ : state) {
    const M c = a * b;
    benchmark::DoNotOptimize(&c);
  }
}
template <class S>
void product_dynamic(benchmark::State& state) {
  product<rotorlin::Multivector<S, Dynamic>>(state, static_cast<int>(state.range(0)));
}
template <class S, int N>
void product_static(benchmark::State& state) {
  product<rotorlin::Multivector<S, N>>(state, N);
}
template <class S>
void product_table(benchmark::State& state) {
  const auto n = static_cast<int>(state.range(0));
  const bench::TableProduct<S> table(n);
  const auto a = bench::random_matrix<S>(Index{1} << n, 1, 1),
             b = bench::random_matrix<S>(Index{1} << n, 1, 2);
  rotorlin::VectorX<S> c(Index{1} << n);
  for (auto _ : state) {
    table.multiply(a.data(), b.data(), c.data());
    benchmark::DoNotOptimize(c.data());
  }
}
BENCHMARK_TEMPLATE(product_dynamic, float)->DenseRange(2, 12);
BENCHMARK_TEMPLATE(product_dynamic, double)->DenseRange(2, 12);
BENCHMARK_TEMPLATE(product_static, float, 2);
BENCHMARK_TEMPLATE(product_static, float, 3);
BENCHMARK_TEMPLATE(product_static, float, 4);
BENCHMARK_TEMPLATE(product_static, float, 5);
BENCHMARK_TEMPLATE(product_table, float)->DenseRange(2, 12);
BENCHMARK_TEMPLATE(product_table, double)->DenseRange(2, 12);

template <class S>
using Bivector = rotorlin::Bivector<S, Dynamic>;
template <class S>
using Rotor = rotorlin::Rotor<S, Dynamic>;

template <class S, DecompositionMethod method>
void decomposition(benchmark::State& state) {
  const auto b = random_element<Bivector<S>>(static_cast<int>(state.range(0)), 3);
  rotorlin::InvariantDecomposition<S, Dynamic> planes(b, method);
  for (auto _ : state) {
    planes.compute(b, method);
    benchmark::DoNotOptimize(&planes);
  }
}
template <class S>
void exponential(benchmark::State& state) {
  const auto b = random_element<Bivector<S>>(static_cast<int>(state.range(0)), 3);
  for (auto _ : state) {
    const Rotor<S> r = exp(b);
    benchmark::DoNotOptimize(&r);
  }
}
template <class S>
void exponential_vjp(benchmark::State& state) {
  const auto n = static_cast<int>(state.range(0));
  const auto b = random_element<Bivector<S>>(n, 3);
  const auto gradient = random_element<Rotor<S>>(n, 4);
  for (auto _ : state) {
    const Bivector<S> result = exp_vjp(b, gradient);
    benchmark::DoNotOptimize(&result);
  }
}
template <class S>
void logarithm(benchmark::State& state) {
  const Rotor<S> r = exp(random_element<Bivector<S>>(static_cast<int>(state.range(0)), 3));
  for (auto _ : state) {
    const Bivector<S> b = log(r);
    benchmark::DoNotOptimize(&b);
  }
}
BENCHMARK_TEMPLATE(decomposition, float, DecompositionMethod::exact)->DenseRange(3, 12);
BENCHMARK_TEMPLATE(decomposition, float, DecompositionMethod::power_iteration)->DenseRange(3, 12);
BENCHMARK_TEMPLATE(decomposition, double, DecompositionMethod::exact)->DenseRange(3, 12);
BENCHMARK_TEMPLATE(exponential, float)->DenseRange(3, 12);
BENCHMARK_TEMPLATE(exponential, double)->DenseRange(3, 12);
BENCHMARK_TEMPLATE(exponential_vjp, float)->DenseRange(3, 12);
BENCHMARK_TEMPLATE(exponential_vjp, double)->DenseRange(3, 12);
BENCHMARK_TEMPLATE(logarithm, float)->DenseRange(3, 12);

}  // namespace

BENCHMARK_MAIN();
