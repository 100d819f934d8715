// SPDX-License-Identifier: MIT
// A checkpoint of Llama's kind that is run, so that nobody has to record what its layers read.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "activations.hpp"
#include "checkpoint_files.hpp"
#include "llama_folder.hpp"
#include "streams.hpp"

namespace examples {

class ForwardPass {
 public:
  /// \throws as LlamaFolder and read_streams.
  ForwardPass(const CheckpointFiles& files, const Sources& sources)
      : config_(sources.config.empty() ? files.config() : sources.config),
        model_(files, config_),
        streams_(read_streams(sources, model_.config())) {}

  bool calibrates() const { return streams_.windows > 0; }
  Index calibration_tokens() const { return streams_.calibration_tokens(model_.config()); }
  const std::filesystem::path& config() const { return config_; }
  /// Which layers read something of their own, and how many features.
  std::unique_ptr<LayerInputs> inputs() const;
  /// found(layer, E[x x^T]) for each of these.
  void for_each_gram(const std::function<void(const std::string&, Matrix<double>)>& found,
                     const std::function<void(double)>& advanced) const {
    examples::for_each_gram(
        model_, Windows(model_.config(), streams_.calibration, streams_.windows),
        [&](Index l, Projection p, Matrix<double> gram) { found(model_.tensor(p, l), std::move(gram)); },
        advanced);
  }
  /// On the evaluation stream, with the weights, out x in, that `replaced` gives for the layers of its names
  /// (an empty one: the file's).
  double evaluate(const std::function<Matrix<float>(const std::string& layer)>& replaced) {
    model_.replace(
        replaced ? LlamaFolder::Replaced([&](Projection p, Index l) { return replaced(model_.tensor(p, l)); })
                 : LlamaFolder::Replaced());
    const double result = cross_entropy(model_, streams_.evaluation);
    model_.replace({});
    return result;
  }

 private:
  std::filesystem::path config_;
  LlamaFolder model_;
  Streams streams_;
};

namespace detail {

/// The names alone: the matrices come from ForwardPass::for_each_gram, layer after layer.
class ForwardInputs : public LayerInputs {
 public:
  ForwardInputs(std::map<std::string, Index> features, std::filesystem::path config)
      : features_(std::move(features)), config_(std::move(config)) {}
  bool contains(const std::string& layer) const override { return features_.contains(layer); }
  Index features(const std::string& layer) const override { return features_.at(layer); }
  Matrix<double> gram(const std::string& layer, const std::function<void(double)>&) const override {
    rotorlin::detail::throw_invalid("ForwardInputs: '", layer, "' is computed with all others");
  }
  std::filesystem::path file(const std::string&) const override { return config_; }
  std::string lacks() const override { return "the forward pass by " + config_.string() + " does not see"; }
  std::string expected(const std::string&) const override {
    return "one of the seven projections of a layer";
  }

 private:
  std::map<std::string, Index> features_;
  std::filesystem::path config_;
};

}  // namespace detail

inline std::unique_ptr<LayerInputs> ForwardPass::inputs() const {
  std::map<std::string, Index> features;
  for (Index l = 0; l < model_.config().layers; ++l) {
    for (const Projection p : all_readers) features[model_.tensor(p, l)] = model_.in_features(p);
  }
  return std::make_unique<detail::ForwardInputs>(std::move(features), config_);
}

}  // namespace examples
