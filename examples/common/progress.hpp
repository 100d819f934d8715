// SPDX-License-Identifier: MIT
/// \file
/// Clocks and a line of progress: on a terminal it is rewritten in place, in a log file a new line appears
/// every few seconds.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "common/table.hpp"

namespace examples {

/// Seconds since its construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// 4.2 -> "4.2 s", 75 -> "1 min 15 s".
inline std::string duration(double seconds) {
  if (seconds < 10) return format("%.1f s", seconds);
  const auto whole = std::lround(seconds);
  return whole < 60 ? format("%ld s", whole) : format("%ld min %02ld s", whole / 60, whole % 60);
}

/// A line of progress on standard output: what runs, how far it is, how it goes, how long it will take yet.
class Progress {
 public:
  explicit Progress(std::string label) : label_(std::move(label)) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (open_) std::puts("");
  }

  /// `fraction` of the work is done (0 to 1); `note` says how it goes. Cheap: most calls print nothing.
  void update(double fraction, const std::string& note) {
    const double now = clock_.seconds();
    if (now - last_ < (terminal_ ? 0.1 : 5.0)) return;
    last_ = now;
    std::string line = format("%s  %3.0f %%  %s", label_.c_str(), 100 * fraction, note.c_str());
    if (fraction > 0.02) line += "  " + duration(now * (1 - fraction) / fraction) + " left";
    print(line);
    if (!terminal_) std::puts("");
  }

  /// The last line; it stays.
  void finish(const std::string& note) {
    print(label_ + "  " + note + "  " + duration(clock_.seconds()));
    std::puts("");
    std::fflush(stdout);
    open_ = false;
  }

  double seconds() const { return clock_.seconds(); }

 private:
  void print(const std::string& line) {
    std::printf("%s%s", terminal_ ? "\r\033[K" : "", line.c_str());
    std::fflush(stdout);
    open_ = terminal_;
  }

  std::string label_;
  Stopwatch clock_;
  bool terminal_ = isatty(STDOUT_FILENO) != 0;
  double last_ = terminal_ ? -1.0 : 0.0;
  bool open_ = false;
};

}  // namespace examples
