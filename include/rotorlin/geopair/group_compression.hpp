// SPDX-License-Identifier: MIT
/// \file
/// The compression of one group of layers, by any of the methods.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/accounting.hpp"
#include "rotorlin/geopair/basis_sharing.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/geopair/gauge.hpp"
#include "rotorlin/geopair/layer_group.hpp"
#include "rotorlin/geopair/output_coding.hpp"
#include "rotorlin/geopair/shared_factorization.hpp"
#include "rotorlin/geopair/whitening.hpp"

namespace rotorlin::detail {

/// A Gram matrix, features x features, which may be on a disk.
struct GramSource {
  Index features;
  std::function<Matrix<double>()> load;
};

/// A layer whose weight, out x in, may be on a disk.
struct LayerSource {
  std::string name;
  Index out, in;
  std::size_t gram;
  LayerOptions options;
  std::function<Matrix<double>()> load;

  /// Features on the side that is shared, and on the other.
  Index shared() const { return options.side == DictionarySide::input ? in : out; }
  Index own() const { return options.side == DictionarySide::input ? out : in; }
};

/// Calls f; exceptions of wrong or impossible numbers tell whose they are.
template <class F>
auto blame(const std::string& whom, const F& f) {
  constexpr std::string_view prefix = "GeoPairCompressor: ";
  const auto without_prefix = [&](std::string_view text) {
    return text.substr(text.starts_with(prefix) ? prefix.size() : 0);
  };
  try {
    return f();
  } catch (const std::domain_error& error) {
    throw_domain(prefix, whom, ": ", without_prefix(error.what()));
  } catch (const std::invalid_argument& error) {
    throw_invalid(prefix, whom, ": ", without_prefix(error.what()));
  }
}

/// What a source gives, with the shape and the finite entries that it promised.
template <class Source>
Matrix<double> loaded(const Source& source, Index rows, Index cols, const char* what) {
  Matrix<double> m = source.load();
  if (m.rows() != rows || m.cols() != cols) {
    throw_invalid("the ", what, " is ", shape(m), ", expected ", rows, " x ", cols);
  }
  if (!all_finite(m)) throw_domain("the ", what, " has NaN or infinite entries");
  return m;
}
inline Matrix<double> loaded_weight(const LayerSource& layer) {
  return loaded(layer, layer.out, layer.in, "weight");
}

inline bool is_sparse(CompressionMethod method) {
  return method == CompressionMethod::sparse_single || method == CompressionMethod::geopair_sparse;
}
inline bool is_single(CompressionMethod method) {
  return method == CompressionMethod::plain_svd || method == CompressionMethod::svd_llm ||
         method == CompressionMethod::sparse_single;
}
/// Whether one decomposition with the mean whitening is all.
inline bool is_closed_form(CompressionMethod method) {
  return method == CompressionMethod::plain_svd || method == CompressionMethod::svd_llm ||
         method == CompressionMethod::basis_sharing;
}

/// The matrices of a group's layers, whitened, and what can be done with them. The shared side has d
/// features: the inputs, where a dictionary D (d x r) gives W = D C, or the outputs, where W = C D^T (W: in x
/// out).
template <class = void>
class GroupProblem {
 public:
  struct Solution {
    Matrix<double> dictionary;                 // d x r
    std::vector<Matrix<double>> coefficients;  // of every layer: r x out, or in x r
    double objective = 0;
    std::vector<TracePoint> trace;
  };

