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
};

/// Which tensors are compressed: `name` with one * for the number of the layer, and the file of activations
/// that stands in for a missing one of the tensor's own name, written likewise.
struct NamePattern {
  std::string name, type, reads;
};

/// The names of Hugging Face's Llama.
std::vector<NamePattern> llama_patterns();

/// "NAME:TYPE" or "NAME:TYPE:READS". \throws std::invalid_argument on anything else.
NamePattern parse_pattern(const std::string& text);

struct Sources {
  std::filesystem::path model;
  std::vector<NamePattern> patterns = llama_patterns();      ///< safetensors only
  std::filesystem::path activations;                         ///< safetensors only: a folder
  std::filesystem::path calibration, evaluation, tokenizer;  ///< llama2.c only
  Index tokens = 65536;                                      ///< llama2.c only: for calibration
};

using Advance = std::function<void(double)>;

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  const std::vector<Slot>& slots() const { return slots_; }
  /// out x in. Callable from several threads.
  virtual Matrix<double> weight(std::size_t slot) const = 0;
  /// The bias that belongs to a slot, or an empty vector.
  virtual rotorlin::VectorX<float> bias(std::size_t slot) const = 0;
  /// found(reads, E[x x^T]) for everything that is read, one after another.
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

/// A file ending in .safetensors or a folder of these; else llama2.c. \throws std::runtime_error, naming the
/// file, on files that are damaged, without any matrix to compress, or without activations for one.
std::unique_ptr<Checkpoint> open_checkpoint(const Sources& sources);
std::unique_ptr<Checkpoint> open_llama(const Sources& sources);
std::unique_ptr<Checkpoint> open_tensors(const Sources& sources);

/// The dense weights again, in the format that they came from. \throws std::runtime_error, naming the file
/// and what does not fit.
void write_llama(const rotorlin::SafetensorsFile& compressed, const nlohmann::json& description,
                 const std::filesystem::path& target);
void write_tensors(const rotorlin::SafetensorsFile& compressed, const nlohmann::json& description,
                   const std::filesystem::path& target);

inline constexpr const char* description_key = "compressed_checkpoint";

}  // namespace examples
