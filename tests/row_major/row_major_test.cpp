// SPDX-License-Identifier: MIT
// A program that made Eigen's default row-major gets the same layers, files and rotors.
#define EIGEN_DEFAULT_TO_ROW_MAJOR
#include <catch2/catch.hpp>
#include <numbers>
#include <type_traits>

#include "rotorlin/algebra/rotation.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/log.hpp"
#include "rotorlin/files/serialization.hpp"
#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"
#include "rotorlin/training/fit.hpp"
#include "support/direct.hpp"
#include "support/temporary_folder.hpp"

using namespace rotorlin;

namespace {

static_assert(Eigen::MatrixXd::IsRowMajor);

/// As the program's own code has it: row-major.
Eigen::MatrixXd random_rows(Index rows, Index cols, std::uint64_t seed) {
  Eigen::MatrixXd m(rows, cols);
  Random(seed).fill_uniform(m, -1, 1);
  return m;
}

/// forward and backward against y = dense x + bias, gradients against central differences.
template <class L>
void check_linear(L layer, const Eigen::MatrixXd& dense) {
  const Index in = layer.in_features(), out = layer.out_features(), batch = 19;
  INFO(L::type_name << " " << in << " -> " << out);
  const Eigen::MatrixXd x = random_rows(in, batch, 11), g = random_rows(out, batch, 12);
  Eigen::MatrixXd y = dense * x;
  if (layer.has_bias()) y.colwise() += layer.bias();
  CHECK((layer.forward(x) - y).norm() <= 1e-13 * y.norm());
  CHECK((layer.to_dense() - dense).norm() <= 1e-13 * dense.norm());

  typename L::Workspace workspace;
  Matrix<double> grad_x(in, batch);
  layer.zero_gradients();
  layer.backward(x, g, grad_x, workspace);
  CHECK((grad_x - dense.transpose() * g).norm() <= 1e-13 * grad_x.norm());
  for (Index i = 0; i < layer.num_parameters(); i += 1 + layer.num_parameters() / 20) {
    const double kept = layer.parameters()[i], step = 1e-5;
    layer.parameters()[i] = kept + step;
    const double above = layer.forward(x).cwiseProduct(g).sum();
    layer.parameters()[i] = kept - step;
    const double below = layer.forward(x).cwiseProduct(g).sum();
    layer.parameters()[i] = kept;
    CHECK(std::abs((above - below) / (2 * step) - layer.gradients()[i]) <=
          1e-7 * layer.gradients().cwiseAbs().maxCoeff());
  }

  if constexpr (DescribedLayer<L>) {
    const test::TemporaryFolder folder;
    save(layer, folder / "layer");
    CHECK((load<L>(folder / "layer").forward(x) - y).norm() <= 1e-13 * y.norm());
  }
}

}  // namespace

TEST_CASE("Row-major programs: rotor layers are what their documentation defines") {
  for (const bool single : {false, true}) {
    for (const auto& [kernel, name] : kernel_names) {
      if (kernel == Kernel::shears && !single) continue;
      INFO(name << (single ? ", single" : ""));
      RotorLinearOptions options{.width = 2, .single_rotor = single, .kernel = kernel, .seed = 3};
      RotorLinear<double> layer(16, 16, options);
      layer.alpha() << 0.5, -0.75;
      layer.bias() = random_rows(16, 1, 2);
      Eigen::MatrixXd dense = Eigen::MatrixXd::Zero(16, 16);
      for (Index w = 0; w < 2; ++w) {
        const auto rotor = [&](const auto& bivectors) {
          return VectorX<double>(exp(Bivector<double, Dynamic>(4, bivectors.col(w))).coeffs());
        };
        const VectorX<double> r = rotor(layer.bivectors_left()), s = rotor(layer.bivectors_right());
        for (Index k = 0; k < 16; ++k)
          dense.col(k) += layer.alpha()[w] * test::direct_sandwich(4, r, s, VectorX<double>::Unit(16, k));
      }
      check_linear(layer, dense);
    }
  }
}

TEST_CASE("Row-major programs: a rotor network is its rotors and permutations") {
  RotorNetworkOptions options{.depth = 1, .width = 2, .normalize = false, .activation = Activation::none};
  const RotorNetwork<double> network(16, 12, options);
  const auto branch = [&](Index i) {
    const Eigen::MatrixXd rotor = network.rotor(i).to_dense();
    Eigen::MatrixXd permuted(16, rotor.cols());
    for (Index j = 0; j < 16; ++j)
      permuted.row(j) = rotor.row(network.permutation(i)[static_cast<std::size_t>(j)]);
    return permuted;
  };
  const Eigen::MatrixXd dense = network.rotor(3).to_dense() * (branch(1) + branch(2)) * branch(0);
  const Eigen::MatrixXd x = random_rows(16, 21, 3);
  CHECK((network.forward(x) - dense * x).norm() <= 1e-13 * (dense * x).norm());
}

