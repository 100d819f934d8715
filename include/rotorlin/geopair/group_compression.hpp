// SPDX-License-Identifier: MIT
/// \file
/// The compression of one group of layers, by any of the methods.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/accounting.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/geopair/detail/group_side.hpp"
#include "rotorlin/geopair/detail/group_storage.hpp"
#include "rotorlin/geopair/detail/sources.hpp"
#include "rotorlin/geopair/method.hpp"
#include "rotorlin/linalg/whitening.hpp"

namespace rotorlin::detail {

/// The matrices of a group's layers, whitened, and what can be done with them.
template <class = void>
class GroupProblem {
 public:
  GroupProblem(std::vector<const LayerSource*> layers, const std::vector<GramSource>& grams,
               const CompressorOptions& options)
      : layers_(std::move(layers)),
        options_(options),
        traits_(traits_of(options.method)),
        group_(make_side(side(), shared())) {
    for (const LayerSource* layer : layers_) {
      blame("layer '" + layer->name + "'", [&] {
        if (layer->options.side != side() || layer->shared() != shared()) {
          throw_invalid("it shares ", layer->shared(), " ", name_of_side(layer->options.side),
                        " features, the layer '", layers_[0]->name, "' in its group ", shared(), " ",
                        name_of_side(side()), " features; expected the same");
        }
        add(*layer, grams.at(layer->gram));
        return 0;
      });
      own_ += layer->own();
    }
  }

  /// Bytes of the weights as floats.
  double dense_bytes() const { return 4 * static_cast<double>(shared()) * static_cast<double>(own_); }

  /// Rank and nonzeros for a ratio, sparse where the method is and a sparse one fits; none where not a single
  /// atom fits.
  std::optional<DictionarySize> size(double ratio) const {
    if (traits_.sparse) {
      const DictionarySize size = sparse_size(shared(), own_, ratio, options_.ks_ratio);
      if (size.rank > 0 && size.nonzeros < size.rank) return size;
    }
    const Index rank = dense_rank(shared(), own_, ratio, options_.identity_gauge);
    if (rank < 1) return std::nullopt;
    return DictionarySize{rank, 0};
  }

  GroupSolution solve(DictionarySize size, int iterations,
                      const std::function<void(double)>& progress = {}) const {
    if (traits_.closed_form) return group_->solve_closed_form(size.rank);
    FactorizationOptions options;
    options.rank = size.rank;
    options.nonzeros = size.nonzeros;
    options.iterations = iterations;
    options.tolerance = options_.tolerance;
    options.monotone = options_.monotone;
    options.ksvd = options_.ksvd;
    if (progress) {
      options.progress = [&progress, iterations](int iteration, double) {
        progress(static_cast<double>(iteration + 1) / iterations);
      };
    }
    return group_->alternate(options);
  }

  /// The group at a ratio. \throws std::invalid_argument where not even one atom fits.
  CompressedGroup compress(double ratio, const std::function<void(double)>& progress) const {
    CompressedGroup result;
    result.report.side = side();
    result.report.ratio = ratio;
    result.report.energy = group_->energy();
    result.report.dense_bytes = dense_bytes();
    for (const LayerSource* layer : layers_) result.report.members.push_back(layer->name);
    if (ratio == 0) {
      store_dense(result);
    } else {
      const std::optional<DictionarySize> found = size(ratio);
      if (!found) {
        throw_invalid("GeoPairCompressor: the group of ", names(), " (", shared(), " ", name_of_side(side()),
                      " features, ", own_, " others in all): not even one atom fits into ",
                      std::floor((1 - ratio) * dense_bytes() / 4), " values; expected a lower ratio than ",
                      ratio, ", or a larger group");
      }
      store(solve(*found, options_.iterations, progress), *found, result);
    }
    result.report.bytes = result.report.dictionary_bytes;
    for (const LayerReport& layer : result.layer_reports) result.report.bytes += layer.bytes;
    return result;
  }

 private:
  DictionarySide side() const { return layers_[0]->options.side; }
  Index shared() const { return layers_[0]->shared(); }

  std::string names() const {
    std::string text = "'" + layers_[0]->name + "'";
    for (std::size_t i = 1; i < std::min<std::size_t>(layers_.size(), 4); ++i) {
      text += ", '" + layers_[i]->name + "'";
    }
    if (layers_.size() > 4) text += concatenate(" and ", layers_.size() - 4, " more");
    return text;
  }

  /// What a layer's outputs are measured with: E[x x^T] + ridge I = L^T L, or the identity.
  struct Metric {
    std::size_t source;  // number of the Gram matrix
    double eta, ridge;
    bool calibrated;        // false: no activation was seen
    Matrix<double> factor;  // L, where the group does not have it
  };

