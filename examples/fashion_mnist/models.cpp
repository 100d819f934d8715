// SPDX-License-Identifier: MIT
#include "models.hpp"

#include <utility>

#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"

namespace examples {

namespace {

using rotorlin::Kernel;
using Dense = rotorlin::DenseLinear<float>;
using LowRank = rotorlin::LowRankLinear<float>;
using Rotors = rotorlin::RotorLinear<float>;

/// The pixels of overlapping windows of 8 x 8, `step` pixels apart, window after window.
std::vector<Index> windows(Index step) {
  std::vector<Index> pixels;
  for (Index top = 0; top <= 20; top += step) {
    for (Index left = 0; left <= 20; left += step) {
      for (Index pixel = 0; pixel < 64; ++pixel) {
        pixels.push_back((top + pixel / 8) * 28 + left + pixel % 8);
      }
    }
  }
  return pixels;
}

}  // namespace

std::vector<Model> models(std::uint64_t seed) {
  const StageOptions hidden;
  const auto dense = [&](Index in, Index out, bool bias = true) {
    return Dense(in, out, {.bias = bias, .seed = ++seed});
  };
  const auto low_rank = [&](Index in, Index out, Index rank, bool bias = true) {
    return LowRank(in, out, {.rank = rank, .bias = bias, .seed = ++seed});
  };
  const auto rotors = [&](Index in, Index out, rotorlin::RotorLinearOptions options) {
    options.seed = ++seed;
    return Rotors(in, out, options);
  };
  std::vector<Model> result;
  seed *= 100;
  const auto add = [&](const char* name, const char* description, double rate) -> Network& {
    result.push_back({name, description, Network(784), rate});
    result.back().network.smoothing = 0.1f;
    return result.back().network;
  };

  add("dense", "784-512-512-10", 1e-3)
      .add(dense(784, 512), hidden)
      .add(dense(512, 512), hidden)
      .add(dense(512, 10), logits(1));
  add("rotor", "25 windows: 64-32-32, 800-64 of rotors", 0.03)
      .gather(windows(5))
      .add(dense(64, 32), {.rate = 0.3})
      .add(dense(32, 32), {.residual = true, .rate = 0.3})
      .add(rotors(800, 64, {.chunk = 16, .bias = false}), hidden)
      .add(dense(64, 10, false), logits(0.4));
  add("lowrank", "the same, 800-64 of rank 3", 0.02)
      .gather(windows(5))
      .add(dense(64, 32), hidden)
      .add(dense(32, 32), {.residual = true})
      .add(low_rank(800, 64, 3, false), hidden)
      .add(dense(64, 10, false), logits(1));
  add("lowrank-best", "25 windows: 64-16, 400-64 of rank 10", 0.015)
      .gather(windows(5))
      .add(dense(64, 16), hidden)
      .add(low_rank(400, 64, 10, false), hidden)
      .add(dense(64, 10, false), logits(1));
  // The layers on windows are shared by 36 of them: making their matrices once a step costs little.
  add("rotor-only", "36 windows: 64-64-16, 576-64", 0.03)
      .gather(windows(4))
      .add(rotors(64, 64, {.width = 32, .kernel = Kernel::dense}), hidden)
      .add(rotors(64, 16, {.width = 16, .kernel = Kernel::dense}), hidden)
      .add(rotors(576, 64, {.chunk = 16, .width = 2, .bias = false}), hidden)
      .add(dense(64, 10, false), logits(0.4));
  add("rotor-plain", "784-512-64, chunks of 64", 0.02)
      .add(rotors(784, 512, {.chunk = 64}), hidden)
      .add(rotors(512, 64, {.chunk = 64, .width = 8}), hidden)
      .add(dense(64, 10), logits(0.1));
  add("lowrank-plain", "784-64-64, ranks 6 and 5", 0.01)
      .add(low_rank(784, 64, 6), hidden)
      .add(low_rank(64, 64, 5), hidden)
      .add(dense(64, 10), logits(1));
  auto& wide = add("rotor-512", "784-512-512-512-512, 10 rotors", 0.02);
  for (Index in : {784, 512, 512, 512}) wide.add(rotors(in, 512, {.bias = false}), hidden);
  wide.add(dense(512, 10), logits(0.1));
  return result;
}

}  // namespace examples
