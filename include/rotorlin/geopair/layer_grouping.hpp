// SPDX-License-Identifier: MIT
/// \file
/// Which layers of a model share a dictionary.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/core/workers.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/geopair/detail/sources.hpp"
#include "rotorlin/geopair/group_compression.hpp"
#include "rotorlin/geopair/grouping.hpp"
#include "rotorlin/geopair/method.hpp"
#include "rotorlin/geopair/pairing.hpp"

namespace rotorlin::detail {

template <class = void>
class LayerGrouping {
 public:
  using Members = std::vector<std::size_t>;
  using Advance = std::function<void(double)>;  // told the fraction done

  LayerGrouping(const std::vector<LayerSource>& layers, const std::vector<GramSource>& grams,
                const CompressorOptions& options, Advance advance)
      : layers_(layers),
        grams_(grams),
        options_(options),
        traits_(traits_of(options.method)),
        advance_(std::move(advance)) {}

  /// Groups of layer numbers, ascending within and by their first.
  std::vector<Members> solve() const {
    std::vector<Members> groups;
    if (!options_.groups.empty()) {
      groups = given();
    } else if (!traits_.grouped || options_.group_size == 1) {
      for (std::size_t i = 0; i < layers_.size(); ++i) groups.push_back({i});
    } else {
      for (const Members& candidates : buckets()) {
        for (Members& group : split(candidates)) groups.push_back(std::move(group));
      }
    }
    for (Members& group : groups) std::sort(group.begin(), group.end());
    std::sort(groups.begin(), groups.end());
    return groups;
  }

 private:
  bool wide() const {
    return traits_.wide && options_.pairing == Pairing::automatic && options_.group_size == 0;
  }
  bool across_types() const {
    return options_.across_types || (traits_.mixes_types && options_.pairing == Pairing::automatic);
  }
  Pairing pairing() const {
    return options_.pairing != Pairing::automatic ? options_.pairing : traits_.pairing;
  }

  std::vector<Members> given() const {
    std::map<std::string, std::size_t> numbers;
    for (std::size_t i = 0; i < layers_.size(); ++i) numbers[layers_[i].name] = i;
    std::vector<bool> taken(layers_.size(), false);
    std::vector<Members> groups;
    for (const std::vector<std::string>& names : options_.groups) {
      if (names.empty()) throw_invalid("GeoPairCompressor: a given group is empty");
      groups.emplace_back();
      for (const std::string& name : names) {
        const auto found = numbers.find(name);
        if (found == numbers.end()) {
          throw_invalid("GeoPairCompressor: the given groups name '", name, "', which is none of the ",
                        layers_.size(), " layers that were added, the first of them '", layers_[0].name, "'");
        }
        if (taken[found->second]) {
          throw_invalid("GeoPairCompressor: the given groups name '", name, "' twice, expected once at most");
        }
        taken[found->second] = true;
        groups.back().push_back(found->second);
      }
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (!taken[i]) groups.push_back({i});
    }
    return groups;
  }

  /// Layers that may meet in a group, in the order of addition.
  std::vector<Members> buckets() const {
    std::vector<std::pair<std::tuple<DictionarySide, Index, std::string>, Members>> found;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const LayerSource& layer = layers_[i];
      const std::tuple key{layer.options.side, layer.shared(),
                           across_types() ? std::string() : layer.options.type};
      auto place =
          std::find_if(found.begin(), found.end(), [&](const auto& each) { return each.first == key; });
      if (place == found.end()) place = found.insert(found.end(), {key, {}});
      place->second.push_back(i);
    }
    std::vector<Members> result;
    for (auto& each : found) result.push_back(std::move(each.second));
    return result;
  }

  std::vector<Members> split(const Members& candidates) const {
    const Index size = options_.group_size > 0 ? options_.group_size : 2;
    if (wide()) return blocks(candidates);
    if (pairing() == Pairing::adjacent)
      return chosen(candidates, adjacent_groups(static_cast<Index>(candidates.size()), size));
    Matrix<double> affinity = affinities(candidates);
    // Sparse coefficients gain more from company than the dense ones that are measured: none stays alone.
    if (traits_.sparse && affinity.size() > 0) {
      const double lift =
          1 + static_cast<double>(affinity.rows()) * 2 * linalg::largest_magnitude<double>(affinity);
      for (Index i = 0; i < affinity.size(); ++i) affinity.data()[i] += lift;
    }
    return chosen(candidates, group_by_affinity(affinity, size));
  }

