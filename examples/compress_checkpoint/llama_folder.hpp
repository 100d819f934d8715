// SPDX-License-Identifier: MIT
/// \file
/// Llama models in Hugging Face's form: config.json and tensors in safetensors, one layer in memory at a
/// time.
///
/// The tensors are model.embed_tokens.weight (vocabulary x dim), model.layers.<l>.self_attn.{q,k,v,o}_proj,
/// .mlp.{gate,up,down}_proj (W1, W3, W2), .input_layernorm, .post_attention_layernorm, model.norm and
/// lm_head.weight; weights lie out x in, the rotary embedding turns the halves of a head (RotaryPairs).
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint_files.hpp"
#include "common/llama.hpp"
#include "common/llama_grams.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/io/json.hpp"

namespace examples {

namespace detail {

/// The entries of a config.json of which the arithmetic depends. An entry that is null counts as absent.
class LlamaEntries {
 public:
  explicit LlamaEntries(const nlohmann::json& json) : json_(json) {
    if (!json.is_object()) rotorlin::detail::throw_runtime("is no JSON object");
  }

  const nlohmann::json* find(const char* key) const {
    const auto place = json_.find(key);
    return place == json_.end() || place->is_null() ? nullptr : &*place;
  }
  Index size(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) rotorlin::detail::throw_runtime("has no ", key, "; expected a count");
    if (!value->is_number_unsigned() || *value > (std::uint64_t{1} << 40))
      rotorlin::detail::throw_runtime(key, " is ", value->dump(), ", expected a count");
    return value->get<Index>();
  }
  Index size(const char* key, Index otherwise) const { return find(key) == nullptr ? otherwise : size(key); }
  double number(const char* key, double otherwise) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number())
      rotorlin::detail::throw_runtime(key, " is ", value->dump(), ", expected a number");
    return value->get<double>();
  }
  std::string text(const char* key, const std::string& otherwise) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) rotorlin::detail::throw_runtime(key, " is ", value->dump(), ", expected a text");
    return value->get<std::string>();
  }
  bool flag(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean())
      rotorlin::detail::throw_runtime(key, " is ", value->dump(), ", expected true or false");
    return value->get<bool>();
  }

 private:
  const nlohmann::json& json_;
};

}  // namespace detail

/// A config.json as what the forward pass needs of it. Tokens are 16-bit words, and positions beyond 4096 are
/// not used. \throws std::runtime_error for what is missing or of another type, and for everything that this
/// forward pass does not compute: other model types than llama and mistral, scaled rotary embeddings, biases,
/// other activations than SiLU, quantized weights. std::invalid_argument for sizes that don't fit each other.
inline LlamaConfig parse_llama_config(std::string_view text) {
  using rotorlin::detail::throw_runtime;
  nlohmann::json json;
  try {
    json = rotorlin::detail::parse_strict_json(text, 16);
  } catch (const std::exception& error) {
    throw_runtime("is not valid JSON: ", error.what());
  }
  const detail::LlamaEntries entries(json);
  constexpr const char* instead =
      "; give what the layers read by --grams (tools/collect_grams.py) or --activations instead";
  const std::string type = entries.text("model_type", "");
  if (type != "llama" && type != "mistral")
    throw_runtime("has model_type '", type, "', expected llama or mistral, whose arithmetic is known",
                  instead);
  const auto refuse = [&](const char* key) {
    throw_runtime("has ", key, " = ", json.at(key).dump(), ", which this forward pass does not compute",
                  instead);
  };
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* rope = entries.find(key);
    if (rope == nullptr) continue;
    const detail::LlamaEntries inner(*rope);
    if (inner.text("rope_type", inner.text("type", "")) != "default" ||
        inner.number("partial_rotary_factor", 1) != 1)
      refuse(key);
  }
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (entries.flag(key)) refuse(key);
  }
  if (entries.find("quantization_config") != nullptr) refuse("quantization_config");
  if (entries.number("partial_rotary_factor", 1) != 1) refuse("partial_rotary_factor");
  if (const std::string act = entries.text("hidden_act", "silu"); act != "silu" && act != "swish")
    refuse("hidden_act");

  const Index heads = entries.size("num_attention_heads");
  double theta = entries.number("rope_theta", 10000);
  if (const nlohmann::json* rope = entries.find("rope_parameters"))
    theta = detail::LlamaEntries(*rope).number("rope_theta", theta);
  // a window of the attention that is never left changes nothing
  const Index places = std::min({entries.size("max_position_embeddings", 2048),
                                 entries.size("sliding_window", Index{1} << 40), Index{4096}});
  const LlamaConfig config{.dim = entries.size("hidden_size"),
                           .hidden = entries.size("intermediate_size"),
                           .layers = entries.size("num_hidden_layers"),
                           .heads = heads,
                           .kv_heads = entries.size("num_key_value_heads", heads),
                           .vocabulary = entries.size("vocab_size"),
                           .sequence = places,
                           .tied = entries.flag("tie_word_embeddings"),
                           .norm_epsilon = entries.number("rms_norm_eps", 1e-6),
                           .rope_theta = theta,
                           .rotary_pairs = RotaryPairs::halves};
  Llama::check(config);
  if (const Index size = entries.size("head_dim", config.head_size()); size != config.head_size()) {
    throw_runtime("has head_dim = ", size, " with hidden_size = ", config.dim, " and ", heads,
                  " heads, expected ", config.head_size(), instead);
  }
  return config;
}

