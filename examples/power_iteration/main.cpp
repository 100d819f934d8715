// SPDX-License-Identifier: MIT
// What the power iteration, by which the paper takes exponentials of bivectors, costs and what it does to the
// gradient: the paper's own measurement (steps to converge during a fit), and what it could not measure
// without an exact gradient to compare with.

#include <cstdio>

#include "common/arguments.hpp"
#include "common/progress.hpp"
#include "common/table.hpp"
#include "power_iteration/experiments.hpp"

namespace {

using namespace examples;

constexpr const char* usage =
    R"(Measures the power iteration of the paper: its steps, its error, and what its gradient costs.

power_iteration [--out FOLDER] [--seed N] [--quick]

  --out    where the CSV files and plots go (default: out)
  --seed   of starts and draws (default: 1)
  --quick  a few repetitions and small dimensions, for a first look
)";

Options parse(int count, char** values) {
  Options options;
  Arguments arguments(count, values, usage);
  while (arguments.next()) {
    if (arguments.is("--out")) {
      options.out = arguments.value();
    } else if (arguments.is("--seed")) {
      options.seed = static_cast<std::uint64_t>(arguments.number(0, 1000000000));
    } else if (arguments.is("--quick")) {
      options.quick = true;
    } else {
      arguments.unknown();
    }
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] {
    const Options options = parse(count, arguments);
    const Stopwatch clock;
    prepare_folder(options.out);
    convergence(options);
    gradient_error(options);
    training(options);
    std::printf("Written to %s.  %s in all\n", options.out.c_str(), duration(clock.seconds()).c_str());
  });
}
