// SPDX-License-Identifier: MIT
// The paper's network (2048 to 2048, depth 2, width 3, double rotors: 896 parameters) against the dense layer
// that it replaces.
#include <string>
#include <vector>

#include "ratios/dense_forward.hpp"
#include "support/training.hpp"

namespace bench {
namespace {

using rotorlin::Matrix;
using Network = rotorlin::RotorNetwork<float>;

/// Against the same network in double precision, whose rotors other cases hold against the definition.
void check_network(const std::string& name, const Network& network, const Matrix<float>& x) {
  auto wide = paper_network<double>();
  wide.parameters() = network.parameters().cast<double>();
  demand_close(name, network.forward(x), wide.forward(x.cast<double>()));
}

double network_flops(const Network& network) {
  return static_cast<double>(network.num_rotors()) * forward_flops(network.rotor(0));
}

void network_case(Report& report, Index batch, bool cold, Library library) {
  const std::string name =
      "network_b" + std::to_string(batch) + (cold ? "_cold" : "") + (library == best_library ? "" : "_eigen");
  if (!report.wants(name)) return;
  const Matrix<float> x = random_matrix<float>(2048, batch, 2);
  const std::vector<Network> networks(cold ? cold_layers : 1, paper_network<float>());
  check_network(name, networks[0], x);
  Matrix<float> y(2048, batch);
  Network::Workspace workspace;
  DenseForward dense(report, library, 11, batch, cold);
  const double samples = static_cast<double>(batch);
  report.measure(
      name, dense.work(network_flops(networks[0]) * samples),
      [&](std::size_t i) {
        networks[i % networks.size()].forward(x, y, workspace);
        keep(y.data());
      },
      [&](std::size_t i) { dense(i); });
}

}  // namespace

void network_cases(Report& report) {
  for (const Index batch : {256, 16, 1}) {
    for (const bool cold : {false, true}) {
      network_case(report, batch, cold, best_library);
      if (have_openblas) network_case(report, batch, cold, Library::eigen);
    }
  }
  const std::string name = "train_network_b256";
  if (!report.wants(name)) return;
  const Matrix<float> x = random_matrix<float>(2048, 256, 2);
  const Matrix<float> target = random_matrix<float>(2048, 256, 3);
  Network network = paper_network<float>();
  LayerTraining training(network);
  DenseTraining<float> dense(best_library, 2048);
  report.measure(
      name, {3 * network_flops(network) * 256, 6 * 2048.0 * 2048.0 * 256, 0},
      [&](std::size_t) { training.step(x, target); }, [&](std::size_t) { dense.step(x, target); });
}

}  // namespace bench
