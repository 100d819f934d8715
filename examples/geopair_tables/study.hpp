// SPDX-License-Identifier: MIT
// One model, compressed in many ways and measured.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/llama.hpp"
#include "rotorlin/geopair/compression.hpp"

namespace examples {

struct Setup {
  std::string name;  ///< of the model
  Llama model;
  /// Three streams: to compress with, to choose by, to report. Nothing is chosen on the last.
  std::vector<Token> calibration, validation, evaluation;
  std::filesystem::path out;
  Index samples = 65536;          ///< calibration tokens
  Index validation_windows = 40;  ///< of 256 tokens
  Index windows = 79;             ///< of the evaluation stream
  int iterations = 60;            ///< of sparse dictionaries
  int threads = 1;
};

/// A way to compress the model.
struct Recipe {
  std::string method;
  rotorlin::CompressorOptions options;
  Index samples = 0;    ///< calibration tokens, 0: as in the setup
  bool damage = false;  ///< layers count by what their errors cost, instead of equally
  bool refit = false;   ///< dense: coefficients are fitted again to what the compressed layers before give
  bool output_side = false;  ///< w2, whose inputs are many and whose outputs few, shares its outputs
};

struct Outcome {
  double cross_entropy = 0;   ///< on the evaluation stream
  double validation = 0;      ///< on the validation stream
  double kept = 0;            ///< part of the bytes
  double relative_error = 0;  ///< root mean square over the layers
  double seconds = 0;         ///< of the compression, Gram matrices not included
  std::vector<rotorlin::GroupReport> groups = {};
};

class Study {
 public:
  explicit Study(const Setup& setup);

  const Setup& setup() const { return setup_; }
  double uncompressed() const { return uncompressed_; }
  double uncompressed_validation() const { return uncompressed_validation_; }

  /// Compresses and measures; what was asked before is remembered.
  Outcome run(const Recipe& recipe);

  /// Compresses once, rounds to each of these and measures.
  std::vector<Outcome> store(const Recipe& recipe, const std::vector<rotorlin::StorageOptions>& storages);
  /// The weights themselves, rounded; blocks lie along the inputs.
  Outcome round(const rotorlin::StorageOptions& storage) const;

  /// What one unit of squared relative error in a projection costs, in nats on the validation stream: by
  /// layer, then in the order of all_projections. Measured with `ratio` removed of one projection at a time.
  const std::vector<double>& damages();

  /// Told what is going on, how far it is and how it goes.
  std::function<void(double fraction, const std::string& note)> progress = {};

 private:
  using Grams = std::vector<std::map<Projection, Matrix<double>>>;  // of every layer

  const Grams& grams(Index samples);
  rotorlin::CompressionResult compress(const Recipe& recipe);
  void refit(Llama& model, const rotorlin::CompressionResult& result, const Recipe& recipe) const;
  double validate(const Llama& model) const;

  const Setup& setup_;
  double uncompressed_, uncompressed_validation_;
  std::map<Index, Grams> grams_;
  std::vector<double> damages_;
  std::map<std::string, Outcome> known_;
};

}  // namespace examples
