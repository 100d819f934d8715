// SPDX-License-Identifier: MIT
// Recorded activations, as large as they may be, in safetensors or NumPy's .npy files.
#pragma once

#include <filesystem>
#include <functional>

#include "rotorlin/core/types.hpp"

namespace examples {

using rotorlin::Index;
using rotorlin::Matrix;

/// E[x x^T], features x features, of a file of activations, read in blocks. In safetensors every tensor of
/// the file counts, in .npy the one array; the last dimension are the features, all before it samples.
/// Floating point of 16, 32 or 64 bits. \throws std::runtime_error, naming the file, where it can't be read,
/// has another number of features, no samples, or values that are NaN or infinite.
Matrix<double> read_gram(const std::filesystem::path& file, Index features,
                         const std::function<void(double)>& advanced = {});

/// FOLDER/NAME.safetensors or FOLDER/NAME.npy; empty where there is neither.
std::filesystem::path find_activations(const std::filesystem::path& folder, const std::string& name);

}  // namespace examples
