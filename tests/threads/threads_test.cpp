// SPDX-License-Identifier: MIT
// Compiled with OpenMP (where the compiler has it) and ROTORLIN_OPENMP.
#include <catch2/catch.hpp>

#include "rotorlin/core/parallel.hpp"
#include "rotorlin/layers/rotor_linear.hpp"

using namespace rotorlin;

// clang's OpenMP runtime keeps memory of its threads until the end, which LeakSanitizer reports.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libomp.so"; }

namespace {

struct Results {
  Matrix<float> y, grad_x;
  VectorX<float> gradients;
  bool operator==(const Results& other) const {
    return y == other.y && grad_x == other.grad_x && gradients == other.gradients;
  }
};

Results run(RotorLinear<float> layer, Index batch, int threads) {
  set_num_threads(threads);
  Matrix<float> x(layer.in_features(), batch);
  Random(1).fill_uniform(x, -1.0, 1.0);
  Results results{Matrix<float>(layer.out_features(), batch), Matrix<float>(x.rows(), batch), {}};
  RotorLinear<float>::Workspace workspace;
  layer.forward(x, results.y, workspace);
  layer.backward(x, results.y, results.grad_x, workspace);
  results.gradients = layer.gradients();
  set_num_threads(0);
  return results;
}

}  // namespace

TEST_CASE("Results are bitwise the same on any number of threads") {
  for (const bool single : {false, true}) {
    RotorLinearOptions options;
    options.single_rotor = single;
    for (const Index features : {16, 256, 300}) {
      const RotorLinear<float> layer(features, features, options);
      for (const Index batch : {1, 5, 100, 333}) {
        CAPTURE(single, features, batch);
        const Results one = run(layer, batch, 1);
        for (const int threads : {2, 3, 8}) CHECK(run(layer, batch, threads) == one);
      }
    }
  }
}

TEST_CASE("The number of threads is set and refused") {
  CHECK_THROWS_AS(set_num_threads(-1), std::invalid_argument);
  set_num_threads(2);
#if defined(ROTORLIN_OPENMP)
  CHECK(num_threads() == 2);
#else
  CHECK(num_threads() == 1);
#endif
  set_num_threads(0);
  CHECK(num_threads() >= 1);
}