/// A Llama model of which one layer is in memory, beside embedding and classifier: as Llama, where layers
/// are asked for one after another. Not for several threads.
class LlamaFolder {
 public:
  /// out x in, or empty where the file's own weight counts.
  using Replaced = std::function<Matrix<float>(Projection, Index layer)>;

  /// `files` must outlive this; `config`: config.json. \throws std::runtime_error, naming the file, as
  /// parse_llama_config, and for tensors that are missing, have other shapes or types than the configuration
  /// says, or that no Llama has.
  LlamaFolder(const CheckpointFiles& files, const std::filesystem::path& config)
      : files_(&files),
        config_(read_config(config)),
        prefix_(files.contains("model.embed_tokens.weight") ? "model." : ""),
        model_(one_layer(checked_tensors())) {
    read_transposed(prefix_ + "embed_tokens.weight", model_.embedding());
    read_norm(prefix_ + "norm.weight", model_.final_norm());
    if (!config_.tied) read_transposed("lm_head.weight", model_.classifier());
  }

  const LlamaConfig& config() const { return config_; }
  Index in_features(Projection p) const { return config_.in_features(p); }
  Index out_features(Projection p) const { return config_.out_features(p); }

  /// "model.layers.3.mlp.gate_proj", without its .weight.
  std::string tensor(Projection p, Index layer) const {
    static constexpr const char* names[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                            "self_attn.o_proj", "mlp.gate_proj",    "mlp.down_proj",
                                            "mlp.up_proj"};
    return layer_prefix(layer) + names[static_cast<std::size_t>(p)];
  }

  /// Weights that stand in for those of the file from now on.
  void replace(Replaced replaced) {
    replaced_ = std::move(replaced);
    present_ = -1;
  }

  Matrix<float> embed(std::span<const Token> tokens) const { return model_.embed(tokens); }
  void apply_layer(Index l, Matrix<float>& h, const Llama::Observer& observer = {}) const {
    if (l != present_) read_layer(l);
    model_.apply_layer(0, h, [&](Index, Projection p, const ConstMatrixRef<float>& x) {
      if (observer) observer(l, p, x);
    });
  }
  Matrix<float> classify(const Matrix<float>& h) const { return model_.classify(h); }
  Matrix<float> logits(std::span<const Token> tokens) const {
    Matrix<float> h = embed(tokens);
    for (Index l = 0; l < config_.layers; ++l) apply_layer(l, h);
    return classify(h);
  }

 private:
  static LlamaConfig read_config(const std::filesystem::path& path) {
    constexpr std::uintmax_t most = 16 << 20;
    if (!std::filesystem::is_regular_file(path) || std::filesystem::file_size(path) > most) {
      rotorlin::detail::throw_runtime(
          path.string(), " is needed to compute what the layers read, and is no file of less than ", most,
          " bytes; fetch it with the checkpoint");
    }
    try {
      return parse_llama_config(read_file(path));
    } catch (const std::exception& error) {
      rotorlin::detail::throw_runtime(path.string(), " ", error.what());
    }
  }
  static LlamaConfig one_layer(LlamaConfig config) {
    config.layers = 1;
    return config;
  }

  std::string layer_prefix(Index layer) const { return prefix_ + "layers." + std::to_string(layer) + "."; }
  std::string attention_norm(Index layer) const { return layer_prefix(layer) + "input_layernorm.weight"; }
  std::string ffn_norm(Index layer) const { return layer_prefix(layer) + "post_attention_layernorm.weight"; }

