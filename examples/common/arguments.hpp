// SPDX-License-Identifier: MIT
/// \file
/// The arguments of a program, one after another: `while (arguments.next()) if (arguments.is("--out")) ...`,
/// and what stands around its body.
#pragma once

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace examples {

/// Every exception names the argument and ends with the usage; --help prints the usage and ends the program.
class Arguments {
 public:
  Arguments(int count, char** arguments, std::string usage)
      : arguments_(arguments + 1, arguments + count), usage_(std::move(usage)) {}

  /// Goes on to the next argument, if there is one.
  bool next() {
    if (position_ == arguments_.size()) return false;
    name_ = arguments_[position_++];
    if (name_ == "--help" || name_ == "-h") {
      std::fputs(usage_.c_str(), stdout);
      std::exit(0);
    }
    return true;
  }

  bool is(const char* name) const { return name_ == name; }
  bool is_option() const { return name_.starts_with("-"); }
  const std::string& name() const { return name_; }

  /// What follows the present argument.
  std::string value() {
    if (position_ == arguments_.size()) fail(name_ + " needs a value");
    return arguments_[position_++];
  }

  /// The same as a whole number.
  long number(long low, long high) { return number(value(), low, high); }

  double real(double low, double high) {
    const std::string text = value();
    double result = 0;
    if (!parse(text, result) || !(result >= low && result <= high)) {
      char range[80];
      std::snprintf(range, sizeof range, "' is not a number from %g to %g", low, high);
      fail(name_ + ": '" + text + range);
    }
    return result;
  }

  /// The same as texts, or whole numbers, separated by commas.
  std::vector<std::string> list() {
    std::vector<std::string> result(1);
    for (const char c : value()) {
      if (c == ',') {
        result.emplace_back();
      } else {
        result.back() += c;
      }
    }
    return result;
  }
  std::vector<long> numbers(long low, long high) {
    std::vector<long> result;
    for (const std::string& text : list()) result.push_back(number(text, low, high));
    return result;
  }

  [[noreturn]] void unknown() const { fail("unknown argument " + name_); }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(what + "\n\n" + usage_);
  }

 private:
  long number(const std::string& text, long low, long high) const {
    long result = 0;
    if (!parse(text, result) || result < low || result > high) {
      fail(name_ + ": '" + text + "' is not a whole number from " + std::to_string(low) + " to " +
           std::to_string(high));
    }
    return result;
  }
  template <class T>
  static bool parse(const std::string& text, T& result) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, result);
    return error == std::errc() && rest == end;
  }

  std::vector<std::string> arguments_;
  std::size_t position_ = 0;
  std::string name_, usage_;
};

/// Runs the body of a program; the exit status, 1 after an exception, whose text it prints.
template <class Body>
int guarded(const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "\n%s\n", error.what());
    return 1;
  }
}

}  // namespace examples