  /// Blocks of neighbours of any type, as many outputs in each and at most 64 for every feature shared: by
  /// then the dictionary is a small part of what is stored, and more company only costs time.
  std::vector<Members> blocks(const Members& candidates) const {
    Index all = 0;
    for (const std::size_t i : candidates) all += layers_[i].own();
    const Index parts = 1 + (all - 1) / 64 / layers_[candidates[0]].shared();
    std::vector<Members> result(static_cast<std::size_t>(parts));
    Index before = 0;
    for (const std::size_t i : candidates) {
      result[static_cast<std::size_t>(before * parts / all)].push_back(i);
      before += layers_[i].own();
    }
    std::erase_if(result, [](const Members& block) { return block.empty(); });
    return result;
  }

  static std::vector<Members> chosen(const Members& candidates, const Groups& groups) {
    std::vector<Members> result;
    for (const std::vector<Index>& group : groups) {
      result.emplace_back();
      for (const Index i : group) result.back().push_back(candidates[static_cast<std::size_t>(i)]);
    }
    return result;
  }

  Matrix<double> affinities(const Members& candidates) const {
    const Index n = static_cast<Index>(candidates.size());
    Matrix<double> result = Matrix<double>::Zero(n, n);
    if (n < 2) return result;
    std::vector<double> apart(layers_.size(), 0);
    std::vector<std::size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (pairing() == Pairing::gain) {
      run_tasks(order, options_.threads,
                [&](std::size_t u) { apart[candidates[u]] = one_step_error({candidates[u]}); });
    }
    std::atomic<Index> done{0};
    run_tasks(order, options_.threads, [&](std::size_t u) {
      for (std::size_t v = 0; v < u; ++v) {
        const Index a = static_cast<Index>(u), b = static_cast<Index>(v);
        const std::size_t i = candidates[u], j = candidates[v];
        result(a, b) = result(b, a) = pairing() == Pairing::gain ? gain(i, j, apart) : nearness(i, j);
        advance_(static_cast<double>(++done) / static_cast<double>(n * (n - 1) / 2));
      }
    });
    return result;
  }

  /// The relative errors of a dense compression after one alternating step, without importance.
  double one_step_error(const Members& members) const {
    CompressorOptions options = options_;
    options.method = CompressionMethod::geopair_dense;
    options.weighting = LayerWeighting::relative;
    options.identity_gauge = false;
    std::vector<LayerSource> copies;
    for (const std::size_t i : members) {
      copies.push_back(layers_[i]);
      copies.back().options.importance = 1;
    }
    std::vector<const LayerSource*> pointers;
    for (const LayerSource& copy : copies) pointers.push_back(&copy);
    const GroupProblem problem(pointers, grams_, options);
    const auto size = problem.size(options_.ratio);
    return problem.solve(size.value_or(DictionarySize{1, 0}), 1).objective;
  }

  /// The part of the error of both that sharing takes away.
  double gain(std::size_t i, std::size_t j, const std::vector<double>& apart) const {
    const double before = apart[i] + apart[j];
    return before > 0 ? 1 - one_step_error({i, j}) / before : 0;
  }

  /// 1 less the least sliding distance, in 0 ... 1.
  double nearness(std::size_t i, std::size_t j) const {
    return 1 - sliding_distance(whitened(i), whitened(j)).sum.minCoeff();
  }
  Matrix<double> whitened(std::size_t i) const {
    const LayerSource& layer = layers_[i];
    return blame("layer '" + layer.name + "'", [&]() -> Matrix<double> {
      Matrix<double> a = linalg::transposed<double>(loaded_weight(layer));
      const Matrix<double> gram = loaded(grams_[layer.gram], layer.in, layer.in, "Gram matrix");
      if (linalg::largest_magnitude<double>(gram) > 0) {
        a = linalg::upper_product<double>(whiten(gram, options_.eta).factor, linalg::Op::plain, a);
      }
      if (layer.options.side == DictionarySide::output) return linalg::transposed<double>(a);
      return a;
    });
  }

  const std::vector<LayerSource>& layers_;
  const std::vector<GramSource>& grams_;
  const CompressorOptions& options_;
  const MethodTraits& traits_;
  Advance advance_;
};

}  // namespace rotorlin::detail
