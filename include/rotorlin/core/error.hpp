// SPDX-License-Identifier: MIT
/// \file
/// The exceptions that a wrong call meets: std::invalid_argument (shapes and options), std::domain_error
/// (NaN or Inf where a number is needed), std::runtime_error (files). Their texts are put together here.
#pragma once

#include <cstddef>
#include <locale>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "rotorlin/core/config.hpp"

namespace rotorlin::detail {

/// One part of a message: anything with operator<<, and how to write it. Messages are put together from these
/// in one function, so that a check costs those who compile it next to nothing.
struct MessagePart {
  const void* value;
  void (*write)(std::ostream&, const void*);
};
inline MessagePart message_part(const char* text) {
  return {text, [](std::ostream& out, const void* value) { out << static_cast<const char*>(value); }};
}
template <class T>
MessagePart message_part(const T& part) {
  return {&part, [](std::ostream& out, const void* value) { out << *static_cast<const T*>(value); }};
}

[[gnu::cold]] inline std::string concatenate_parts(const MessagePart* parts, std::size_t count) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // what stands in files is no matter of the user's language
  for (std::size_t i = 0; i < count; ++i) parts[i].write(text, parts[i].value);
  return text.str();
}
[[noreturn, gnu::cold]] inline void throw_invalid_parts(const MessagePart* parts, std::size_t count) {
  throw std::invalid_argument(concatenate_parts(parts, count));
}
[[noreturn, gnu::cold]] inline void throw_domain_parts(const MessagePart* parts, std::size_t count) {
  throw std::domain_error(concatenate_parts(parts, count));
}
[[noreturn, gnu::cold]] inline void throw_runtime_parts(const MessagePart* parts, std::size_t count) {
  throw std::runtime_error(concatenate_parts(parts, count));
}

template <class... Parts>
std::string concatenate(const Parts&... parts) {
  const MessagePart list[] = {message_part(parts)...};
  return concatenate_parts(list, sizeof...(parts));
}

template <class... Parts>
[[noreturn, gnu::cold]] void throw_invalid(const Parts&... parts) {
  const MessagePart list[] = {message_part(parts)...};
  throw_invalid_parts(list, sizeof...(parts));
}

template <class... Parts>
[[noreturn, gnu::cold]] void throw_domain(const Parts&... parts) {
  const MessagePart list[] = {message_part(parts)...};
  throw_domain_parts(list, sizeof...(parts));
}

template <class... Parts>
[[noreturn, gnu::cold]] void throw_runtime(const Parts&... parts) {
  const MessagePart list[] = {message_part(parts)...};
  throw_runtime_parts(list, sizeof...(parts));
}

/// "rows x cols" of anything with rows() and cols(), for messages.
template <class M>
std::string shape(const M& m) {
  return concatenate(m.rows(), " x ", m.cols());
}

}  // namespace rotorlin::detail
