// SPDX-License-Identifier: MIT
#include "study.hpp"

#include <set>

#include "common/llama_grams.hpp"
#include "common/progress.hpp"
#include "rotorlin/files/rounded_layers.hpp"
#include "rotorlin/geopair/accounting.hpp"
#include "rotorlin/geopair/compressor.hpp"
#include "rotorlin/geopair/refit.hpp"
#include "rotorlin/geopair/rounding.hpp"

namespace examples {

using namespace rotorlin;

namespace {

/// Everything that the result depends on.
std::string key(const Recipe& recipe, Index samples) {
  const CompressorOptions& o = recipe.options;
  std::string text =
      format("%g %d %g %d %d %d %ld %d %d %g %d %d %d %ld %d %d %d", o.ratio, static_cast<int>(o.method),
             o.ks_ratio, o.identity_gauge ? 1 : 0, static_cast<int>(o.pairing), o.across_types ? 1 : 0,
             static_cast<long>(o.group_size), static_cast<int>(o.weighting), static_cast<int>(o.budget),
             o.eta, o.iterations, o.monotone ? 1 : 0, o.ksvd ? 1 : 0, static_cast<long>(samples),
             recipe.damage ? 1 : 0, recipe.refit ? 1 : 0, recipe.output_side ? 1 : 0);
  for (const auto& group : o.groups) {
    text += " |";
    for (const std::string& member : group) text += " " + member;
  }
  return text;
}

std::size_t place(Index layer, Projection p) {
  return static_cast<std::size_t>(layer) * all_projections.size() + static_cast<std::size_t>(p);
}

}  // namespace

Study::Study(const Setup& setup)
    : setup_(setup),
      uncompressed_(cross_entropy(setup.model, setup.evaluation, setup.windows)),
      uncompressed_validation_(validate(setup.model)) {}

double Study::validate(const Llama& model) const {
  return cross_entropy(model, setup_.validation, setup_.validation_windows);
}

const Study::Grams& Study::grams(Index samples) {
  const bool is_new = !grams_.contains(samples);
  Grams& grams = grams_[samples];
  if (is_new) {
    const Index length = std::min<Index>(256, setup_.model.config().sequence);
    const Windows windows(setup_.model, setup_.calibration, std::max<Index>(1, samples / length));
    grams.resize(static_cast<std::size_t>(setup_.model.config().layers));
    for_each_gram(
        setup_.model, windows,
        [&](Index l, Projection p, Matrix<double> gram) {
          grams[static_cast<std::size_t>(l)][p] = std::move(gram);
        },
        [&](double fraction) {
          if (progress) progress(fraction, "Gram matrices");
        });
  }
  return grams;
}

CompressionResult Study::compress(const Recipe& recipe) {
  const Grams& all = grams(recipe.samples > 0 ? recipe.samples : setup_.samples);
  const std::vector<double> importance = recipe.damage ? damages() : std::vector<double>();
  GeoPairCompressor compressor;
  for (Index l = 0; l < setup_.model.config().layers; ++l) {
    std::map<Projection, GeoPairCompressor::GramHandle> handles;
    for (const Projection p : all_readers)
      handles.emplace(p, compressor.add_gram(all[static_cast<std::size_t>(l)].at(p)));
    for (const Projection p : all_projections) {
      LayerOptions options{.type = name(p)};
      if (recipe.damage) options.importance = importance[place(l, p)];
      if (recipe.output_side && p == Projection::w2) options.side = DictionarySide::output;
      compressor.add_layer(projection_name(l, p), setup_.model.weight(p, l), handles.at(reader(p)), options);
    }
  }
  CompressorOptions options = recipe.options;
  options.threads = setup_.threads;
  options.progress = [&](const CompressionProgress& now) {
    if (progress) progress(now.fraction, now.stage);
  };
  return compressor.compress(options);
}

const std::vector<double>& Study::damages() {
  if (!damages_.empty()) return damages_;
  Recipe recipe;
  recipe.options.ratio = 0.3;
  recipe.options.iterations = 6;
  const CompressionResult rough = compress(recipe);
  Llama model = setup_.model;
  for (Index l = 0; l < model.config().layers; ++l) {
    for (const Projection p : all_projections) {
      const std::size_t i = place(l, p);
      model.weight(p, l) = rough.layers[i].layer.to_dense();
      const double lost = validate(model) - uncompressed_validation_;
      model.weight(p, l) = setup_.model.weight(p, l);
      const double error = rough.layer_reports[i].relative_error;
      // a floor, since small losses drown in the noise of the validation stream
      damages_.push_back(std::max(lost, 1e-3) / (error * error));
      if (progress)
        progress(static_cast<double>(i + 1) / static_cast<double>(rough.layers.size()), "damages");
    }
  }
  return damages_;
}

void Study::refit(Llama& model, const CompressionResult& result, const Recipe& recipe) const {
  const Index length = std::min<Index>(256, model.config().sequence);
  const Windows windows(model, setup_.calibration,
                        (recipe.samples > 0 ? recipe.samples : setup_.samples) / length);
  std::vector<Matrix<float>> before = embed_windows(model, windows), now = before;
  for (Index l = 0; l < model.config().layers; ++l) {
    for (const Projection r : all_readers) {
      const Index d = model.in_features(r);
      GramAccumulator seen(d);
      CrossGramAccumulator cross(d, d);
      for (std::size_t j = 0; j < now.size(); ++j) {
        Matrix<float> x, z, h = before[j];
        setup_.model.apply_layer(l, h, [&](Index, Projection p, const ConstMatrixRef<float>& input) {
          if (p == r) x = input;
        });
        h = now[j];
        model.apply_layer(l, h, [&](Index, Projection p, const ConstMatrixRef<float>& input) {
          if (p == r) z = input;
        });
        seen.add(z);
        cross.add(z, x);
      }
      const Whitening whitening = whiten(seen.gram(), recipe.options.eta);
      const Matrix<double> moments = cross.gram();
      for (const Projection p : all_projections) {
        const auto& layer = result.layers[place(l, p)].layer;
        if (reader(p) != r || layer.side() != DictionarySide::input) continue;
        const Matrix<double> dictionary = layer.dictionary()->to_dense().template cast<double>();
        const Matrix<double> weight = setup_.model.weight(p, l).transpose().template cast<double>();
        model.weight(p, l) =
            reconstruct(dictionary, refit_coefficients(dictionary, weight, whitening, moments))
                .template cast<float>();
      }
    }
    for (std::size_t j = 0; j < now.size(); ++j) {
      setup_.model.apply_layer(l, before[j]);
      model.apply_layer(l, now[j]);
      if (progress) {
        progress((static_cast<double>(l) + static_cast<double>(j + 1) / static_cast<double>(now.size())) /
                     static_cast<double>(model.config().layers),
                 "refit");
      }
    }
  }
}

Outcome Study::run(const Recipe& recipe) {
  const auto [found, is_new] =
      known_.try_emplace(key(recipe, recipe.samples > 0 ? recipe.samples : setup_.samples));
  Outcome& outcome = found->second;
  if (!is_new) return outcome;
  grams(recipe.samples > 0 ? recipe.samples : setup_.samples);
  if (recipe.damage) damages();
  const Stopwatch clock;
  const CompressionResult result = compress(recipe);
  Llama model = setup_.model;
  for (Index l = 0; l < model.config().layers; ++l) {
    for (const Projection p : all_projections)
      model.weight(p, l) = result.layers[place(l, p)].layer.to_dense();
  }
  if (recipe.refit) refit(model, result, recipe);
  outcome.seconds = clock.seconds();
  for (const LayerReport& layer : result.layer_reports)
    outcome.relative_error += layer.relative_error * layer.relative_error;
  outcome.relative_error =
      std::sqrt(outcome.relative_error / static_cast<double>(result.layer_reports.size()));
  outcome.kept = result.kept_fraction();
  outcome.groups = result.groups;
  if (progress) progress(1, "evaluation");
  outcome.validation = validate(model);
  outcome.cross_entropy = cross_entropy(model, setup_.evaluation, setup_.windows);
  return outcome;
}

std::vector<Outcome> Study::store(const Recipe& recipe, const std::vector<StorageOptions>& storages) {
  const Grams& all = grams(setup_.samples);
  const CompressionResult result = compress(recipe);
  std::vector<Outcome> outcomes;
  for (const StorageOptions& storage : storages) {
    if (progress)
      progress(static_cast<double>(outcomes.size()) / static_cast<double>(storages.size()), "rounding");
    const auto layers = refitted_layers(result.layers, storage, [&](std::size_t i) -> RoundingTarget {
      const auto l = static_cast<Index>(i / all_projections.size());
      const Projection p = all_projections[i % all_projections.size()];
      return {setup_.model.weight(p, l).cast<double>(), all[static_cast<std::size_t>(l)].at(reader(p))};
    });
    Llama model = setup_.model;
    Outcome outcome;
    double bytes = 0;
    std::set<const SharedDictionary<float>*> counted;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto& layer = layers[i].layer;
      model.weight(all_projections[i % all_projections.size()],
                   static_cast<Index>(i / all_projections.size())) = layer.to_dense();
      bytes += coefficient_bytes(layer, storage);
      if (counted.insert(layer.dictionary().get()).second)
        bytes += dictionary_bytes(*layer.dictionary(), storage);
    }
    outcome.kept = bytes / result.dense_bytes;
    outcome.validation = validate(model);
    outcome.cross_entropy = cross_entropy(model, setup_.evaluation, setup_.windows);
    outcomes.push_back(outcome);
  }
  return outcomes;
}

Outcome Study::round(const StorageOptions& storage) const {
  Llama model = setup_.model;
  double bytes = 0, dense = 0;
  for (Index l = 0; l < model.config().layers; ++l) {
    for (const Projection p : all_projections) {
      Matrix<float>& weight = model.weight(p, l);
      bytes += stored_bytes(weight.cols(), weight.rows(), storage);
      dense += stored_bytes(weight.cols(), weight.rows(), {.dtype = DType::f32});
      const Matrix<float> columns = weight.transpose();
      weight = rotorlin::detail::rounded_as<float>(columns, storage, "a weight").transpose();
    }
  }
  Outcome outcome;
  outcome.kept = bytes / dense;
  outcome.validation = validate(model);
  outcome.cross_entropy = cross_entropy(model, setup_.evaluation, setup_.windows);
  return outcome;
}

}  // namespace examples
