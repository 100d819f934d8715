// SPDX-License-Identifier: MIT
// What this program does.
#pragma once

#include <filesystem>

#include "checkpoint.hpp"
#include "rotorlin/geopair/compression.hpp"

namespace examples {

/// Compresses a checkpoint into a safetensors file, in the disk's space rather than in memory: Gram matrices
/// and finished groups wait there. Values are stored in 16 bits where the weights came so, or in blocks of so
/// many `bits` (0: not), with coefficients fitted to the rounded atoms. Prints what each stage takes and what
/// came of it. With `share_outputs`, sparse matrices that write the residual stream and read more than it
/// share their outputs.
void compress(const Checkpoint& checkpoint, rotorlin::CompressorOptions options, bool share_outputs, int bits,
              const std::filesystem::path& target);

/// Writes the dense weights of a compressed file. Where `original` is given, the errors of what was written
/// are measured and held against the file's report. \throws std::runtime_error where they differ.
void decompress(const std::filesystem::path& compressed, const std::filesystem::path& target,
                const Sources* original);

}  // namespace examples
