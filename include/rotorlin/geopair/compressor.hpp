// SPDX-License-Identifier: MIT
/// \file
/// Training-free compression of the linear layers of a model by dictionaries that they share.
///
///     GeoPairCompressor compressor;
///     GramAccumulator seen(2048);                           // for (batches) seen.add(x);  x: in x batch
///     const auto gram = compressor.add_gram(seen.gram());   // q and k read the same activations
///     compressor.add_layer("layers.0.q", wq, gram);         // wq: out x in
///     compressor.add_layer("layers.0.k", wk, gram);         // ... and so on
///     const CompressionResult result = compressor.compress({.ratio = 0.3, .threads = 2});
///     const Matrix<float> y = result.layer("layers.0.q").forward(x);
///     result.save("compressed.safetensors");
///
/// Layers are added once and may be compressed any number of times, with other options. A large model need
/// not be in memory: weights and Gram matrices may be given as functions that load them, which are called
/// where they are needed, group by group (several times, and from several threads).
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/geopair/detail/sources.hpp"
#include "rotorlin/geopair/layer_type.hpp"
#include "rotorlin/linalg/gram_accumulator.hpp"

namespace rotorlin {

class GeoPairCompressor {
 public:
  /// A Gram matrix that was added.
  class GramHandle {
    friend class GeoPairCompressor;
    explicit GramHandle(std::size_t number) : number_(number) {}
    std::size_t number_;
  };

  /// E[x x^T], in x in, of the activations x that one or several layers read (GramAccumulator::gram). It may
  /// be singular: see CompressorOptions::eta. Zero: see below. \throws std::invalid_argument when it is not
  /// square, std::domain_error on NaN or Inf.
  GramHandle add_gram(Matrix<double> gram) {
    if (gram.rows() == 0 || gram.rows() != gram.cols()) {
      detail::throw_invalid(who, ": the Gram matrix is ", detail::shape(gram), ", expected in x in");
    }
    if (!detail::all_finite(gram)) {
      detail::throw_domain(who, ": the Gram matrix number ", grams_.size(),
                           " has NaN or infinite entries; did the activations?");
    }
    const Index features = gram.rows();
    return add_gram(features,
                    [kept = std::make_shared<const Matrix<double>>(std::move(gram))] { return *kept; });
  }
  /// The same from activations as they were gathered. Where there were none (an expert that was never
  /// chosen), or nothing but zeros, the layers that read them are compressed as weights, as by plain_svd: see
  /// LayerReport::calibrated. \throws as GramAccumulator::gram.
  template <class = void>
  GramHandle add_gram(const GramAccumulator& seen) {
    const Index features = seen.features();
    return add_gram(seen.count() > 0 ? seen.gram()
                                     : Matrix<double>(Matrix<double>::Zero(features, features)));
  }
  /// The same, loaded where it is needed. \throws std::invalid_argument on an empty function.
  GramHandle add_gram(Index features, std::function<Matrix<double>()> load) {
    if (features < 1) detail::throw_invalid(who, ": a Gram matrix of ", features, " features, expected >= 1");
    if (!load) {
      detail::throw_invalid(who, ": the Gram matrix number ", grams_.size(),
                            " comes with no function (an empty std::function), expected one that returns ",
                            features, " x ", features);
    }
    grams_.push_back({features, std::move(load)});
    return GramHandle(grams_.size() - 1);
  }

  /// A layer by its weight, out x in, of any real scalar, of which a copy is kept. \throws
  /// std::invalid_argument on a name that was used, an empty weight, another number of inputs than the Gram
  /// matrix has, a bias that does not fit, or an importance that is not positive; std::domain_error on NaN or
  /// Inf. All name the layer.
  template <class Derived>
  void add_layer(const std::string& name, const Eigen::MatrixBase<Derived>& weight, GramHandle gram,
                 LayerOptions options = {}) {
    using S = typename Derived::Scalar;
    if (!detail::all_finite(weight)) {
      detail::throw_domain(who, ": layer '", name, "': the weight has NaN or infinite entries");
    }
    add_layer(
        name, weight.rows(), weight.cols(),
        [kept = std::make_shared<const Matrix<S>>(weight)] { return kept->template cast<double>(); }, gram,
        std::move(options));
  }
  /// The same with a Gram matrix of its own.
  template <class Derived>
  void add_layer(const std::string& name, const Eigen::MatrixBase<Derived>& weight,
                 const Matrix<double>& gram, LayerOptions options = {}) {
    const GramHandle handle = detail::blame("layer '" + name + "'", [&] { return add_gram(gram); });
    add_layer(name, weight, handle, std::move(options));
  }
  /// The same, out x in, loaded where it is needed. \throws std::invalid_argument on an empty function too.
  void add_layer(const std::string& name, Index out, Index in, std::function<Matrix<double>()> load,
                 GramHandle gram, LayerOptions options = {}) {
    const auto refuse = [&](const auto&... parts) {
      detail::throw_invalid(who, ": layer '", name, "': ", parts...);
    };
    if (names_.contains(name))
      refuse("a layer of this name was added before; expected names without doubles");
    if (out < 1 || in < 1) refuse("the weight is ", out, " x ", in, ", expected out x in, each >= 1");
    if (!load) {
      refuse("its weight comes with no function (an empty std::function), expected one that returns ", out,
             " x ", in);
    }
    if (gram.number_ >= grams_.size()) refuse("its Gram matrix belongs to another compressor");
    if (const Index features = grams_[gram.number_].features; features != in) {
      refuse("the weight is ", out, " x ", in, ", its Gram matrix ", features, " x ", features,
             ", expected out x in and in x in");
    }
    if (!(options.importance > 0 && detail::is_finite(options.importance))) {
      refuse("the importance is ", options.importance, ", expected > 0");
    }
    if (options.side != DictionarySide::input && options.side != DictionarySide::output) {
      refuse("side = ", static_cast<int>(options.side), ", expected one of the enumeration DictionarySide");
    }
    if (options.bias.size() != 0 && options.bias.size() != out) {
      refuse("the bias has ", options.bias.size(), " values, expected ", out, " or none");
    }
    if (!detail::all_finite(options.bias)) {
      detail::throw_domain(who, ": layer '", name, "': the bias has NaN or infinite entries");
    }
    if (options.type.empty()) options.type = detail::type_of(name);
    layers_.push_back({name, out, in, gram.number_, std::move(options), std::move(load)});
    names_.insert(name);
  }

