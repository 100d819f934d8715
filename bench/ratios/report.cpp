// SPDX-License-Identifier: MIT
#include "ratios/report.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "rotorlin/core/random.hpp"
#include "support/machine.hpp"

namespace bench {
namespace {

/// printf into a string.
template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

}  // namespace

Report::Report(const Options& options)
    : options_(options),
      effort_{options.quick ? 7 : 11, options.quick ? 0.002 : 0.01},
      pool_(pool_size),
      peak_(peak_gflops()) {
  std::filesystem::create_directories(options.out);
  markdown_.open(options.out / "ratios.md");
  csv_.open(options.out / "ratios.csv");
  if (!markdown_ || !csv_) {
    std::cerr << "rotorlin_ratios: cannot write to " << options.out << '\n';
    std::exit(1);
  }
  csv_ << "case,ours_us,other_us,ratio\n";
  rotorlin::Random(1).fill_uniform(pool_, -0.03, 0.03);
  text(machine_description(peak_, memory_gbytes(pool_)) + "- one thread; every row is the median of " +
       std::to_string(effort_.rounds) + " ratios, ours and other measured in turn\n");
  text(
      "| case | ours, us | other, us | ratio | ours, GF/s (of peak) | other, GF/s (of peak) | other, GB/s |");
  text("|---|---:|---:|---:|---:|---:|---:|");
}

Report::~Report() = default;

bool Report::wants(const std::string& name) const {
  return name.find(options_.only) != std::string::npos &&
         std::find(done_.begin(), done_.end(), name) == done_.end();
}

void Report::add(const std::string& name, const Work& work, const PairTime& time) {
  const auto rate = [&](double flops, double us) {
    if (flops == 0) return std::string();
    return format("%.1f (%.0f %%)", flops / us * 1e-3, flops / us * 1e-1 / peak_);
  };
  const std::string gbytes =
      work.other_bytes > 0 ? format("%.1f", work.other_bytes / time.other_us * 1e-3) : "";
  // four digits without an exponent
  const auto number = [](double x) {
    return format("%.*f", x < 1 ? 4 : x < 10 ? 3 : x < 100 ? 2 : x < 1000 ? 1 : 0, x);
  };
  text("| `" + name + "` | " + number(time.ours_us) + " | " + number(time.other_us) + " | " +
       format("%.3g", time.ratio) + " | " + rate(work.our_flops, time.ours_us) + " | " +
       rate(work.other_flops, time.other_us) + " | " + gbytes + " |");
  csv_ << name << ',' << format("%.5g,%.5g,%.4g", time.ours_us, time.other_us, time.ratio) << std::endl;
  done_.push_back(name);
}

void Report::text(const std::string& line) {
  std::cout << line << std::endl;
  markdown_ << line << std::endl;
}

}  // namespace bench
