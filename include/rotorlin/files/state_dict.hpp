// SPDX-License-Identifier: MIT
/// \file
/// A PyTorch state_dict: tensors by name, read from a safetensors file (tools/pth_to_safetensors.py makes
/// it).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/io/safetensors.hpp"

namespace rotorlin {

/// A tensor of a state_dict, row-major.
struct StateTensor {
  std::vector<Index> shape;
  VectorX<double> values;
};
using StateDict = std::map<std::string, StateTensor>;

/// The tensors of a file whose names begin with `prefix`, without it. Floating-point and integer values.
/// \throws std::runtime_error for other types.
inline StateDict read_state_dict(const SafetensorsFile& file, const std::string& prefix = "") {
  StateDict state;
  for (const TensorInfo& tensor : file.tensors()) {
    if (!tensor.name.starts_with(prefix)) continue;
    StateTensor& entry = state[tensor.name.substr(prefix.size())];
    entry.shape = tensor.shape;
    if (tensor.dtype == DType::i64) {
      entry.values = file.vector<std::int64_t>(tensor.name).template cast<double>();
    } else if (tensor.dtype == DType::i32) {
      entry.values = file.vector<std::int32_t>(tensor.name).template cast<double>();
    } else {
      entry.values = file.vector<double>(tensor.name);
    }
  }
  return state;
}

}  // namespace rotorlin
