// SPDX-License-Identifier: MIT
// A training step (forward, gradient of the squared error, backward, Adam) of rotor, network and dense
// layers, 2048 to 2048; and the network's forward pass alone.
#include "support/training.hpp"

#include <benchmark/benchmark.h>

#include "support/dense.hpp"

namespace {

using bench::Index;

constexpr Index features = 2048;

template <class Training>
void run(benchmark::State& state, Training& training) {
  const Index batch = state.range(0);
  const auto x = bench::random_matrix<float>(features, batch, 1);
  const auto target = bench::random_matrix<float>(features, batch, 2);
  for (auto _ : state) training.step(x, target);
  state.SetItemsProcessed(state.iterations() * batch);
}

void double_rotor(benchmark::State& state) {
  auto layer = bench::rotor_layer<float>(11, false);
  bench::LayerTraining training(layer);
  run(state, training);
}
void single_rotor(benchmark::State& state) {
  auto layer = bench::rotor_layer<float>(11, true);
  bench::LayerTraining training(layer);
  run(state, training);
}
void network(benchmark::State& state) {
  auto layer = bench::paper_network<float>();
  bench::LayerTraining training(layer);
  run(state, training);
}
void network_forward(benchmark::State& state) {
  const auto layer = bench::paper_network<float>();
  const auto x = bench::random_matrix<float>(features, state.range(0), 1);
  rotorlin::Matrix<float> y(features, state.range(0));
  rotorlin::RotorNetwork<float>::Workspace workspace;
  for (auto _ : state) {
    layer.forward(x, y, workspace);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void dense(benchmark::State& state) {
  bench::DenseTraining<float> training(bench::best_library, features);
  run(state, training);
}
BENCHMARK(double_rotor)->Arg(16)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(single_rotor)->Arg(16)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(network)->Arg(16)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(network_forward)->Arg(1)->Arg(16)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(dense)->Arg(16)->Arg(256)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  bench::one_thread();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