TEST_CASE("Row-major programs: the other layers") {
  const Eigen::MatrixXd weight = random_rows(7, 5, 1);
  check_linear(DenseLinear<double>::from_matrix(weight, random_rows(7, 1, 2)), weight);

  LowRankLinear<double> low_rank(5, 7, 3);
  check_linear(low_rank, Eigen::MatrixXd(low_rank.u()) * Eigen::MatrixXd(low_rank.v()));
  const Eigen::MatrixXd rank_two = random_rows(7, 2, 3) * random_rows(2, 5, 4),
                        gram = weight.transpose() * weight;
  CHECK(low_rank.fit_closed_form(rank_two, gram) < 1e-13);
  CHECK((low_rank.to_dense() - rank_two).norm() < 1e-12);

  const BlockHadamardLinear<double> blocks(4, 6, 2);
  Eigen::MatrixXd hadamard(4, 4), block = Eigen::MatrixXd::Zero(6, 4);
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 4; ++j)
      hadamard(i, j) = std::popcount(static_cast<unsigned>(i & j)) % 2 ? -0.5 : 0.5;
  }
  for (Index o = 0; o < 6; ++o) block.row(o).segment(o / 3 * 2, 2) = blocks.weights().col(o);
  check_linear(blocks, block * hadamard);

  const Eigen::MatrixXd atoms = random_rows(5, 3, 5), c = random_rows(3, 7, 6);
  const auto dictionary = std::make_shared<const SharedDictionary<double>>(Matrix<double>(atoms));
  for (const auto storage : {CoefficientStorage::dense, CoefficientStorage::sparse}) {
    check_linear(SharedDictionaryLinear<double>(dictionary, c, storage), c.transpose() * atoms.transpose());
  }
}

TEST_CASE("Row-major programs: fit finds the map") {
  const Eigen::MatrixXd w = random_rows(3, 5, 1), x = random_rows(5, 100, 2), y = w * x;
  DenseLinear<double> layer(5, 3);
  fit(layer, x, y, {.epochs = 200, .batch_size = 16, .learning_rate = 0.05});
  CHECK((layer.weight() - w).norm() < 1e-5);
  RotorLinear<double> rotors(16, 16, {.bias = false, .seed = 1}), target(16, 16, {.bias = false, .seed = 1});
  target.bivectors_left() *= 1.1;
  const Eigen::MatrixXd inputs = random_rows(16, 64, 3);
  CHECK(fit(rotors, inputs, target.forward(inputs), {.epochs = 200, .learning_rate = 0.02}).relative_error <
        1e-3);
}

TEST_CASE("Row-major programs: exp and log") {
  Bivector<double, 3> plane;
  plane[1] = 0.3;  // e13
  const auto rotor = exp(plane);
  CHECK(std::abs(rotor[0] - std::cos(0.3)) < 1e-15);
  CHECK(std::abs(rotor[2] - std::sin(0.3)) < 1e-15);
  const Eigen::MatrixXd turn = rotor.to_rotation_matrix(), points = random_rows(3, 6, 9);
  CHECK((rotate(rotor, points) - turn * points).norm() < 1e-15);
  CHECK((rotate(rotor, points.transpose().eval().transpose()) - turn * points).norm() < 1e-15);
  for (int n = 2; n <= 8; ++n) {
    const Bivector<double, Dynamic> b(n, Eigen::VectorXd(0.3 * random_rows(Index{n} * (n - 1) / 2, 1, 7)));
    const auto r = exp(b);
    CHECK((log(r).coeffs() - b.coeffs()).norm() < 1e-13);
    const Eigen::MatrixXd rotation = r.to_rotation_matrix();
    for (Index k = 0; k < n; ++k) {  // r e_k r~ term by term
      const VectorX<double> image =
          test::direct_sandwich(n, r.coeffs(), r.coeffs(), VectorX<double>::Unit(Index{1} << n, 1 + k));
      CHECK((image.segment(1, n) - rotation.col(k)).norm() < 1e-13);
    }
    CHECK((Bivector<double, Dynamic>::from_skew_matrix(Eigen::MatrixXd(b.to_skew_matrix())).coeffs() -
           b.coeffs())
              .norm() < 1e-15);
  }
}