  GroupProblem(std::vector<const LayerSource*> layers, const std::vector<GramSource>& grams,
               const CompressorOptions& options)
      : layers_(std::move(layers)), options_(options), group_(layers_.at(0)->shared()) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const LayerSource& layer = *layers_[i];
      blame("layer '" + layer.name + "'", [&] {
        if (layer.options.side != side() || layer.shared() != shared()) {
          throw_invalid("it shares ", layer.shared(), " ", name_of_side(layer.options.side),
                        " features, the layer '", layers_[0]->name, "' in its group ", shared(), " ",
                        name_of_side(side()), " features; expected the same");
        }
        add(layer, grams.at(layer.gram));
        return 0;
      });
      own_ += layer.own();
    }
  }

  DictionarySide side() const { return layers_[0]->options.side; }
  Index shared() const { return layers_[0]->shared(); }
  double dense_bytes() const { return 4 * static_cast<double>(shared()) * static_cast<double>(own_); }
  double energy() const {
    double sum = group_.energy();
    for (const OutputLayer& layer : output_) sum += layer.energy;
    return sum;
  }

  /// Rank and nonzeros for a ratio, sparse where the method is and a sparse one fits; none where not a single
  /// atom fits.
  std::optional<DictionarySize> size(double ratio) const {
    if (is_sparse(options_.method)) {
      const DictionarySize size = sparse_size(shared(), own_, ratio, options_.ks_ratio);
      if (size.rank > 0 && size.nonzeros < size.rank) return size;
    }
    const Index rank = dense_rank(shared(), own_, ratio, options_.identity_gauge);
    if (rank < 1) return std::nullopt;
    return DictionarySize{rank, 0};
  }

  Solution solve(DictionarySize size, int iterations,
                 const std::function<void(double)>& progress = {}) const {
    if (side() == DictionarySide::output) return solve_output(size, iterations, progress);
    Solution solution;
    std::vector<Matrix<double>> of_terms;
    if (is_closed_form(options_.method)) {
      SharedFactors factors = basis_sharing(group_, size.rank);
      solution.objective = group_.objective(factors.dictionary, factors.coefficients);
      solution.trace = {{HalfStep::coefficients, solution.objective}};
      solution.dictionary = std::move(factors.dictionary);
      of_terms = std::move(factors.coefficients);
    } else {
      FactorizationOptions options = factorization(size, iterations);
      // one Gram matrix and no zeros: the start is the optimum
      if (group_.terms().size() == 1 && size.nonzeros == 0) options.iterations = 0;
      report_to(progress, options);
      SharedFactorization result = factorize(group_, options);
      solution.objective = result.objective;
      solution.trace = std::move(result.trace);
      solution.dictionary = std::move(result.dictionary);
      of_terms = std::move(result.coefficients);
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      solution.coefficients.push_back(group_.layer_coefficients(of_terms, i));
    }
    return solution;
  }

  /// The group at a ratio. \throws std::invalid_argument where not even one atom fits.
  CompressedGroup compress(double ratio, const std::function<void(double)>& progress) const {
    CompressedGroup result;
    result.report.side = side();
    result.report.ratio = ratio;
    result.report.energy = energy();
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
      Solution solution = solve(*found, options_.iterations, progress);
      result.report.objective = solution.objective;
      result.report.trace = solution.trace;
      store(std::move(solution), *found, result);
    }
    result.report.bytes = result.report.dictionary_bytes;
    for (std::size_t i = 0; i < layers_.size(); ++i) report_layer(i, result);
    return result;
  }

  std::string names() const {
    std::string text = "'" + layers_[0]->name + "'";
    for (std::size_t i = 1; i < std::min<std::size_t>(layers_.size(), 4); ++i) {
      text += ", '" + layers_[i]->name + "'";
    }
    if (layers_.size() > 4) text += concatenate(" and ", layers_.size() - 4, " more");
    return text;
  }

 private:
  struct OutputLayer {
    Matrix<double> factor, weight;  // sqrt(w) L (in x in), W (in x out)
    double energy;
  };

  static const char* name_of_side(DictionarySide side) {
    return side == DictionarySide::input ? "input" : "output";
  }

  void add(const LayerSource& layer, const GramSource& source) {
    std::size_t number = 0;
    while (number < gram_of_.size() && gram_of_[number] != layer.gram) ++number;
    if (number == gram_of_.size()) {
      whitenings_.push_back(whiten(loaded(source, layer.in, layer.in, "Gram matrix"), options_.eta));
      gram_of_.push_back(layer.gram);
      if (side() == DictionarySide::input) {
        group_.add_gram(is_whitened() ? std::move(whitenings_.back().factor)
                                      : Matrix<double>(Matrix<double>::Identity(layer.in, layer.in)));
      }
    }
    term_.push_back(number);
    const Matrix<double> weight = loaded_weight(layer);
    double importance = 1;  // which a single layer's solution does not depend on, only its objective
    if (options_.method != CompressionMethod::basis_sharing) {
      importance = layer.options.importance;
      const double energy = is_whitened() ? whitened(number, weight).squaredNorm() : weight.squaredNorm();
      if (options_.weighting == LayerWeighting::relative && energy > 0) importance /= energy;
      if (!(importance > 0 && detail::is_finite(importance) && detail::is_finite(energy))) {
        throw_invalid("its mean squared output is ", energy, " and its importance ", layer.options.importance,
                      "; expected weights and activations of ordinary size");
      }
    }
    if (side() == DictionarySide::input) {
      group_.add_layer(weight, number, importance);
    } else {
      Matrix<double> factor = whitenings_[number].factor;
      if (!is_whitened()) factor.setIdentity();
      factor *= std::sqrt(importance);
      const double energy = (factor.triangularView<Eigen::Upper>() * weight.transpose()).eval().squaredNorm();
      output_.push_back({std::move(factor), weight.transpose(), energy});
    }
  }

  bool is_whitened() const { return options_.method != CompressionMethod::plain_svd; }

  /// L M^T for an M of out x in.
  Matrix<double> whitened(std::size_t number, const Matrix<double>& m) const {
    const bool in_group = side() == DictionarySide::input && is_whitened();
    const Matrix<double>& factor = in_group ? group_.terms()[number].factor : whitenings_[number].factor;
    return factor.triangularView<Eigen::Upper>() * m.transpose();
  }

  FactorizationOptions factorization(DictionarySize size, int iterations) const {
    FactorizationOptions options;
    options.rank = size.rank;
    options.nonzeros = size.nonzeros;
    options.iterations = iterations;
    options.tolerance = options_.tolerance;
    options.monotone = options_.monotone;
    options.ksvd = options_.ksvd;
    return options;
  }
  static void report_to(const std::function<void(double)>& progress, FactorizationOptions& options) {
    if (!progress) return;
    options.progress = [&progress, all = options.iterations](int iteration, double) {
      progress(static_cast<double>(iteration + 1) / all);
    };
  }

  Solution solve_output(DictionarySize size, int iterations,
                        const std::function<void(double)>& progress) const {
    std::vector<Matrix<double>> factors, weights;
    for (const OutputLayer& layer : output_) {
      factors.push_back(layer.factor);
      weights.push_back(layer.weight);
    }
    Solution solution;
    if (size.nonzeros > 0) {
      FactorizationOptions options = factorization(size, iterations);
      report_to(progress, options);
      SharedFactorization result = output_coding(factors, weights, options);
      solution.objective = result.objective;
      solution.trace = std::move(result.trace);
      solution.dictionary = result.dictionary.transpose();
      solution.coefficients = std::move(result.coefficients);
      return solution;
    }
    SharedFactors shared = output_sharing(factors, weights, size.rank);
    for (std::size_t i = 0; i < output_.size(); ++i) {
      const Matrix<double> missing = weights[i] - shared.coefficients[i] * shared.dictionary;
      solution.objective += (factors[i].triangularView<Eigen::Upper>() * missing).eval().squaredNorm();
    }
    solution.trace = {{HalfStep::coefficients, solution.objective}};
    solution.dictionary = shared.dictionary.transpose();
    solution.coefficients = std::move(shared.coefficients);
    return solution;
  }

  /// Nothing but identity rows: the weights themselves.
  void store_dense(CompressedGroup& result) const {
    std::vector<Index> rows(static_cast<std::size_t>(shared()));
    std::iota(rows.begin(), rows.end(), Index{0});
    const auto dictionary =
        std::make_shared<const SharedDictionary<float>>(Matrix<float>(0, shared()), std::move(rows));
    result.report.size = {shared(), 0};
    for (const LayerSource* layer : layers_) {
      add_layer(dictionary, loaded_weight(*layer).transpose(), CoefficientStorage::dense, *layer, result);
    }
  }

  void store(Solution solution, DictionarySize size, CompressedGroup& result) const {
    if (!all_finite(solution.dictionary.template cast<float>())) {
      throw_domain("GeoPairCompressor: the dictionary of ", names(),
                   " exceeds the range of float; expected weights and activations of ordinary size");
    }
    std::vector<Index> rows;
    Matrix<double> stored = std::move(solution.dictionary);
    if (size.nonzeros == 0 && options_.identity_gauge) {
      IdentityGauge gauge = identity_gauge(stored);
      for (Matrix<double>& c : solution.coefficients) {
        c = side() == DictionarySide::input ? Matrix<double>(gauge.transform * c)
                                            : Matrix<double>(c * gauge.transform.transpose());
      }
      rows = std::move(gauge.rows);
      std::vector<bool> identity(static_cast<std::size_t>(shared()), false);
      for (const Index row : rows) identity[static_cast<std::size_t>(row)] = true;
      std::vector<Index> others;
      for (Index row = 0; row < shared(); ++row) {
        if (!identity[static_cast<std::size_t>(row)]) others.push_back(row);
      }
      stored = gauge.dictionary(others, Eigen::all).eval();
      size.rank = stored.cols();
    }
    result.report.size = size;
    result.report.dictionary_bytes = 4 * static_cast<double>(stored.size());
    const auto dictionary =
        std::make_shared<const SharedDictionary<float>>(stored.cast<float>(), std::move(rows));
    const auto storage = size.nonzeros > 0 ? CoefficientStorage::sparse : CoefficientStorage::dense;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      add_layer(dictionary, solution.coefficients[i], storage, *layers_[i], result);
    }
  }

  static void add_layer(const std::shared_ptr<const SharedDictionary<float>>& dictionary,
                        const Matrix<double>& coefficients, CoefficientStorage storage,
                        const LayerSource& layer, CompressedGroup& result) {
    const Matrix<float> c = coefficients.cast<float>();
    if (!all_finite(c)) {
      throw_domain("GeoPairCompressor: layer '", layer.name,
                   "': coefficients exceed the range of float; expected a weight of ordinary size");
    }
    result.layers.emplace_back(dictionary, c, storage, layer.options.side, layer.options.bias);
  }

  /// The error of what is stored. With G = L^T L - ridge I, x^T G x = |L x|^2 - ridge |x|^2.
  void report_layer(std::size_t i, CompressedGroup& result) const {
    const LayerSource& source = *layers_[i];
    const SharedDictionaryLinear<float>& layer = result.layers[i];
    const Matrix<double> weight = loaded_weight(source), missing = weight - layer.to_dense().cast<double>();
    const Whitening& whitening = whitenings_[term_[i]];
    const auto seen = [&](const Matrix<double>& m) {
      const double all = whitened(term_[i], m).squaredNorm();
      const double value = all - whitening.ridge * m.squaredNorm();
      return value > 1e-12 * all ? value : 0;  // the rest is rounding
    };
    const double energy = seen(weight), error = seen(missing);
    double relative = 0;
    if (error > 0)
      relative = energy > 0 ? std::sqrt(error / energy) : std::numeric_limits<double>::infinity();
    double bytes = 4 * static_cast<double>(layer.nonzeros());
    if (layer.storage() == CoefficientStorage::sparse) {
      bytes += static_cast<double>(layer.pattern().rows * layer.pattern().cols()) / 8;
    }
    result.layer_reports.push_back({source.name, 0, relative, whitening.eta, bytes});
    result.report.bytes += bytes;
  }

  std::vector<const LayerSource*> layers_;
  const CompressorOptions& options_;
  Index own_ = 0;                      // features of the other sides
  std::vector<Whitening> whitenings_;  // their factors in group_, where it has the same
  std::vector<std::size_t> gram_of_;   // the number of the source of each whitening
  std::vector<std::size_t> term_;      // the whitening of each layer
  LayerGroup group_;                   // input side
  std::vector<OutputLayer> output_;    // output side
};

}  // namespace rotorlin::detail
