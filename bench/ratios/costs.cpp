// SPDX-License-Identifier: MIT
// Memory of processes that use only dense or only rotor layers, and what including the library costs.
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "ratios/report.hpp"
#include "support/dense.hpp"
#include "support/timing.hpp"
#include "support/training.hpp"

namespace bench {
namespace {

using rotorlin::Matrix;

struct Cost {
  double seconds;
  double megabytes;  ///< peak resident set
  bool succeeded;
};

/// What a child process takes that runs `body`.
Cost cost_of(const std::function<void()>& body) {
  std::fflush(nullptr);
  const double start = seconds_now();
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 1;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  return {seconds_now() - start, static_cast<double>(usage.ru_maxrss) / 1024, status == 0};
}

constexpr Index features = 2048;
constexpr int stack = 16;

void dense_stack() {
  const Matrix<float> x = random_matrix<float>(features, 1, 1);
  Matrix<float> y(features, 1);
  std::vector<Matrix<float>> weights(stack, Matrix<float>::Zero(features, features));
  for (const Matrix<float>& weight : weights) dense_forward(best_library, false, weight.data(), x, y);
}

template <class Layers>
void run_stack(const Layers& layers) {
  const Matrix<float> x = random_matrix<float>(features, 1, 1);
  Matrix<float> y(features, 1);
  typename Layers::value_type::Workspace workspace;
  for (const auto& layer : layers) layer.forward(x, y, workspace);
}

std::vector<rotorlin::RotorLinear<float>> rotor_stack(bool single) {
  std::vector<rotorlin::RotorLinear<float>> layers;
  for (std::uint64_t i = 0; i < stack; ++i) layers.push_back(rotor_layer<float>(11, single, i));
  return layers;
}

void dense_training() {
  const Matrix<float> x = random_matrix<float>(features, 256, 1);
  DenseTraining<float>(best_library, features).step(x, x);
}

void rotor_training(bool single) {
  const Matrix<float> x = random_matrix<float>(features, 256, 1);
  Matrix<float> y(features, 256), grad_x(features, 256);
  rotorlin::RotorLinear<float> layer = rotor_layer<float>(11, single);
  rotorlin::RotorLinear<float>::Workspace workspace;
  layer.forward(x, y, workspace);
  layer.backward(x, y, grad_x, workspace);
}

/// Bytes on the heap that `prepare` adds to a layer.
std::size_t prepared_bytes(bool single) {
  const rotorlin::RotorLinear<float> layer = rotor_layer<float>(11, single);
  rotor_layer<float>(11, single).prepare();  // tables that all layers share
  const std::size_t before = mallinfo2().uordblks;
  layer.prepare();
  return mallinfo2().uordblks - before;
}

}  // namespace

std::string memory_table() {
  std::ostringstream table;
  const double nothing = cost_of([] {}).megabytes;
  const auto megabytes = [&](const std::function<void()>& body) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", cost_of(body).megabytes - nothing);
    return std::string(text);
  };
  table << "Memory, 2048 to 2048, float; peak RSS of a process that does nothing else, less the "
        << std::lround(nothing) << " MB of one that does nothing:\n\n"
        << "| layer | parameters, bytes | prepared weights, bytes | 16 layers, batch 1, MB | training step, "
           "batch 256, MB |\n"
        << "|---|---:|---:|---:|---:|\n"
        << "| dense | " << 4 * features * features << " | 0 | " << megabytes(dense_stack) << " | "
        << megabytes(dense_training) << " |\n";
  for (const bool single : {false, true}) {
    table << (single ? "| single rotor | " : "| double rotor | ")
          << 4 * rotor_layer<float>(11, single).num_parameters() << " | " << prepared_bytes(single) << " | "
          << megabytes([&] { run_stack(rotor_stack(single)); }) << " | "
          << megabytes([&] { rotor_training(single); }) << " |\n";
  }
  return table.str();
}

std::string compile_table(const std::filesystem::path& folder) {
  const std::string layer =
      "\nint main() {\n  rotorlin::RotorLinear<float> layer(64, 64);\n"
      "  return layer.forward(rotorlin::Matrix<float>::Ones(64, 4)).size() == 0;\n}\n";
  struct Source {
    const char* what;
    std::string text;
    const char* flags;
  };
  const Source sources[] = {
      {"Eigen/Core alone, -O0", "#include <Eigen/Core>\n", "-O0"},
      {"rotorlin/rotorlin.hpp, -O0", "#include \"rotorlin/rotorlin.hpp\"\n", "-O0"},
      {"the same and a RotorLinear&lt;float&gt;, -O0", "#include \"rotorlin/rotorlin.hpp\"" + layer, "-O0"},
      {"the same, " ROTORLIN_BENCH_FLAGS, "#include \"rotorlin/rotorlin.hpp\"" + layer, ROTORLIN_BENCH_FLAGS},
  };
  std::ostringstream table;
  table << "Compiling one translation unit:\n\n| source | seconds | peak memory, MB |\n|---|---:|---:|\n";
  const std::string source = (folder / "compile.cpp").string();
  for (const Source& s : sources) {
    std::ofstream(source) << s.text;
    const std::string command =
        std::string(ROTORLIN_BENCH_COMPILER) + " " + s.flags + " -c '" + source + "' -o /dev/null";
    const Cost cost = cost_of([&] { _exit(std::system(command.c_str()) != 0); });
    char numbers[64] = "failed | ";
    if (cost.succeeded) std::snprintf(numbers, sizeof numbers, "%.1f | %.0f", cost.seconds, cost.megabytes);
    table << "| " << s.what << " | " << numbers << " |\n";
  }
  std::filesystem::remove(source);
  return table.str();
}

}  // namespace bench