  [[noreturn]] void fail(const std::string& tensor, const auto&... what) const {
    const auto& path = files_->contains(tensor) ? files_->file_of(tensor).path() : files_->path();
    rotorlin::detail::throw_runtime(path.string(), ": tensor '", tensor, "' ", what...);
  }

  /// The configuration, when the tensors are as it says: before it takes memory.
  const LlamaConfig& checked_tensors() const {
    using rotorlin::DType;
    std::set<std::string> known;
    const auto expect = [&](const std::string& name, const std::vector<Index>& shape) {
      known.insert(name);
      if (!files_->contains(name))
        fail(name, "is missing; config.json announces a Llama of ", config_.layers, " layers");
      const rotorlin::TensorInfo& info = files_->file_of(name).info(name);
      if (info.shape != shape) {
        fail(name, "has shape ", rotorlin::detail::shape(info.shape), ", expected ",
             rotorlin::detail::shape(shape), " by config.json");
      }
      if (info.dtype != DType::f32 && info.dtype != DType::f16 && info.dtype != DType::bf16)
        fail(name, "is of ", rotorlin::name_of(info.dtype), ", expected F32, F16 or BF16");
    };
    expect(prefix_ + "embed_tokens.weight", {config_.vocabulary, config_.dim});
    expect(prefix_ + "norm.weight", {config_.dim});
    if (!config_.tied) expect("lm_head.weight", {config_.vocabulary, config_.dim});
    for (Index l = 0; l < config_.layers; ++l) {
      for (const Projection p : all_projections)
        expect(tensor(p, l) + ".weight", {out_features(p), in_features(p)});
      expect(attention_norm(l), {config_.dim});
      expect(ffn_norm(l), {config_.dim});
    }
    const std::string layers = prefix_ + "layers.";
    for (const auto& [name, file] : files_->tensors()) {
      if (known.contains(name) || !name.starts_with(layers) || name.ends_with(".rotary_emb.inv_freq"))
        continue;
      fail(name, "is none of a Llama of ", config_.layers,
           " layers, which config.json announces: what it does to the activations is not known");
    }
    return config_;
  }

  Matrix<float> matrix(const std::string& name) const {
    Matrix<float> m = files_->file_of(name).matrix<float>(name);
    if (!rotorlin::detail::all_finite(m)) fail(name, "has NaN or infinite entries");
    return m;
  }
  void read_transposed(const std::string& name, Matrix<float>& m) const { m = matrix(name).transpose(); }
  void read_norm(const std::string& name, Matrix<float>& m) const {
    m.col(0) = files_->file_of(name).vector<float>(name);
    if (!rotorlin::detail::all_finite(m)) fail(name, "has NaN or infinite entries");
  }

  void read_layer(Index l) const {
    if (l < 0 || l >= config_.layers)
      rotorlin::detail::throw_invalid("LlamaFolder: layer ", l, ", expected 0 to ", config_.layers - 1);
    present_ = -1;
    for (const Projection p : all_projections) {
      Matrix<float> weight = replaced_ ? replaced_(p, l) : Matrix<float>();
      if (weight.size() == 0) weight = matrix(tensor(p, l) + ".weight");
      if (weight.rows() != out_features(p) || weight.cols() != in_features(p)) {
        rotorlin::detail::throw_invalid("LlamaFolder: ", tensor(p, l), " is replaced by ",
                                        rotorlin::detail::shape(weight), ", expected ", out_features(p),
                                        " x ", in_features(p));
      }
      model_.weight(p, 0) = std::move(weight);
    }
    read_norm(attention_norm(l), model_.attention_norm(0));
    read_norm(ffn_norm(l), model_.ffn_norm(0));
    present_ = l;
  }

  const CheckpointFiles* files_;
  LlamaConfig config_;
  std::string prefix_;
  mutable Llama model_;  // its one layer is number `present_`
  mutable Index present_ = -1;
  Replaced replaced_;
};

/// As for Llama. In memory are the activations of all windows, dim x tokens.
inline double cross_entropy(const LlamaFolder& model, std::span<const Token> tokens, Index windows = 79) {
  const Windows parts(model.config(), tokens, windows);
  std::vector<Matrix<float>> activations = embed_windows(model, parts);
  for (Index l = 0; l < model.config().layers; ++l) {
    for (Matrix<float>& h : activations) model.apply_layer(l, h);
  }
  double sum = 0;
  for (Index j = 0; j < parts.count(); ++j)
    sum +=
        negative_log_likelihood(model.classify(activations[static_cast<std::size_t>(j)]), parts.targets(j));
  return sum / static_cast<double>(parts.predictions());
}

}  // namespace examples
