// SPDX-License-Identifier: MIT
/// \file
/// What the numbers were measured on, and how much of it there is: name, compiler, peak rates.
#pragma once

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"
#include "support/dense.hpp"
#include "support/timing.hpp"

namespace bench {

inline std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

inline std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

/// GF/s of one core on independent fused multiply-adds in registers of full width.
inline double peak_gflops() {
  constexpr int lanes = rotorlin::detail::native_lanes<float>;
  constexpr int chains = 12;
  constexpr int steps = 20000;
  using P = rotorlin::detail::Pack<float, lanes>;
  float seed = 0.5f;
  keep(&seed);
  double best = 0;
  for (int attempt = 0; attempt < 40; ++attempt) {
    P sums[chains];
    for (int c = 0; c < chains; ++c) sums[c] = P{} + seed * static_cast<float>(c);
    const P factor = P{} + seed;
    const double start = seconds_now();
    for (int i = 0; i < steps; ++i) {
      rotorlin::detail::unroll<chains>([&](auto c) { sums[c] = sums[c] * factor + factor; });
    }
    const double seconds = seconds_now() - start;
    keep(sums);
    best = std::max(best, 2.0 * lanes * chains * steps / seconds * 1e-9);
  }
  return best;
}

/// GB/s of one core reading memory that no cache holds.
inline double memory_gbytes(const rotorlin::VectorX<float>& pool) {
  double best = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const double start = seconds_now();
    const float sum = pool.sum();
    const double seconds = seconds_now() - start;
    keep(&sum);
    best = std::max(best, 4e-9 * static_cast<double>(pool.size()) / seconds);
  }
  return best;
}

/// The head of the table.
inline std::string machine_description(double peak, double bandwidth) {
  std::ostringstream text;
  text << "- machine: " << processor() << ", " << std::thread::hardware_concurrency()
       << " cores; measured: " << static_cast<int>(peak) << " GF/s (float, fused multiply-add) and "
       << static_cast<int>(bandwidth) << " GB/s from memory, one core\n"
       << "- compiler: " << compiler() << ", " << ROTORLIN_BENCH_FLAGS << "\n"
       << "- Eigen " << EIGEN_WORLD_VERSION << '.' << EIGEN_MAJOR_VERSION << '.' << EIGEN_MINOR_VERSION
       << ", " << blas_description() << "\n";
  return text.str();
}

}  // namespace bench