  std::size_t size() const { return layers_.size(); }

  /// Groups and the ratio of each. The costly part with distance or gain, which measure every two layers that
  /// might meet, and with a global budget. \throws std::invalid_argument without layers, on options out of
  /// range, on given groups that do not fit.
  template <class = void>
  std::vector<PlannedGroup> plan(const CompressorOptions& options = {}) const;

  /// One group of the plan: a pure function of the layers, the group and the options. \throws as compress.
  template <class = void>
  CompressedGroup compress_group(const PlannedGroup& group, const CompressorOptions& options,
                                 const std::function<void(double)>& progress = {}) const;

  /// What compress_group gave for all groups of a plan, in its order, put together.
  CompressionResult assemble(std::vector<CompressedGroup> groups) const {
    CompressionResult result;
    std::vector<std::pair<std::size_t, std::size_t>> place(layers_.size());  // group, member
    std::size_t members = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t m = 0; m < groups[g].members.size(); ++m, ++members) {
        place.at(groups[g].members[m]) = {g, m};
      }
    }
    if (members != layers_.size()) {
      detail::throw_invalid(who, "::assemble: groups of ", members, " layers, expected ", layers_.size());
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const auto [g, m] = place[i];
      result.layers.push_back({layers_[i].name, std::move(groups[g].layers[m])});
      result.layer_reports.push_back(std::move(groups[g].layer_reports[m]));
      result.layer_reports.back().group = g;
    }
    for (CompressedGroup& group : groups) {
      result.bytes += group.report.bytes;
      result.dense_bytes += group.report.dense_bytes;
      result.groups.push_back(std::move(group.report));
    }
    return result;
  }

  /// All of it. \throws as plan; std::invalid_argument where a Gram matrix is not positive semidefinite, or
  /// where not even one atom fits the ratio; std::domain_error where what was loaded, or what came of it, is
  /// not finite. All name the layer or the group.
  template <class = void>
  CompressionResult compress(const CompressorOptions& options = {}) const;

  /// About how long a group takes, in units of its own.
  double cost(const PlannedGroup& group) const {
    double sum = 0;
    std::set<std::size_t> grams;
    for (const std::size_t i : group.members) {
      sum += static_cast<double>(layers_.at(i).out);
      if (grams.insert(layers_[i].gram).second) sum += static_cast<double>(layers_[i].in);
    }
    const double d = static_cast<double>(layers_.at(group.members.at(0)).shared());
    return d * d * sum;
  }

 private:
  static constexpr const char* who = "GeoPairCompressor";
  std::vector<const detail::LayerSource*> members(const PlannedGroup& group) const {
    std::vector<const detail::LayerSource*> members;
    for (const std::size_t i : group.members) members.push_back(&layers_.at(i));
    return members;
  }
  std::vector<double> costs(const std::vector<PlannedGroup>& groups) const {
    std::vector<double> costs;
    for (const PlannedGroup& group : groups) costs.push_back(cost(group));
    return costs;
  }
  /// Sets the ratios of the groups by their damage in brief compressions around the ratio asked for.
  template <class = void>
  void allocate(std::vector<PlannedGroup>& groups, const CompressorOptions& options) const;

  std::vector<detail::GramSource> grams_;
  std::vector<detail::LayerSource> layers_;
  std::set<std::string> names_;
};

}  // namespace rotorlin

#if defined(ROTORLIN_COMPILED)
#include "rotorlin/geopair/instances.hpp"
#else
#include "rotorlin/geopair/detail/compression_run.hpp"
#endif
