// SPDX-License-Identifier: MIT
/// \file
/// What a file says of one tensor, and how many bytes that takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/dtype.hpp"

namespace rotorlin {

/// One tensor of a file. `begin` and `end` are bytes behind the header.
struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<Index> shape;
  std::size_t begin, end;

  /// Number of values.
  Index size() const {
    Index values = 1;
    for (const Index d : shape) values *= d;
    return values;
  }
};

namespace detail {

inline std::string shape(const std::vector<Index>& dimensions) {
  std::string text = "[";
  for (const Index d : dimensions) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

/// Why so many bytes are not the values of a tensor; empty where they are, or where the size of a value is
/// not known.
inline std::string size_mismatch(const DType& dtype, const std::vector<Index>& dimensions,
                                 std::size_t bytes) {
  Index bits = dtype.bits() == 0 ? 1 : static_cast<Index>(dtype.bits());
  for (const Index d : dimensions) {
    if (d < 0) return concatenate("shape ", shape(dimensions), " is impossible");
    if (__builtin_mul_overflow(bits, d, &bits)) return concatenate("shape ", shape(dimensions), " overflows");
  }
  if (dtype.bits() == 0) return "";
  const std::string wanted = concatenate("shape ", shape(dimensions), " of ", dtype.name(), " needs ");
  if (bits % 8 != 0) return concatenate(wanted, bits, " bits, expected whole bytes");
  if (static_cast<std::size_t>(bits / 8) == bytes) return "";
  return concatenate(wanted, bits / 8, " bytes");
}

}  // namespace detail

}  // namespace rotorlin
