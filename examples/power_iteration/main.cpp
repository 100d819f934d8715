// SPDX-License-Identifier: MIT
// What the power iteration, by which the paper takes exponentials of bivectors, costs and what it does to the
// gradient: the paper's own measurement (steps to converge during a fit), and what it could not measure
// without an exact gradient to compare with.

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "common/arguments.hpp"
#include "common/progress.hpp"
#include "power_iteration/experiments.hpp"

namespace {

using namespace examples;

constexpr const char* usage =
    R"(Measures the power iteration of the paper: its steps, its error, and what its gradient costs.

power_iteration [--out FOLDER] [--seed N] [--quick]

  --out    where the CSV files and plots go (default: out)
  --quick  a few repetitions and small dimensions, for a first look
)";

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    const auto value = [&]() -> std::string {
      if (++i == count) throw std::invalid_argument(name + " needs a value\n\n" + usage);
      return arguments[i];
    };
    if (name == "--help" || name == "-h") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else if (name == "--out") {
      options.out = value();
    } else if (name == "--seed") {
      options.seed = std::stoull(value());
    } else if (name == "--quick") {
      options.quick = true;
    } else {
      throw std::invalid_argument("unknown argument " + name + "\n\n" + usage);
    }
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] {
    const Options options = parse(count, arguments);
    const Stopwatch clock;
    convergence(options);
    gradient_error(options);
    training(options);
    std::printf("Written to %s.  %s in all\n", options.out.c_str(), duration(clock.seconds()).c_str());
  });
}
