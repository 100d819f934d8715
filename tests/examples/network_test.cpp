// SPDX-License-Identifier: MIT
#include "common/network.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "rotorlin/core/random.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"

using namespace examples;

TEST_CASE("a network's gradients agree with central differences") {
  Network network(40);
  network
      .add(rotorlin::RotorLinear<float>(20, 8, {.seed = 1}))  // two groups
      .add(rotorlin::RotorLinear<float>(16, 16, {.width = 2, .seed = 2}), {.residual = true})
      .add(rotorlin::LowRankLinear<float>(16, 12, {.rank = 3, .seed = 3}), {.normalize = false})
      .add(rotorlin::DenseLinear<float>(12, 10, {.seed = 4}), logits(1));
  rotorlin::Random random(5);
  Eigen::MatrixXf x(40, 6);
  random.fill_uniform(x, -1, 1);
  const std::vector<int> labels = {0, 3, 9, 1, 1, 7};
  const double loss = network.gradients(x, labels.data()).cross_entropy;
  CHECK(loss > 0);
  for (std::size_t k = 0; k < network.size(); ++k) {
    const Eigen::VectorXf gradient = network.gradients(k), start = network.parameters(k);
    Eigen::VectorXf direction = gradient / gradient.norm();
    const auto loss_at = [&](float step) {
      network.parameters(k) = start + step * direction;
      return network.gradients(x, labels.data()).cross_entropy;
    };
    const double slope = (loss_at(2e-3f) - loss_at(-2e-3f)) / 4e-3;
    network.parameters(k) = start;
    INFO("stage " << k);
    CHECK(slope == Approx(gradient.norm()).epsilon(0.02));
  }
}

TEST_CASE("a network reads the features it is told to") {
  const rotorlin::DenseLinear<float> layer(2, 3, {.seed = 1});
  Network network(3), plain(4);
  network.gather({2, 0, 1, 2}).add(layer, logits(1));  // two groups
  plain.add(layer, logits(1));
  const Eigen::MatrixXf x = Eigen::MatrixXf::Random(3, 5);
  Eigen::MatrixXf gathered(4, 5);
  gathered << x.row(2), x.row(0), x.row(1), x.row(2);
  CHECK(network.in_features() == 3);
  CHECK(network.forward(x) == plain.forward(gathered));
  CHECK_THROWS_WITH(network.gather({0, 1}), Catch::Contains("before the first stage"));
  CHECK_THROWS_WITH(Network(3).gather({3}), Catch::Contains("feature 3 of 3"));
  CHECK_THROWS_WITH(Network(3).gather({}), Catch::Contains("0 features"));
}

TEST_CASE("label smoothing moves the targets") {
  Network network(4);
  network.add(rotorlin::DenseLinear<float>(4, 10, {.seed = 1}), logits(1));
  const Eigen::MatrixXf x = Eigen::MatrixXf::Ones(4, 1);
  const int label = 3;
  network.gradients(x, &label);
  const Eigen::VectorXf sharp = network.gradients(0).tail(10);  // of the bias: p - target
  network.smoothing = 0.1f;
  network.gradients(x, &label);
  Eigen::VectorXf change = network.gradients(0).tail(10) - sharp;
  CHECK(change[label] == Approx(0.09));
  change[label] = -0.01f;
  CHECK((change.array() + 0.01f).abs().maxCoeff() < 1e-6f);
}

TEST_CASE("training goes through all images, and a network shows its layers") {
  using Dense = rotorlin::DenseLinear<float>;
  LabelledImages data{Eigen::MatrixXf::Random(6, 300), std::vector<int>(300)};
  for (Index j = 0; j < 300; ++j) data.labels[static_cast<std::size_t>(j)] = data.images(0, j) > 0;
  Network network(6);
  network.add(Dense(6, 8, {.seed = 1}), {.normalize = false, .slope = 0}).add(Dense(8, 2, {.seed = 2}), logits(1));
  Training training(network, data, 290, 30, 0.02, 3);
  std::vector<Index> done;
  Training::Epoch epoch;
  for (int k = 0; k < 30; ++k) {
    epoch = training.epoch([&](const Training::Epoch& now) {
      if (k == 0) done.push_back(now.done);
    });
  }
  CHECK(done == std::vector<Index>{128, 256, 290});
  CHECK(epoch.accuracy > 0.97);
  const Eigen::MatrixXf hidden = network.layer<Dense>(0).forward(data.images).cwiseMax(0.0f);
  CHECK(network.layer<Dense>(1).forward(hidden).isApprox(network.forward(data.images)));
  CHECK_THROWS_AS(network.layer<rotorlin::LowRankLinear<float>>(0), std::invalid_argument);
}

TEST_CASE("a network learns, and refuses layers that do not fit") {
  Network network(16);
  network.add(rotorlin::RotorLinear<float>(16, 16, {.seed = 1}))
      .add(rotorlin::DenseLinear<float>(16, 10), logits(1));
  CHECK(network.num_parameters() == 2 * 6 + 1 + 16 + 170);
  Eigen::MatrixXf x = Eigen::MatrixXf::Random(16, 10);
  const std::vector<int> labels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const double before = network.train_step(x, labels.data(), 0.05).cross_entropy;
  Network::Loss after;
  for (int step = 0; step < 200; ++step) after = network.train_step(x, labels.data(), 0.05);
  CHECK(after.cross_entropy < 0.1 * before);
  CHECK(after.correct == 10);
  CHECK(network.accuracy({x, labels}) == 1.0);
  CHECK_THROWS_WITH(network.add(rotorlin::DenseLinear<float>(12, 10)),
                    Catch::Contains("12 -> 10") && Catch::Contains("after 10 features"));
}
