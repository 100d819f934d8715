// SPDX-License-Identifier: MIT
// RotorLinear against the dense layer of the same shape: forward, training, threads.
#include <string>
#include <utility>
#include <vector>

#include "ratios/dense_forward.hpp"
#include "rotorlin/core/parallel.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/training/adam.hpp"
#include "support/training.hpp"

namespace bench {
namespace {

using rotorlin::Matrix;
using Layer = rotorlin::RotorLinear<float>;

/// Warm: one layer. Cold: 16 layers in turn.
void forward_case(Report& report, int n, Index batch, bool single, bool cold, Library library) {
  const std::string name = (single ? "single_n" : "double_n") + std::to_string(n) + "_b" +
                           std::to_string(batch) + (cold ? "_cold" : "") +
                           (library == best_library ? "" : "_eigen");
  if (!report.wants(name)) return;
  const Matrix<float> x = random_matrix<float>(Index{1} << n, batch, 2);
  Matrix<float> y(Index{1} << n, batch);
  std::vector<Layer> layers;
  while (layers.size() < (cold ? cold_layers : 1))
    layers.push_back(rotor_layer<float>(n, single, layers.size()));
  check_forward(name, layers[0], x, layers[0].forward(x));
  Layer::Workspace workspace;
  DenseForward dense(report, library, n, batch, cold);
  report.measure(
      name, dense.work(forward_flops(layers[0]) * static_cast<double>(batch)),
      [&](std::size_t i) {
        layers[i % layers.size()].forward(x, y, workspace);
        keep(y.data());
      },
      [&](std::size_t i) { dense(i); });
}

void training_case(Report& report, int n, Index batch, bool single, Library library) {
  const std::string name = std::string("train_") + (single ? "single_n" : "double_n") + std::to_string(n) +
                           "_b" + std::to_string(batch) + (library == best_library ? "" : "_eigen");
  if (!report.wants(name)) return;

  const Index size = Index{1} << n;
  const Matrix<float> x = random_matrix<float>(size, batch, 2);
  const Matrix<float> target = random_matrix<float>(size, batch, 3);
  Layer layer = rotor_layer<float>(n, single);
  const Matrix<double> transposed = layer.to_dense().cast<double>().transpose();
  LayerTraining training(layer);
  training.step(x, target);
  demand_close(name, training.grad_x.col(0), transposed * training.y.col(0).cast<double>());

  DenseTraining<float> dense(library, size);
  const double samples = static_cast<double>(batch);
  // backward: the adjoint product and the bivector parts of gx x~ and gx~ x, counted as one product more
  report.measure(
      name, {3 * forward_flops(layer) * samples, 6.0 * static_cast<double>(size * size) * samples, 0},
      [&](std::size_t) { training.step(x, target); }, [&](std::size_t) { dense.step(x, target); });
}

template <class S>
void wide_case(Report& report, Index in, Index out, Index width, Index batch) {
  const std::string name = std::string("wide_") + (sizeof(S) == 4 ? "float_" : "double_") +
                           std::to_string(in) + "x" + std::to_string(out) + "_w" + std::to_string(width) +
                           "_b" + std::to_string(batch);
  if (!report.wants(name)) return;
  const rotorlin::RotorLinear<S> layer(in, out, {.width = width});
  layer.prepare();
  const auto dense = rotorlin::DenseLinear<S>::from_matrix(layer.to_dense());
  const Matrix<S> x = random_matrix<S>(in, batch, 2);
  Matrix<S> y(out, batch), z(out, batch);
  typename rotorlin::RotorLinear<S>::Workspace workspace;
  typename rotorlin::DenseLinear<S>::Workspace dense_workspace;
  report.measure(
      name, {},
      [&](std::size_t) {
        layer.forward(x, y, workspace);
        keep(y.data());
      },
      [&](std::size_t) {
        dense.forward(x, z, dense_workspace);
        keep(z.data());
      });
}

/// A step: forward, backward, Adam, and so new rotors the next time.
template <class L>
void sample_training_case(Report& report, const std::string& name, L layer) {
  if (!report.wants(name)) return;
  using S = typename L::Scalar;
  const L still = layer;
  const Matrix<S> x = random_matrix<S>(layer.in_features(), 1, 2);
  Matrix<S> y(layer.out_features(), 1), grad_x(layer.in_features(), 1);
  typename L::Workspace workspace, still_workspace;
  rotorlin::Adam<S> adam;
  report.measure(
      name, {},
      [&](std::size_t) {
        layer.forward(x, y, workspace);
        layer.zero_gradients();
        layer.backward(x, y, grad_x, workspace);
        adam.step(layer.parameters(), layer.gradients(), 1e-6);
      },
      [&](std::size_t) {
        still.forward(x, y, still_workspace);
        keep(y.data());
      });
}

}  // namespace

void wide_cases(Report& report) {
  for (const auto& [in, out] : {std::pair<Index, Index>{512, 512}, {784, 10}, {768, 3072}, {2048, 2048}}) {
    for (const Index width : {1, 4, 16, 64}) {
      for (const Index batch : {1, 16, 256}) {
        wide_case<float>(report, in, out, width, batch);
        wide_case<double>(report, in, out, width, batch);
      }
    }
  }
}

void sample_training_cases(Report& report) {
  sample_training_case(report, "step1_float_n11", rotorlin::RotorLinear<float>(2048, 2048));
  sample_training_case(report, "step1_double_n11", rotorlin::RotorLinear<double>(2048, 2048));
  sample_training_case(report, "step1_network", rotorlin::RotorNetwork<float>(2048, 2048));
}

void forward_cases(Report& report, const std::vector<int>& dimensions, const std::vector<Index>& batches) {
  for (const bool single : {false, true}) {
    for (const int n : dimensions) {
      for (const Index batch : batches) {
        for (const bool cold : {false, true}) {
          forward_case(report, n, batch, single, cold, best_library);
          if (have_openblas) forward_case(report, n, batch, single, cold, Library::eigen);
        }
      }
    }
  }
}

void training_cases(Report& report) {
  for (const bool single : {false, true}) training_case(report, 11, 256, single, best_library);
  if (have_openblas) training_case(report, 11, 256, false, Library::eigen);
}

/// Ours on two threads against ours on one; the results must be the same bits.
void thread_cases(Report& report) {
#if defined(ROTORLIN_OPENMP)
  for (const bool train : {false, true}) {
    const std::string name = std::string("threads2_") + (train ? "train_" : "") + "double_n11_b256";
    if (!report.wants(name)) continue;
    Layer layer = rotor_layer<float>(11, false);
    const Matrix<float> x = random_matrix<float>(2048, 256, 2);
    Matrix<float> y[2], grad_x[2];
    rotorlin::VectorX<float> gradients[2];
    Layer::Workspace workspaces[2];
    const auto run = [&](int threads) {
      const auto t = static_cast<std::size_t>(threads - 1);
      rotorlin::set_num_threads(threads);
      y[t].resize(2048, 256);
      layer.forward(x, y[t], workspaces[t]);
      if (train) {
        grad_x[t].resize(2048, 256);
        layer.zero_gradients();
        layer.backward(x, y[t], grad_x[t], workspaces[t]);
        gradients[t] = layer.gradients();
      }
    };
    run(1);
    run(2);
    const bool same = y[0] == y[1] && grad_x[0] == grad_x[1] && gradients[0] == gradients[1];
    demand(name + ": results on one and two threads differ", same);
    const double flops = (train ? 3 : 1) * forward_flops(layer) * 256;
    report.measure(
        name, {flops, flops, 0}, [&](std::size_t) { run(2); }, [&](std::size_t) { run(1); });
    rotorlin::set_num_threads(1);
  }
#else
  (void)report;
#endif
}

}  // namespace bench
