// SPDX-License-Identifier: MIT
/// \file
/// In which type compressed layers are stored, and what that takes.
#pragma once

#include <cmath>
#include <optional>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/dtype.hpp"

namespace rotorlin {

/// How the values of shared layers are stored. Biases stay as they are. Unless values are kept in the scalar
/// of the layers, atoms have norm 1 in the file (but for dictionaries with identity rows), which takes away
/// the freedom of scale between them and the coefficients: without, 8 bits destroy a model.
struct StorageOptions {
  /// F64, F32, F16 or BF16, of atoms and coefficients. Default: the scalar of the layers.
  std::optional<DType> dtype = {};
  /// 3 ... 8: whole numbers of so many bits in blocks of 32 values along a column, which share a scale of 16
  /// bits (8: as GGUF's Q8_0); 0: values of `dtype`. Not both.
  int bits = 0;
};

/// Values that share a scale, where `bits` are asked for.
inline constexpr Index storage_block = 32;

/// \throws std::invalid_argument for other numbers of bits, or where a dtype is given beside them.
inline void check_storage(const StorageOptions& storage) {
  if (storage.bits == 0) return;
  if (storage.bits < 3 || storage.bits > 8)
    detail::throw_invalid("StorageOptions: bits = ", storage.bits, ", expected 0 or 3 ... 8");
  if (storage.dtype)
    detail::throw_invalid("StorageOptions: bits = ", storage.bits, " and dtype = ", storage.dtype->name(),
                          ", expected one of both");
}

/// Bytes of a matrix, scales counted; of a list of values, which is one column. \throws as above.
inline double stored_bytes(Index rows, Index cols, const StorageOptions& storage) {
  check_storage(storage);
  const bool blocks = storage.bits != 0;
  const double bits = blocks ? static_cast<double>(storage.bits)
                             : static_cast<double>(storage.dtype.value_or(DType::f32).bits());
  const double height = static_cast<double>(rows);
  const double scales = blocks ? 2 * std::ceil(height / static_cast<double>(storage_block)) : 0;
  return (std::ceil(height * bits / 8) + scales) * static_cast<double>(cols);
}

}  // namespace rotorlin
