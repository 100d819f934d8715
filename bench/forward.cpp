// SPDX-License-Identifier: MIT
// Forward and backward of RotorLinear through each kernel by name, n = 6..12 (4..12 for parity blocks), and
// the dense layer of the same shape. Counters: samples a second.
#include <benchmark/benchmark.h>

#include <string>

#include "rotorlin/layers/dense_linear.hpp"
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
void register_layers(const std::string& scalar) {
  for (const bool backward : {false, true}) {
    const std::string pass = backward ? "backward/" : "forward/";
    const auto add = [&](const std::string& name, int n, const auto& make) {
      for (const Index batch : {1, 16, 256}) {
        const std::string full =
            pass + name + '/' + scalar + "/n:" + std::to_string(n) + "/batch:" + std::to_string(batch);
        benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) {
          auto layer = make();
          if (backward) return run_backward(state, layer, batch);
          run_forward(state, layer, batch);
        });
      }
    };
    for (const Kernel kernel : {Kernel::spinor, Kernel::shears, Kernel::parity_blocks}) {
      for (const bool single : {false, true}) {
        if (kernel == Kernel::shears && !single) continue;
        for (int n = kernel == Kernel::parity_blocks ? 3 : 4; n <= 12; ++n) {
          if (kernel == Kernel::parity_blocks && n > 9) continue;
          add(std::string(single ? "single/" : "double/") + std::string(to_string(kernel)), n,
              [=] { return bench::rotor_layer<S>(n, single, 0, kernel); });
        }
      }
    }
    for (int n = 4; n <= 11; ++n) {
      add("dense/eigen", n, [=] { return rotorlin::DenseLinear<S>(Index{1} << n, Index{1} << n, false); });
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::one_thread();
  register_layers<float>("float");
  register_layers<double>("double");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
