// SPDX-License-Identifier: MIT
/// \file
/// The exceptions that a wrong call meets: std::invalid_argument (shapes and options), std::domain_error
/// (NaN or Inf where a number is needed), std::runtime_error (files). Their texts are put together here.
#pragma once

#include "rotorlin/core/config.hpp"

#include <sstream>
#include <stdexcept>
#include <string>

namespace rotorlin::detail {

template <class... Parts>
std::string concatenate(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
[[noreturn]] void throw_invalid(const Parts&... parts) {
  throw std::invalid_argument(concatenate(parts...));
}

template <class... Parts>
[[noreturn]] void throw_domain(const Parts&... parts) {
  throw std::domain_error(concatenate(parts...));
}

template <class... Parts>
[[noreturn]] void throw_runtime(const Parts&... parts) {
  throw std::runtime_error(concatenate(parts...));
}

/// "rows x cols" of anything with rows() and cols(), for messages.
template <class M>
std::string shape(const M& m) {
  return concatenate(m.rows(), " x ", m.cols());
}

}  // namespace rotorlin::detail
