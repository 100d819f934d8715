// SPDX-License-Identifier: MIT
// rotorlin_ratios: how many times faster a rotor layer is than the dense layer that it replaces. Ours and the
// other run alternately; the ratio is the median over the rounds. See docs/performance.md.
#include <cstdio>
#include <cstdlib>

#include "ratios/report.hpp"
#include "support/dense.hpp"

int main(int argc, char** argv) {
  bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--out" && i + 1 < argc) {
      options.out = argv[++i];
    } else if (argument == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else {
      std::fprintf(stderr,
                   "usage: rotorlin_ratios [--out DIR] [--quick] [--only CASE]\n"
                   "  --out DIR    where ratios.csv and ratios.md go (default: here)\n"
                   "  --quick      shorter measurements\n"
                   "  --only CASE  the cases whose name contains CASE\n");
      return 2;
    }
  }
  const bool everything = options.only.empty();
  bench::one_thread();
  const std::string memory = everything ? bench::memory_table() : "";
  bench::Report report(options);

  bench::forward_cases(report, {11}, {256, 1});
  bench::network_cases(report);
  bench::training_cases(report);
  bench::forward_cases(report, {10, 8}, {256});
  bench::product_cases(report, {10});
  bench::thread_cases(report);
  bench::sample_training_cases(report);
  bench::wide_cases(report);

  bench::forward_cases(report, {6, 7, 8, 9, 10, 11, 12}, {1, 16, 256});
  bench::product_cases(report, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  bench::exponential_cases(report);

  if (everything) {
    report.text("\n" + memory);
    report.text("\n" + bench::compile_table(options.out));
  }
}
