// SPDX-License-Identifier: MIT
// What the layers of a model read, as second moments: from recorded activations, as large as they may be, or
// from Gram matrices.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "rotorlin/core/types.hpp"

namespace examples {

using rotorlin::Index;
using rotorlin::Matrix;

/// E[x x^T], features x features, of a file of activations, read in blocks. In safetensors every tensor of
/// the file counts, in .npy the one array; the last dimension are the features, all before it samples.
/// Floating point of 16, 32 or 64 bits. Without samples: an empty matrix. \throws std::runtime_error, naming
/// the file, where it can't be read, has another number of features, or values that are NaN or infinite.
Matrix<double> read_gram(const std::filesystem::path& file, Index features,
                         const std::function<void(double)>& advanced = {});

/// Second moments by the name of the layer that reads: that of its weight without .weight.
class LayerInputs {
 public:
  virtual ~LayerInputs() = default;
  virtual bool contains(const std::string& layer) const = 0;
  /// How many features a layer reads. \throws std::runtime_error, naming the file, as the next ones.
  virtual Index features(const std::string& layer) const = 0;
  /// Features x features, of any scale; empty where there were no samples.
  virtual Matrix<double> gram(const std::string& layer,
                              const std::function<void(double)>& advanced) const = 0;
  virtual std::filesystem::path file(const std::string& layer) const = 0;
  /// "FOLDER has no activations for", and what a missing one should be called.
  virtual std::string lacks() const = 0;
  virtual std::string expected(const std::string& layer) const = 0;
};

/// FOLDER/LAYER.safetensors or FOLDER/LAYER.npy, samples x features. \throws std::runtime_error where there
/// is no such folder.
std::unique_ptr<LayerInputs> open_activations(const std::filesystem::path& folder);

/// A safetensors file with a tensor LAYER, features x features, for what each layer reads: the sum of x x^T
/// over its samples, or their mean. Metadata, where present: "tokens", JSON {LAYER: number of samples}, and
/// "same_inputs", JSON {LAYER: the one whose matrix serves it}. \throws std::runtime_error, naming the file.
std::unique_ptr<LayerInputs> open_grams(const std::filesystem::path& file);

}  // namespace examples
