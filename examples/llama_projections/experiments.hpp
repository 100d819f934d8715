// SPDX-License-Identifier: MIT
// The experiments of this program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/llama.hpp"
#include "methods.hpp"

namespace examples {

struct Setup {
  std::string name;  ///< of the model
  Llama model;
  Tokenizer tokenizer;
  std::vector<Token> calibration, evaluation;
  std::filesystem::path out;
  FitBudget budget;
  Index samples = 40960;  ///< tokens of the calibration stream, four fifths to fit and one fifth to choose
  Index windows = 79;     ///< of the evaluation stream

  Index calibration_windows() const { return samples / std::min<Index>(256, model.config().sequence); }
};

struct ReplacementOptions {
  std::vector<std::string> methods = method_names();
  Index most_layers = 3;
  Index tuples = 0;  ///< of each number of layers, drawn at random; 0: all
  bool retrain_output = false;
  std::string prompt = "Once upon a time";
};

/// Replaces the query, key and value projections of one, two and three layers by each method. Prints the
/// table and texts, writes projections.csv and projections.svg.
void replace_projections(const Setup&, const ReplacementOptions&);

/// Fits rotor networks of every width and depth, low ranks and blocks to one projection. Prints the table,
/// writes width_depth.csv and width_depth.svg.
void compare_width_and_depth(const Setup&, Index layer, Projection projection);

/// Fits layers built from rotors, and low ranks, of 1 to 16 times `out` parameters to a projection of the
/// layers `first` to `last`. Prints the table, writes frontier.csv and a plot for each layer.
void search_frontier(const Setup&, Projection projection, Index first, Index last);

/// The activations of whole windows as they go through the layers: dim x (windows * length).
class Stream {
 public:
  Stream(const Llama& model, std::span<const Token> tokens, Index windows);
  /// Takes every window through a layer.
  void advance(const Llama& model, Index layer);
  /// The inputs of a projection of `layer`, which comes next: in x tokens.
  Matrix<float> inputs(const Llama& model, Index layer, Projection projection) const;
  Index windows() const { return static_cast<Index>(activations_.size()); }
  const Matrix<float>& window(Index j) const { return activations_[static_cast<std::size_t>(j)]; }

 private:
  std::vector<Matrix<float>> activations_;  // of each window
};

/// The calibration stream, cut into windows to fit to and windows to choose by.
struct Calibration {
  Stream training, validation;

  Calibration(const Setup& setup);
  void advance(const Llama& model, Index layer) {
    training.advance(model, layer);
    validation.advance(model, layer);
  }
  Samples samples(const Llama& model, Index layer, Projection projection) const {
    return {training.inputs(model, layer, projection), validation.inputs(model, layer, projection)};
  }
};

}  // namespace examples
