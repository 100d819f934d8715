// SPDX-License-Identifier: MIT
#include <map>

#include "checkpoint.hpp"
#include "common/llama_grams.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"
#include "streams.hpp"

namespace examples {

using rotorlin::DType;
using rotorlin::SafetensorsFile;
using rotorlin::SafetensorsWriter;
using rotorlin::detail::throw_runtime;

namespace {

struct Place {
  Index layer;
  Projection projection;
};

std::vector<Place> places(const LlamaConfig& config) {
  std::vector<Place> result;
  for (Index l = 0; l < config.layers; ++l) {
    for (const Projection p : all_projections) result.push_back({l, p});
  }
  return result;
}

/// f(name, tensor, whether it lies in a safetensors file transposed) for all that is not compressed, under
/// Meta's names.
template <class F>
void for_each_other(Llama& model, const F& f) {
  f("tok_embeddings.weight", model.embedding(), true);
  for (Index l = 0; l < model.config().layers; ++l) {
    const std::string prefix = "layers." + std::to_string(l) + ".";
    f(prefix + "attention_norm.weight", model.attention_norm(l), false);
    f(prefix + "ffn_norm.weight", model.ffn_norm(l), false);
  }
  f("norm.weight", model.final_norm(), false);
  if (!model.config().tied) f("output.weight", model.classifier(), true);
}

class LlamaCheckpoint : public Checkpoint {
 public:
  explicit LlamaCheckpoint(const Sources& sources)
      : sources_(sources), model_(Llama::load(sources.model)), places_(places(model_.config())) {
    for (const auto [l, p] : places_) {
      slots_.push_back({projection_name(l, p), name(p), model_.out_features(p), model_.in_features(p),
                        projection_name(l, reader(p))});
    }
    if (sources.calibration.empty()) {
      throw_runtime(sources.model.string(),
                    ": no calibration stream was given; expected --calibration FILE, ",
                    "text (.txt, with --tokenizer) or token numbers");
    }
    streams_ = read_streams(sources, model_.config());
  }

  std::string summary() const override {
    return sources_.model.string() + ": in the format of llama2.c, " + std::to_string(slots_.size()) +
           " projections of " + std::to_string(model_.config().layers) + " layers\n";
  }
  std::string remarks() const override { return std::to_string(streams_.windows) + " windows"; }
  std::vector<std::filesystem::path> inputs() const override {
    return {sources_.model, sources_.calibration, sources_.evaluation, sources_.tokenizer};
  }
  double bytes() const override { return static_cast<double>(std::filesystem::file_size(sources_.model)); }

  Matrix<double> weight(std::size_t slot) const override {
    const auto [l, p] = places_.at(slot);
    return model_.weight(p, l).cast<double>();
  }
  rotorlin::VectorX<float> bias(std::size_t) const override { return {}; }

  void for_each_gram(const std::function<void(const std::string&, Matrix<double>)>& found,
                     const Advance& advanced) const override {
    examples::for_each_gram(
        model_, Windows(model_, streams_.calibration, streams_.windows),
        [&](Index l, Projection p, Matrix<double> gram) { found(projection_name(l, p), std::move(gram)); },
        advanced);
  }

  void carry_over(SafetensorsWriter& writer, nlohmann::json& description) const override {
    Llama copy = model_;
    for_each_other(copy, [&](const std::string& tensor, const Matrix<float>& m, bool transposed) {
      if (transposed) {
        writer.add(tensor, m.transpose());
      } else {
        writer.add(tensor, m.col(0));
      }
    });
    const LlamaConfig& c = model_.config();
    description["source"] = "llama2.c";
    description["calibration_tokens"] = streams_.calibration_tokens(c);
    description["config"] = {{"dim", c.dim},           {"hidden", c.hidden},     {"layers", c.layers},
                             {"heads", c.heads},       {"kv_heads", c.kv_heads}, {"vocabulary", c.vocabulary},
                             {"sequence", c.sequence}, {"tied", c.tied}};
  }

  std::optional<double> evaluate(const std::function<Matrix<float>(std::size_t)>& replaced) const override {
    if (!replaced) return cross_entropy(model_, streams_.evaluation);
    Llama model = model_;
    for (std::size_t i = 0; i < places_.size(); ++i)
      model.weight(places_[i].projection, places_[i].layer) = replaced(i);
    return cross_entropy(model, streams_.evaluation);
  }

 private:
  Sources sources_;
  Llama model_;
  std::vector<Place> places_;  // of the slots
  Streams streams_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_llama(const Sources& sources) {
  return std::make_unique<LlamaCheckpoint>(sources);
}

void write_llama(const SafetensorsFile& compressed, const nlohmann::json& description,
                 const std::filesystem::path& target) {
  const nlohmann::json& c = description.at("config");
  const auto entry = [&](const char* key) { return c.at(key).get<Index>(); };
  const LlamaConfig config{entry("dim"),      entry("hidden"),         entry("layers"),
                           entry("heads"),    entry("kv_heads"),       entry("vocabulary"),
                           entry("sequence"), c.at("tied").get<bool>()};
  std::map<std::string, Matrix<float>> dense;
  for (const auto& [layer_name, layer] : rotorlin::read_shared_layers<float>(compressed))
    dense[layer_name] = layer.to_dense();

  // before a model of the announced size takes memory, what is there must announce the same
  const auto expect = [&](const std::string& what, const std::vector<Index>& shape,
                          const std::vector<Index>& expected) {
    if (shape == expected) return;
    throw_runtime(compressed.path().string(), ": ", what, " has shape ", rotorlin::detail::shape(shape),
                  ", expected ", rotorlin::detail::shape(expected), " by the description");
  };
  expect("tok_embeddings.weight", compressed.info("tok_embeddings.weight").shape,
         {config.vocabulary, config.dim});
  const auto found = [&](Index l, Projection p) -> const Matrix<float>& {
    const auto place = dense.find(projection_name(l, p));
    if (place == dense.end())
      throw_runtime(compressed.path().string(), " has no layer '", projection_name(l, p), "'");
    return place->second;
  };
  for (Index l = 0; l < config.layers; ++l) found(l, Projection::q);

  Llama model(config);
  for (Index l = 0; l < config.layers; ++l) {
    for (const Projection p : all_projections) {
      const Matrix<float>& m = found(l, p);
      Matrix<float>& weight = model.weight(p, l);
      expect(projection_name(l, p), {m.rows(), m.cols()}, {weight.rows(), weight.cols()});
      weight = m;
    }
  }
  for_each_other(model, [&](const std::string& tensor, Matrix<float>& m, bool transposed) {
    const std::vector<Index>& shape = compressed.info(tensor).shape;
    if (transposed) {
      expect(tensor, shape, {m.cols(), m.rows()});
      m = compressed.matrix<float>(tensor).transpose();
    } else {
      expect(tensor, shape, {m.rows()});
      m.col(0) = compressed.vector<float>(tensor);
    }
  });
  model.save(target);
}

}  // namespace examples
