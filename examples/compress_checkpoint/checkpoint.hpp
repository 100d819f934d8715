// SPDX-License-Identifier: MIT
// Checkpoints of two kinds, as the compression sees them: matrices to compress, what these read, and the
// rest.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "presets.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/safetensors.hpp"

namespace examples {

using rotorlin::Index;
using rotorlin::Matrix;

/// A matrix that will be compressed.
struct Slot {
  std::string name;  ///< of the layer, without ".weight"
  std::string type;  ///< layers of one type have one place in every block
  Index out, in;
  std::string reads;  ///< what it reads: slots with the same share a Gram matrix
  rotorlin::DType dtype = rotorlin::DType::f32;
  bool transposed = false;  ///< in x out in its file
};

struct Sources {
  std::filesystem::path model;
  std::vector<NamePattern> patterns;                         ///< safetensors only; none: those of the preset
  std::string preset;                                        ///< safetensors only; empty: by config.json
  std::filesystem::path activations, grams;                  ///< safetensors only: a folder, or a file
  std::filesystem::path config;                              ///< config.json; empty: beside the model
  std::filesystem::path calibration, evaluation, tokenizer;  ///< of models that are run here
  Index tokens = 65536;                                      ///< for calibration

  /// Everything that was named, files and folders.
  std::vector<std::filesystem::path> paths() const {
    return {model, activations, grams, calibration, evaluation, tokenizer};
  }
};

using Advance = std::function<void(double)>;

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  const std::vector<Slot>& slots() const { return slots_; }
  /// What was found and what will be done with it, in lines.
  virtual std::string summary() const = 0;
  /// What else than its files decides about a checkpoint's compression.
  virtual std::string remarks() const { return ""; }
  /// Every file that is read.
  virtual std::vector<std::filesystem::path> inputs() const = 0;
  /// Of the files, without what in them does not belong.
  virtual double bytes() const = 0;
  /// out x in. Callable from several threads.
  virtual Matrix<double> weight(std::size_t slot) const = 0;
  /// The bias that belongs to a slot, or an empty vector.
  virtual rotorlin::VectorX<float> bias(std::size_t slot) const = 0;
  /// found(reads, E[x x^T]) for everything that is read, one after another; an empty matrix where there were
  /// no samples.
  virtual void for_each_gram(const std::function<void(const std::string&, Matrix<double>)>& found,
                             const Advance& advanced) const = 0;
  /// Adds all that is not compressed to a file, and to its description what the way back needs. The
  /// checkpoint must outlive the writer.
  virtual void carry_over(rotorlin::SafetensorsWriter& writer, nlohmann::json& description) const = 0;
  /// Mean cross-entropy in nats, of a language model and with tokens to evaluate on, with the matrices that
  /// `replaced` gives (none: the original). nullopt for others.
  virtual std::optional<double> evaluate(
      const std::function<Matrix<float>(std::size_t slot)>& replaced) const = 0;

 protected:
  std::vector<Slot> slots_;
};

/// What CheckpointFiles takes, ending in .safetensors or .json where it is a file; else llama2.c. \throws
/// std::runtime_error, naming the file, on files that are damaged or missing, without any matrix to compress,
/// or without activations for one.
std::unique_ptr<Checkpoint> open_checkpoint(const Sources& sources);
std::unique_ptr<Checkpoint> open_llama(const Sources& sources);
std::unique_ptr<Checkpoint> open_tensors(const Sources& sources);

/// The dense weights again, in the format that they came from. \throws std::runtime_error, naming the file
/// and what does not fit.
void write_llama(const rotorlin::SafetensorsFile& compressed, const nlohmann::json& description,
                 const std::filesystem::path& target);
/// One file, or with `as_folder` a new folder of the files, and the index, that the checkpoint came in.
void write_tensors(const rotorlin::SafetensorsFile& compressed, const nlohmann::json& description,
                   const std::filesystem::path& target, bool as_folder);

inline constexpr const char* description_key = "compressed_checkpoint";

}  // namespace examples
