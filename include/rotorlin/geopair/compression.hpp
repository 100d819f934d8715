// SPDX-License-Identifier: MIT
/// \file
/// What a compression is asked for, and what it reports.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/files/storage_options.hpp"
#include "rotorlin/geopair/accounting.hpp"
#include "rotorlin/geopair/method.hpp"
#include "rotorlin/geopair/shared_factorization.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"
#include "rotorlin/linalg/whitening.hpp"

namespace rotorlin {

struct CompressionProgress {
  std::string stage;    ///< "grouping", "allocation", "compression"
  double fraction;      ///< of the stage, 0 ... 1
  double seconds;       ///< since the stage began
  double seconds_left;  ///< of the stage, an estimate
};

/// Nothing is random: the same layers and options give the same result, whatever the number of threads.
struct CompressorOptions {
  double ratio = 0.3;  ///< the part of the bytes to remove, 0 <= ratio < 1; 0 stores dense weights
  CompressionMethod method = CompressionMethod::geopair_sparse;
  double ks_ratio = default_ks_ratio;  ///< sparse: atoms a nonzero of a column
  bool identity_gauge = false;         ///< dense only: r identity rows are not stored, which buys a larger r
  Pairing pairing = Pairing::automatic;
  bool across_types = false;  ///< groups may mix types (automatic decides by itself)
  Index group_size = 0;       ///< at most this many layers; 0: 2, or without limit where groups are wide
  std::vector<std::vector<std::string>> groups = {};  ///< given by name; layers in none stay single
  LayerWeighting weighting = LayerWeighting::relative;
  BudgetAllocation budget = BudgetAllocation::uniform;
  double eta = default_ridge;  ///< ridge relative to the mean diagonal; 1e-1 for few samples
  int iterations = 30;         ///< dense converge in 10 to 30; sparse gain up to 100
  double tolerance = 0;        ///< as in FactorizationOptions
  bool monotone = false;       ///< sparse: code warm and monotone from the beginning, as published
  bool ksvd = true;            ///< sparse: a K-SVD sweep an iteration
  int threads = 1;             ///< groups at a time
  /// Called from the threads at work, one call at a time. What it throws ends the compression.
  std::function<void(const CompressionProgress&)> progress = {};
};

/// What a layer is besides its weight.
struct LayerOptions {
  /// Layers of one type have one place in every block. "": the name without its numbers.
  std::string type = {};
  double importance = 1;  ///< the damage of one unit of (relative) error, > 0
  /// output: layers share the other factor, W ~ D C^T, which suits wide inputs with narrow outputs; where
  /// coefficients are dense, one exact decomposition
  DictionarySide side = DictionarySide::input;
  VectorX<float> bias = {};  ///< passed on
};

struct LayerReport {
  std::string name;
  std::size_t group;
  double relative_error;  ///< |(W - W') x| / |W x| over the calibration samples, of what is stored
  double eta;             ///< the relative ridge in use: grown where the Gram matrix is singular
  double bytes;           ///< of the coefficients
  /// false: its Gram matrix is zero, no activation reached it; the metric is that of the weights, and the
  /// error |W - W'| / |W|
  bool calibrated = true;
};

struct GroupReport {
  std::vector<std::string> members;
  DictionarySide side = DictionarySide::input;
  double ratio = 0;     ///< removed in this group
  DictionarySize size;  ///< rank, and nonzeros a column: 0 where coefficients are dense
  double energy = 0;    ///< the objective with nothing kept
  double objective = 0;
  std::vector<TracePoint> trace;  ///< the objective after the start and every half step
  double dictionary_bytes = 0, bytes = 0, dense_bytes = 0;  ///< as in accounting.hpp, without biases
  double seconds = 0;
};

/// A group of the plan: layers by number, in the order of addition.
struct PlannedGroup {
  std::vector<std::size_t> members;
  double ratio = 0;
};

/// One group, done.
struct CompressedGroup {
  std::vector<std::size_t> members;
  GroupReport report;
  std::vector<LayerReport> layer_reports;             ///< of every member
  std::vector<SharedDictionaryLinear<float>> layers;  ///< likewise
};

struct CompressionResult {
  std::vector<NamedSharedLayer<float>> layers;  ///< in the order of addition
  std::vector<LayerReport> layer_reports;       ///< likewise
  std::vector<GroupReport> groups;
  double bytes = 0, dense_bytes = 0;

  /// \throws std::invalid_argument when there is no layer of that name.
  const SharedDictionaryLinear<float>& layer(const std::string& name) const {
    for (const auto& each : layers) {
      if (each.name == name) return each.layer;
    }
    detail::throw_invalid("CompressionResult: no layer '", name, "' among ", layers.size());
  }
  double kept_fraction() const { return dense_bytes > 0 ? bytes / dense_bytes : 1; }
  /// Reads back with load_shared_layers<float>(path). Needs files/shared_dictionary_file.hpp, which
  /// rotorlin.hpp includes.
  template <class Path>
  void save(const Path& path, const StorageOptions& storage = {}) const {
    save_shared_layers(layers, path, storage);
  }
};

}  // namespace rotorlin