  void add(const LayerSource& layer, const GramSource& source) {
    std::size_t number = 0;
    while (number < metrics_.size() && metrics_[number].source != layer.gram) ++number;
    if (number == metrics_.size()) add_metric(layer, source);
    metric_of_.push_back(number);

    const Matrix<double> weight = loaded_weight(layer);
    double importance = 1;  // which a single layer's solution does not depend on, only its objective
    if (traits_.weighted) {
      importance = layer.options.importance;
      const double energy = linalg::squared_norm<double>(linalg::upper_product<double>(
          group_->factor(number), linalg::Op::plain, linalg::transposed<double>(weight)));
      if (options_.weighting == LayerWeighting::relative && energy > 0) importance /= energy;
      if (!(importance > 0 && is_finite(importance) && is_finite(energy))) {
        throw_invalid("its mean squared output is ", energy, " and its importance ", layer.options.importance,
                      "; expected weights and activations of ordinary size");
      }
    }
    group_->add_layer(weight, number, importance);
  }

  void add_metric(const LayerSource& layer, const GramSource& source) {
    Matrix<double> gram = loaded(source, layer.in, layer.in, "Gram matrix");
    const Matrix<double> identity = Matrix<double>::Identity(layer.in, layer.in);
    if (linalg::largest_magnitude<double>(gram) == 0) {  // no token came here: weights are all there is
      metrics_.push_back({layer.gram, 0, 0, false, {}});
      group_->add_gram(identity);
      return;
    }
    Whitening whitening = whiten(gram, options_.eta);
    metrics_.push_back({layer.gram, whitening.eta, whitening.ridge, true, {}});
    if (traits_.whitened) {
      group_->add_gram(std::move(whitening.factor));
    } else {
      group_->add_gram(identity);
      metrics_.back().factor = std::move(whitening.factor);
    }
  }

  void store_dense(CompressedGroup& result) const {
    const auto dictionary = identity_dictionary(shared());
    result.report.size = {shared(), 0};
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      Matrix<double> weight = loaded_weight(*layers_[i]);
      add_layer(i, dictionary, linalg::transposed<double>(weight), CoefficientStorage::dense, result);
    }
  }

  void store(GroupSolution solution, DictionarySize size, CompressedGroup& result) const {
    result.report.objective = solution.objective;
    result.report.trace = std::move(solution.trace);
    const std::string what = "the dictionary of " + names();
    const StoredDictionary stored = size.nonzeros == 0 && options_.identity_gauge
                                        ? store_in_identity_gauge(std::move(solution), side(), what)
                                        : store_balanced(std::move(solution), side(), what);
    result.report.size = {stored.dictionary->rank(), size.nonzeros};
    result.report.dictionary_bytes = dictionary_bytes(*stored.dictionary);
    const auto storage = size.nonzeros > 0 ? CoefficientStorage::sparse : CoefficientStorage::dense;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      add_layer(i, stored.dictionary, stored.coefficients[i], storage, result);
    }
  }

  void add_layer(std::size_t i, const std::shared_ptr<const SharedDictionary<float>>& dictionary,
                 Matrix<double> coefficients, CoefficientStorage storage, CompressedGroup& result) const {
    const LayerSource& source = *layers_[i];
    const Metric& metric = metrics_[metric_of_[i]];
    const Matrix<double>& factor = metric.factor.size() > 0 ? metric.factor : group_->factor(metric_of_[i]);
    const Matrix<double> weight = loaded_weight(source);
    const auto made = [&] {
      return SharedDictionaryLinear<float>(
          dictionary, to_floats(coefficients, "layer '" + source.name + "': a coefficient"), storage,
          source.options.side, source.options.bias);
    };
    SharedDictionaryLinear<float> layer = made();
    StoredError error = stored_error(factor, metric.ridge, weight, layer.to_dense());
    if (error.missing > error.energy) {  // where a group suits a layer so badly, less of it is better
      linalg::scale<double>(best_scale(factor, metric.ridge, weight, layer.to_dense(), error), coefficients);
      layer = made();
      error = stored_error(factor, metric.ridge, weight, layer.to_dense());
    }
    result.layer_reports.push_back(
        {source.name, 0, error.relative(), metric.eta, coefficient_bytes(layer), metric.calibrated});
    result.layers.push_back(std::move(layer));
  }

  std::vector<const LayerSource*> layers_;
  const CompressorOptions& options_;
  const MethodTraits& traits_;
  std::unique_ptr<GroupSide> group_;
  Index own_ = 0;  // features of the other sides
  std::vector<Metric> metrics_;
  std::vector<std::size_t> metric_of_;  // of each layer
};

}  // namespace rotorlin::detail
