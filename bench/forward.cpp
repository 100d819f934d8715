// SPDX-License-Identifier: MIT
// Forward and backward of RotorLinear through each kernel by name, n = 4..12 (parity blocks 3..9), and the
// dense layer of the same shape, float and double. Items are samples.
#include <benchmark/benchmark.h>

#include <string>

#include "support/dense.hpp"
#include "support/layers.hpp"

namespace {

using bench::Index;
using rotorlin::Kernel;
using rotorlin::Matrix;

template <class L>
void run_forward(benchmark::State& state, const L& layer, Index batch) {
  using S = typename L::Scalar;
  const Matrix<S> x = bench::random_matrix<S>(layer.in_features(), batch, 1);
  Matrix<S> y(layer.out_features(), batch);
  typename L::Workspace workspace;
  for (auto _ : state) {
    layer.forward(x, y, workspace);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(state.iterations() * batch);
}

template <class L>
void run_backward(benchmark::State& state, L& layer, Index batch) {
  using S = typename L::Scalar;
  const Matrix<S> x = bench::random_matrix<S>(layer.in_features(), batch, 1);
  const Matrix<S> grad_y = bench::random_matrix<S>(layer.out_features(), batch, 2);
  Matrix<S> grad_x(layer.in_features(), batch);
  typename L::Workspace workspace;
  for (auto _ : state) {
    layer.zero_gradients();
    layer.backward(x, grad_y, grad_x, workspace);
    benchmark::DoNotOptimize(grad_x.data());
  }
  state.SetItemsProcessed(state.iterations() * batch);
}

template <class S>
void run_dense(benchmark::State& state, bench::Library library, Index size, Index batch) {
  const Matrix<S> weight = bench::random_matrix<S>(size, size, 3),
                  x = bench::random_matrix<S>(size, batch, 1);
  Matrix<S> y(size, batch);
  for (auto _ : state) {
    bench::dense_forward(library, false, weight.data(), x, y);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(state.iterations() * batch);
}

template <class S, class Body>
void register_batches(const std::string& name, int n, const Body& body) {
  for (const Index batch : {1, 16, 256}) {
    const std::string full = name + (std::is_same_v<S, float> ? "/float" : "/double") +
                             "/n:" + std::to_string(n) + "/batch:" + std::to_string(batch);
    benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) { body(state, batch); });
  }
}

template <class S>
void register_rotors(bool backward) {
  for (const Kernel kernel : {Kernel::spinor, Kernel::shears, Kernel::parity_blocks}) {
    const bool parity = kernel == Kernel::parity_blocks;
    for (const bool single : {false, true}) {
      if (kernel == Kernel::shears && !single) continue;
      const std::string name = std::string(backward ? "backward" : "forward") +
                               (single ? "/single/" : "/double/") + std::string(to_string(kernel));
      for (int n = parity ? 3 : 4; n <= (parity ? 9 : 12); ++n) {
        register_batches<S>(name, n, [=](benchmark::State& state, Index batch) {
          auto layer = bench::rotor_layer<S>(n, single, 0, kernel);
          if (backward) return run_backward(state, layer, batch);
          run_forward(state, layer, batch);
        });
      }
    }
  }
}

template <class S>
void register_dense(bench::Library library) {
  const std::string name =
      library == bench::Library::eigen ? "forward/dense/eigen" : "forward/dense/openblas";
  for (int n = 4; n <= 12; ++n) {
    register_batches<S>(name, n, [=](benchmark::State& state, Index batch) {
      run_dense<S>(state, library, Index{1} << n, batch);
    });
  }
}

template <class S>
void register_all() {
  for (const bool backward : {false, true}) register_rotors<S>(backward);
  if (bench::have_openblas) register_dense<S>(bench::Library::openblas);
  register_dense<S>(bench::Library::eigen);
}

}  // namespace

int main(int argc, char** argv) {
  bench::one_thread();
  register_all<float>();
  register_all<double>();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
