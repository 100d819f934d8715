// SPDX-License-Identifier: MIT
/// \file
/// The arguments of a program, one after another: `while (arguments.next()) if (arguments.is("--out")) ...`,
/// and what stands around its body.
#pragma once

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace examples {

/// A wrong argument of a program.
struct ArgumentError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Writes what waits in the buffer of a stream. \throws std::runtime_error where that, or any write before,
/// failed: on a full disk printf fails without a word.
inline void finish_output(std::FILE* stream, const char* what) {
  errno = 0;
  if (std::fflush(stream) == 0 && std::ferror(stream) == 0) return;
  throw std::runtime_error(std::string(what) + " can't be written" +
                           (errno != 0 ? std::string(": ") + std::strerror(errno) : std::string()));
}

/// Every exception, an ArgumentError, names the argument; --help prints the usage and ends the program.
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
      finish_output(stdout, "standard output");
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

  /// What a function makes of it, whose std::invalid_argument becomes one that names the argument.
  template <class F>
  decltype(auto) checked(const F& function) {
    const std::string text = value();
    try {
      return function(text);
    } catch (const std::invalid_argument& error) {
      fail(name_ + ": " + error.what());
    }
  }

  /// The same as a whole number.
  long number(long low, long high) { return number(value(), low, high); }

  double real(double low, double high) {
    const std::string text = value();
    double result = 0;
    if (!parse_real(text, result) || !(result >= low && result <= high)) {
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
    throw ArgumentError(what + " (--help lists the arguments)");
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
  static bool parse(const std::string& text, long& result) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, result);
    return error == std::errc() && rest == end;
  }
  /// Decimal, without leading spaces. (libc++ has no std::from_chars of floating point.)
  static bool parse_real(const std::string& text, double& result) {
    if (text.empty() || text.find_first_not_of("0123456789+-.eE") != text.npos) return false;
    char* end = nullptr;
    result = std::strtod(text.c_str(), &end);
    return end == text.c_str() + text.size();
  }

  std::vector<std::string> arguments_;
  std::size_t position_ = 0;
  std::string name_, usage_;
};

/// A message as one line: what names of files may hold beyond printable text becomes \xNN.
inline std::string one_line(const std::string& message) {
  std::string line;
  for (const char c : message) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7f) {
      line += c;
    } else {
      char text[8];
      std::snprintf(text, sizeof text, "\\x%02x", code);
      line += text;
    }
  }
  return line;
}

/// Runs the body of a program. What fails is one line on standard error, and the exit status: 2 for wrong
/// arguments, 1 for everything else, a standard output that could not be written included.
template <class Body>
int guarded(const Body& body) {
  const auto failed = [](const std::string& what, int status) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", one_line(what).c_str());
    return status;
  };
  try {
    body();
    finish_output(stdout, "standard output");
    return 0;
  } catch (const ArgumentError& error) {
    return failed(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return failed("not enough memory", 1);
  } catch (const std::exception& error) {
    return failed(error.what(), 1);
  }
}

}  // namespace examples
