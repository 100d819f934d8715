// SPDX-License-Identifier: MIT
// What has to work wherever the library compiles, in one program without a test framework, so that it can be
// cross compiled and run in an emulator (./run cross) or with another standard library (./run libcxx):
//
//   portability LAYER_FILE [FOLDER]
//
// LAYER_FILE was written by an x86-64 machine; FOLDER is where files may be written.
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <numbers>
#include <string>

#include "rotorlin/exponential/log.hpp"
#include "rotorlin/files/serialization.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/training/fit.hpp"

using namespace rotorlin;

namespace {

int failures = 0;

void expect(bool holds, const std::string& what, double value = 0) {
  if (!holds) ++failures;
  std::cout << (holds ? "ok      " : "FAILED  ") << what;
  if (value != 0) std::cout << ", " << value;
  std::cout << '\n';
}
void expect_below(double value, double bound, const std::string& what) {
  expect(value <= bound, what, value);
}

template <class S>
Matrix<S> random(Index rows, Index cols, std::uint64_t seed) {
  Matrix<S> m(rows, cols);
  Random(seed).fill_uniform(m, -1, 1);
  return m;
}

template <class A, class B>
double difference(const A& a, const B& b) {
  return static_cast<double>((a - b).norm() / b.norm());
}

template <class S>
constexpr double rounding() {
  return 1000 * static_cast<double>(std::numeric_limits<S>::epsilon());
}

template <class S>
const char* name() {
  return std::is_same_v<S, float> ? "float" : "double";
}

template <class S>
void algebra() {
  const std::string of = std::string(" in ") + name<S>();
  const auto e1 = Vector<S, 3>::basis(1), e2 = Vector<S, 3>::basis(2);
  const auto turned = exp(std::numbers::pi_v<S> / 4 * (e2 ^ e1)).apply(e1);
  expect_below(difference(turned.coeffs(), e2.coeffs()), rounding<S>(), "a quarter turn" + of);
  for (const int n : {3, 6, 9}) {
    Bivector<S, Dynamic> b{Signature<Dynamic>(n)};
    Random(2).fill_uniform(b.coeffs(), -0.3, 0.3);
    const auto again = log(exp(b));
    expect_below(difference(again.coeffs(), b.coeffs()), rounding<S>(),
                 "log(exp(b)), n = " + std::to_string(n) + of);
  }
}

/// forward against the dense matrix, backward against central differences along one direction.
template <class L>
void layer(L layer, const std::string& what) {
  using S = typename L::Scalar;
  const std::string of = " of " + what;
  const Matrix<S> x = random<S>(layer.in_features(), 37, 3), y = layer.forward(x);
  const Matrix<S> g = random<S>(layer.out_features(), 37, 4);
  typename L::Workspace workspace;
  Matrix<S> grad_x(x.rows(), x.cols()), again(y.rows(), y.cols());
  layer.forward(x, again, workspace);
  expect(again == y, "forward with a workspace" + of);
  layer.backward(x, g, grad_x, workspace);
  const VectorX<S> direction = random<S>(layer.num_parameters(), 1, 5), start = layer.parameters();
  const Matrix<S> dx = random<S>(x.rows(), x.cols(), 6);
  const S step = 1e-5;
  const auto value = [&](S t) {
    layer.parameters() = start + t * direction;
    return static_cast<double>((layer.forward(x + t * dx).array() * g.array()).sum());
  };
  const double expected = (value(step) - value(-step)) / (2 * static_cast<double>(step));
  const double derived =
      static_cast<double>(layer.gradients().dot(direction) + (grad_x.array() * dx.array()).sum());
  layer.parameters() = start;
  expect_below(
      std::abs(derived - expected) / (std::abs(expected) + static_cast<double>(g.norm() * x.norm()) * 1e-3),
      std::is_same_v<S, float> ? 1e-2 : 1e-6, "backward" + of);
}

void layers() {
  layer(RotorLinear<double>(256, 256), "double rotors");
  layer(RotorLinear<double>(64, 64, {.width = 3, .single_rotor = true}), "single rotors");
  layer(RotorLinear<double>(100, 60), "rotors in chunks");
  layer(RotorLinear<double>(8, 8), "small rotors");
  layer(RotorNetwork<double>(32, 32, {.depth = 1, .width = 2}), "a network of rotors");
  layer(LowRankLinear<double>(20, 30, 4), "low rank");
  for (const Index size : {8, 64, 256}) {
    for (const bool single : {false, true}) {
      const RotorLinear<double> exact(size, size, {.single_rotor = single});
      RotorLinear<float> rounded(size, size, {.single_rotor = single});
      rounded.parameters() = exact.parameters().cast<float>();
      const Matrix<double> x = random<double>(size, 37, 3);
      expect_below(difference(rounded.forward(x.cast<float>()).cast<double>(), exact.forward(x)), 1e-5,
                   (single ? "single rotors in float, " : "double rotors in float, ") + std::to_string(size) +
                       " features");
    }
  }
}

void files(const std::filesystem::path& from_x86, const std::filesystem::path& folder) {
  const RotorNetwork<double> network(40, 24, {.depth = 1, .width = 2, .epsilon = 1.25e-5});
  const auto path = folder / "portability.safetensors";
  save(network, path);
  const auto loaded = load<RotorNetwork<double>>(path);
  expect(loaded.parameters() == network.parameters() && loaded.options().epsilon == 1.25e-5,
         "a network comes back from its file");
  std::filesystem::remove(path);
  const auto x86 = load<RotorLinear<double>>(from_x86);  // replays the file's own sample of input and output
  expect(x86.in_features() == 20, "a layer written by x86-64");
}

void training() {
  const RotorLinear<double> target(16, 16, {.seed = 1});
  const Matrix<double> x = random<double>(16, 500, 7), y = target.forward(x);
  RotorLinear<double> fitted = target;
  fitted.parameters() += 0.1 * random<double>(fitted.num_parameters(), 1, 8);
  const double before = difference(fitted.forward(x), y);
  expect_below(fit(fitted, x, y, {.epochs = 20}).relative_error, 0.3 * before, "a fit");
}

void errors() {
  try {
    RotorLinear<float>(8, 8).forward(random<float>(9, 1, 1));
    expect(false, "a wrong shape is refused");
  } catch (const std::invalid_argument& error) {
    expect(std::string(error.what()).find('9') != std::string::npos, "a wrong shape is refused");
  }
  try {
    RotorLinear<float> layer(std::numeric_limits<Index>::max(), 8);
    expect(false, "a layer without end is refused");
  } catch (const std::exception&) {
    expect(true, "a layer without end is refused");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: portability LAYER_FILE [FOLDER]\n";
    return 2;
  }
  try {
    const std::filesystem::path folder = argc > 2 ? argv[2] : std::filesystem::temp_directory_path();
    std::cout << sizeof(void*) * 8 << " bits, vectors of " << detail::register_bytes << " bytes\n";
    if (argc > 3 && std::string(argv[3]) == "--write") {  // makes LAYER_FILE
      save(RotorLinear<double>(20, 12), argv[1]);
      return 0;
    }
    algebra<float>();
    algebra<double>();
    layers();
    files(argv[1], folder);
    training();
    errors();
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  std::cout << (failures == 0 ? "all as expected\n" : "NOT as expected\n");
  return failures == 0 ? 0 : 1;
}
