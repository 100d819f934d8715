// SPDX-License-Identifier: MIT
/// \file
/// The report that rotorlin_ratios writes: a Markdown table on the screen and in ratios.md, and ratios.csv.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "support/timing.hpp"

namespace bench {

using rotorlin::Index;

struct Options {
  std::filesystem::path out = ".";
  std::string only;  ///< cases whose name contains it; empty: all
  bool quick = false;
};

/// What a call does, for the columns that explain a ratio; 0 where nobody counted.
struct Work {
  double our_flops = 0;
  double other_flops = 0;
  double other_bytes = 0;  ///< from memory; 0 where caches hold the weights
};

class Report {
 public:
  explicit Report(const Options& options);
  ~Report();

  /// False where --only excludes the case, or where it has been measured already.
  bool wants(const std::string& name) const;

  /// Measures ours against other alternately and adds the row.
  template <class Ours, class Other>
  void measure(const std::string& name, const Work& work, Ours ours, Other other) {
    add(name, work, measure_pair(effort_, std::move(ours), std::move(other)));
  }

  void add(const std::string& name, const Work& work, const PairTime& time);
  /// A line of Markdown outside of the table.
  void text(const std::string& line);

  const Effort& effort() const { return effort_; }
  /// 2^26 random numbers, 256 MB: matrices that no cache holds.
  const float* pool() const { return pool_.data(); }
  static constexpr Index pool_size = Index{1} << 26;

 private:
  Options options_;
  Effort effort_;
  rotorlin::VectorX<float> pool_;
  double peak_;
  std::ofstream markdown_;
  std::ofstream csv_;
  std::vector<std::string> done_;
};

// The groups of cases.
void forward_cases(Report& report, const std::vector<int>& dimensions, const std::vector<Index>& batches);
void training_cases(Report& report);
void thread_cases(Report& report);
/// Sums of 1 to 64 rotor pairs, float and double, against DenseLinear: never slower than it.
void wide_cases(Report& report);
/// One forward pass of a sample against a training step of one sample: ratios below 1.
void sample_training_cases(Report& report);
void network_cases(Report& report);
void product_cases(Report& report, const std::vector<int>& dimensions);
void exponential_cases(Report& report);

/// Bytes and peak memory, as Markdown. To be called first, while the process is small.
std::string memory_table();
/// Seconds and megabytes that the compiler needs, as Markdown; writes its sources to `folder`.
std::string compile_table(const std::filesystem::path& folder);

}  // namespace bench
