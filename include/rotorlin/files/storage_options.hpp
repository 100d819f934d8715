// SPDX-License-Identifier: MIT
/// \file
/// In which type compressed layers are stored.
#pragma once

#include <optional>

#include "rotorlin/io/dtype.hpp"

namespace rotorlin {

/// How the values of shared layers are stored.
struct StorageOptions {
  /// F64, F32, F16 or BF16, of atoms and coefficients; biases stay as they are. Default: the scalar of the
  /// layers.
  std::optional<DType> dtype;
};

}  // namespace rotorlin
