// SPDX-License-Identifier: MIT
/// \file
/// Numbers to text and back for files: whatever the locale, and no bit lost.
///
/// std::to_chars and std::from_chars do it where the standard library has them for floating point; libc++
/// (clang on macOS) lacks the second one before version 20, and streams with the classic locale stand in.
#pragma once

#include <charconv>
#include <limits>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <version>

#include "rotorlin/core/config.hpp"

namespace rotorlin::detail {

inline std::optional<double> parse_real_by_stream(std::string_view text) {
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  double value = 0;
  if (!(stream >> std::noskipws >> value) || stream.peek() != std::istringstream::traits_type::eof())
    return {};
  return value;
}

inline std::string format_real_by_stream(double value) {
  for (int digits = 6; digits < std::numeric_limits<double>::max_digits10; ++digits) {
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    stream.precision(digits);
    stream << value;
    if (parse_real_by_stream(stream.str()) == value) return stream.str();
  }
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  stream.precision(std::numeric_limits<double>::max_digits10);
  stream << value;
  return stream.str();
}

/// The number that the whole text is, a decimal one with or without an exponent; nothing for any other text
/// (blanks, a leading +, hexadecimal, inf, nan) or where a double cannot hold it.
inline std::optional<double> parse_real(std::string_view text) {
  if (text.empty() || text.front() == '+' || text.find_first_not_of("0123456789+-.eE") != text.npos)
    return {};
#if defined(__cpp_lib_to_chars)
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return {};
  return value;
#else
  return parse_real_by_stream(text);
#endif
}

/// A finite number as text from which parse_real makes the same number again.
inline std::string format_real(double value) {
#if defined(__cpp_lib_to_chars)
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
#else
  return format_real_by_stream(value);
#endif
}

}  // namespace rotorlin::detail
