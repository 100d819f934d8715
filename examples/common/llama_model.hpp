// SPDX-License-Identifier: MIT
/// \file
/// A Llama-2-architecture language model: a plain forward pass on Eigen, whose projections can be observed
/// and replaced, and the format of llama2.c (float32, version 0). Folders of Hugging Face's:
/// llama_folder.hpp.
///
/// Activations are features x tokens, a column for each token of one sequence. With h_0 the embeddings of the
/// tokens, each layer is
///
///     x = norm(h);  h += Wo attention(rotate(Wq x), rotate(Wk x), Wv x)
///     x = norm(h);  h += W2 (silu(W1 x) * W3 x)
///
/// and the logits are C norm(h). norm is RMSNorm (Zhang, Sennrich 2019), rotate the rotary position embedding
/// (Su et al. 2021), the attention causal with grouped key and value heads, silu(W1 x) * W3 x is SwiGLU
/// (Shazeer 2020).
#pragma once

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/table.hpp"
#include "common/tokenizer.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

namespace examples {

using rotorlin::ConstMatrixRef;
using rotorlin::Index;
using rotorlin::Matrix;
using rotorlin::MatrixRef;

/// The matrices of a layer.
enum class Projection { q, k, v, o, w1, w2, w3 };

inline constexpr std::array<Projection, 7> all_projections = {Projection::q, Projection::k,  Projection::v,
                                                              Projection::o, Projection::w1, Projection::w2,
                                                              Projection::w3};

inline const char* name(Projection projection) {
  static constexpr const char* names[] = {"q", "k", "v", "o", "w1", "w2", "w3"};
  return names[static_cast<std::size_t>(projection)];
}

/// Which two features of a head the rotary embedding turns together, for pair i of a head of 2 p features.
enum class RotaryPairs {
  adjacent,  ///< 2 i and 2 i + 1: Meta, llama2.c
  halves     ///< i and p + i: Hugging Face
};

struct LlamaConfig {
  Index dim, hidden, layers, heads, kv_heads, vocabulary, sequence;
  bool tied;  ///< the embedding is the classifier too
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;  ///< pair i of p turns by theta^(-i / p) a place
  RotaryPairs rotary_pairs = RotaryPairs::adjacent;

  Index head_size() const { return dim / heads; }
  Index kv_dim() const { return head_size() * kv_heads; }  ///< features of keys and of values
  Index in_features(Projection p) const { return p == Projection::w2 ? hidden : dim; }
  Index out_features(Projection p) const {
    if (p == Projection::k || p == Projection::v) return kv_dim();
    return p == Projection::w1 || p == Projection::w3 ? hidden : dim;
  }
};

class Llama {
 public:
  /// y = f(x): x is in x tokens, y out x tokens.
  using Map = std::function<void(const ConstMatrixRef<float>& x, MatrixRef<float> y)>;
  /// Told before each projection what goes into it: x, in x tokens.
  using Observer = std::function<void(Index layer, Projection projection, const ConstMatrixRef<float>& x)>;

  /// \throws std::invalid_argument for sizes that are impossible or don't fit each other.
  static void check(const LlamaConfig& c) {
    constexpr Index most = Index{1} << 18;  // so that no product overflows
    for (const Index size : {c.dim, c.hidden, c.layers, c.heads, c.kv_heads, c.vocabulary, c.sequence}) {
      if (size >= 1 && size <= most && c.vocabulary <= 65536) continue;
      rotorlin::detail::throw_invalid("dim = ", c.dim, ", hidden = ", c.hidden, ", layers = ", c.layers,
                                      ", heads = ", c.heads, ", key and value heads = ", c.kv_heads,
                                      ", vocabulary = ", c.vocabulary, ", sequence = ", c.sequence,
                                      "; expected each from 1 to ", most, ", the vocabulary at most 65536");
    }
    if (c.dim % (2 * c.heads) != 0 || c.heads % c.kv_heads != 0) {
      rotorlin::detail::throw_invalid("dim = ", c.dim, ", heads = ", c.heads,
                                      ", key and value heads = ", c.kv_heads,
                                      "; expected heads of an even number of features, and as many",
                                      " heads for each key and value head");
    }
    if (!(c.norm_epsilon > 0 && c.norm_epsilon < 1 && c.rope_theta > 1 && c.rope_theta < 1e12)) {
      rotorlin::detail::throw_invalid("norm_epsilon = ", c.norm_epsilon, ", rope_theta = ", c.rope_theta,
                                      "; expected numbers between 0 and 1, and above 1");
    }
  }

  /// A model with weights 0 and norms 1. \throws as `check`.
  explicit Llama(const LlamaConfig& config) : config_(config) {
    check(config);
    embedding_.setZero(config.dim, config.vocabulary);
    if (!config.tied) classifier_.setZero(config.dim, config.vocabulary);
    final_norm_.setOnes(config.dim, 1);
    layers_.resize(static_cast<std::size_t>(config.layers));
    for (Layer& layer : layers_) {
      layer.attention_norm.setOnes(config.dim, 1);
      layer.ffn_norm.setOnes(config.dim, 1);
      for (const Projection p : all_projections)
        layer.weights[number(p)].setZero(out_features(p), in_features(p));
    }
    const Index pairs = config.head_size() / 2;
    rotary_.resize(pairs, 2 * config.sequence);
    for (Index t = 0; t < config.sequence; ++t) {
      for (Index i = 0; i < pairs; ++i) {
        const double frequency =
            std::pow(config.rope_theta, -static_cast<double>(i) / static_cast<double>(pairs));
        const double angle = static_cast<double>(t) * frequency;
        rotary_(i, t) = static_cast<float>(std::cos(angle));
        rotary_(i, config.sequence + t) = static_cast<float>(std::sin(angle));
      }
    }
  }

  /// Reads a float32 file of llama2.c, version 0: seven int32 (dim, hidden, layers, heads, key and value
  /// heads, vocabulary, sequence; a negative vocabulary announces a classifier of its own), the embedding,
  /// then of all layers the attention norms, Wq, Wk, Wv, Wo, the norms before the feed-forward part, W1, W2,
  /// W3; the final norm, the tables of the rotary embedding (computed anew here), the classifier.
  /// \throws std::runtime_error that names the file where it can't be read, its header is impossible, its
  /// size is not what the header announces, or a weight is not finite.
  static Llama load(const std::filesystem::path& path) {
    const auto fail = [&](const auto&... what) {
      rotorlin::detail::throw_runtime("Llama::load: ", path.string(), ": ", what...);
    };
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path))
      fail("can't be opened; check that it exists, is a file and may be read");
    std::array<std::int32_t, 7> header{};
    if (!file.read(reinterpret_cast<char*>(header.data()), sizeof header))
      fail("ends within its header of ", sizeof header, " bytes");
    if (header[0] == 0x616b3432)
      fail("is a file of llama2.c of version ", header[1], ", expected version 0 (export.py --version 0)");
    const LlamaConfig config{header[0], header[1],    header[2],
                             header[3], header[4],    std::abs(Index{header[5]}),
                             header[6], header[5] > 0};
    try {
      check(config);
    } catch (const std::invalid_argument& error) {
      fail(error.what(), "; is this a float32 file of llama2.c, version 0?");
    }
    const auto announced = static_cast<std::uintmax_t>(file_size(config)),
               found = std::filesystem::file_size(path);
    if (announced != found) {
      fail("has ", found, " bytes, expected ", announced,
           " by its header; is this a whole float32 file of llama2.c, version 0?");
    }

    Llama model(config);
    Matrix<float> transposed;
    for_each_tensor(model, [&](const std::string& what, Matrix<float>& m, bool by_rows) {
      Matrix<float>& target = by_rows ? transposed : m;
      if (by_rows) target.resize(m.cols(), m.rows());
      const auto bytes = static_cast<std::streamsize>(sizeof(float)) * target.size();
      if (!file.read(reinterpret_cast<char*>(target.data()), bytes)) fail("can't be read at ", what);
      if (!rotorlin::detail::all_finite(target)) fail("has NaN or infinite entries in ", what);
      if (by_rows) m = transposed.transpose();
    });
    return model;
  }

  /// Writes the format that `load` reads. \throws std::invalid_argument while projections are replaced: a map
  /// is no matrix that could be written; or where norm_epsilon, rope_theta or rotary_pairs are not those of
  /// the format. std::runtime_error where the file can't be written.
  void save(const std::filesystem::path& path) const {
    if (config_.norm_epsilon != 1e-5 || config_.rope_theta != 10000 ||
        config_.rotary_pairs != RotaryPairs::adjacent) {
      rotorlin::detail::throw_invalid("Llama::save: norm_epsilon = ", config_.norm_epsilon,
                                      ", rope_theta = ", config_.rope_theta, ", pairs of ",
                                      config_.rotary_pairs == RotaryPairs::halves ? "halves" : "neighbours",
                                      "; the format of llama2.c has 1e-05, 10000 and neighbours");
    }
    for (Index l = 0; l < config_.layers; ++l) {
      for (const Projection p : all_projections) {
        if (!at(l).maps[number(p)]) continue;
        rotorlin::detail::throw_invalid("Llama::save: projection ", name(p), " of layer ", l,
                                        " is replaced by a map; set weight() and restore() it first");
      }
    }
    const auto header_entry = [](Index value) { return static_cast<std::int32_t>(value); };
    const std::array<std::int32_t, 7> header = {
        header_entry(config_.dim),      header_entry(config_.hidden),
        header_entry(config_.layers),   header_entry(config_.heads),
        header_entry(config_.kv_heads), header_entry(config_.tied ? config_.vocabulary : -config_.vocabulary),
        header_entry(config_.sequence)};
    std::string bytes(reinterpret_cast<const char*>(header.data()), sizeof header);
    bytes.reserve(static_cast<std::size_t>(file_size(config_)));
    for_each_tensor(*this, [&](const std::string&, const Matrix<float>& m, bool by_rows) {
      const Matrix<float> in_order = by_rows ? Matrix<float>(m.transpose()) : m;
      bytes.append(reinterpret_cast<const char*>(in_order.data()),
                   sizeof(float) * static_cast<std::size_t>(in_order.size()));
    });
    write_file(path, bytes);
  }

  const LlamaConfig& config() const { return config_; }
  Index in_features(Projection p) const { return config_.in_features(p); }
  Index out_features(Projection p) const { return config_.out_features(p); }

  /// out x in. What replaces a projection leaves its weight as it is.
  Matrix<float>& weight(Projection p, Index layer) { return at(layer).weights[number(p)]; }
  const Matrix<float>& weight(Projection p, Index layer) const { return at(layer).weights[number(p)]; }
  /// dim x vocabulary.
  Matrix<float>& embedding() { return embedding_; }
  /// dim x vocabulary: its transpose maps the last activations to logits.
  Matrix<float>& classifier() { return config_.tied ? embedding_ : classifier_; }
  const Matrix<float>& classifier() const { return config_.tied ? embedding_ : classifier_; }

  /// The weights of the norms, dim x 1.
  Matrix<float>& attention_norm(Index layer) { return at(layer).attention_norm; }
  Matrix<float>& ffn_norm(Index layer) { return at(layer).ffn_norm; }
  Matrix<float>& final_norm() { return final_norm_; }

  /// Lets `map` stand in for a weight.
  void replace(Index layer, Projection p, Map map) { at(layer).maps[number(p)] = std::move(map); }
  void restore(Index layer, Projection p) { replace(layer, p, nullptr); }
  void restore() {
    for (Layer& layer : layers_) layer.maps.fill(nullptr);
  }

  /// h_0, dim x tokens. \throws std::invalid_argument for no tokens, more than the model's sequence, or one
  /// that is not in the vocabulary.
  Matrix<float> embed(std::span<const Token> tokens) const {
    const auto count = static_cast<Index>(tokens.size());
    if (count < 1 || count > config_.sequence)
      rotorlin::detail::throw_invalid("Llama::embed: ", count, " tokens, expected 1 to ", config_.sequence);
    Matrix<float> h(config_.dim, count);
    for (Index t = 0; t < count; ++t) {
      const Token token = tokens[static_cast<std::size_t>(t)];
      if (token >= config_.vocabulary) {
        rotorlin::detail::throw_invalid("Llama::embed: token ", t, " is ", token, ", expected 0 to ",
                                        config_.vocabulary - 1);
      }
      h.col(t) = embedding_.col(token);
    }
    return h;
  }

  /// What the projections q, k and v of a layer read where h (dim x tokens) goes into the layer.
  Matrix<float> attention_inputs(Index l, const Matrix<float>& h) const {
    return normalized(h, at(l).attention_norm);
  }

  /// Takes h (dim x tokens, a sequence from its beginning) through one layer.
  void apply_layer(Index l, Matrix<float>& h, const Observer& observer = {}) const {
    const Layer& layer = at(l);
    if (h.rows() != config_.dim || h.cols() < 1 || h.cols() > config_.sequence) {
      rotorlin::detail::throw_invalid("Llama::apply_layer: h is ", rotorlin::detail::shape(h), ", expected ",
                                      config_.dim, " x tokens with 1 to ", config_.sequence, " tokens");
    }
    const auto project = [&](Projection p, const Matrix<float>& x) {
      if (observer) observer(l, p, x);
      Matrix<float> y(out_features(p), x.cols());
      if (const Map& map = layer.maps[number(p)]) {
        map(x, y);
      } else {
        y.noalias() = layer.weights[number(p)] * x;
      }
      return y;
    };
    Matrix<float> x = normalized(h, layer.attention_norm);
    Matrix<float> q = project(Projection::q, x), k = project(Projection::k, x);
    const Matrix<float> v = project(Projection::v, x);
    rotate(q);
    rotate(k);
    h += project(Projection::o, attention(q, k, v));
    x = normalized(h, layer.ffn_norm);
    Matrix<float> gate = project(Projection::w1, x);
    const Matrix<float> up = project(Projection::w3, x);
    gate.array() *= up.array() / (1 + (-gate.array()).exp());
    h += project(Projection::w2, gate);
  }

  /// The logits (vocabulary x tokens) of the activations behind the last layer.
  Matrix<float> classify(const Matrix<float>& h) const {
    return classifier().transpose() * normalized(h, final_norm_);
  }

  /// The logits of the next token at every place: vocabulary x tokens.
  Matrix<float> logits(std::span<const Token> tokens, const Observer& observer = {}) const {
    Matrix<float> h = embed(tokens);
    for (Index l = 0; l < config_.layers; ++l) apply_layer(l, h, observer);
    return classify(h);
  }

 private:
  struct Layer {
    Matrix<float> attention_norm, ffn_norm;  // dim x 1
    std::array<Matrix<float>, 7> weights;    // out x in, by number(Projection)
    std::array<Map, 7> maps;                 // those that stand in for weights
  };

  static std::size_t number(Projection p) { return static_cast<std::size_t>(p); }

  template <class Self>
  static auto& layer_of(Self& self, Index l) {
    if (l < 0 || l >= self.config_.layers)
      rotorlin::detail::throw_invalid("Llama: layer ", l, ", expected 0 to ", self.config_.layers - 1);
    return self.layers_[static_cast<std::size_t>(l)];
  }
  Layer& at(Index l) { return layer_of(*this, l); }
  const Layer& at(Index l) const { return layer_of(*this, l); }

  /// Bytes of the file.
  static Index file_size(const LlamaConfig& c) {
    const Index per_layer = 2 * c.dim + 2 * c.dim * (c.dim + c.kv_dim()) + 3 * c.dim * c.hidden;
    const Index values = c.vocabulary * c.dim * (c.tied ? 1 : 2) + c.dim + c.sequence * c.head_size();
    return 7 * 4 + 4 * (c.layers * per_layer + values);
  }

  /// f(what, tensor, whether it lies in the file by rows) in the order of the file, for `load` and `save`.
  template <class Self, class F>
  static void for_each_tensor(Self& model, F&& f) {
    f("the embedding", model.embedding_, false);
    const auto projection = [&](Projection p) {
      for (Index l = 0; l < model.config_.layers; ++l)
        f(name(p) + (" of layer " + std::to_string(l)), model.weight(p, l), true);
    };
    for (auto& layer : model.layers_) f("an attention norm", layer.attention_norm, false);
    for (const Projection p : {Projection::q, Projection::k, Projection::v, Projection::o}) projection(p);
    for (auto& layer : model.layers_) f("a norm before the feed-forward part", layer.ffn_norm, false);
    for (const Projection p : {Projection::w1, Projection::w2, Projection::w3}) projection(p);
    f("the final norm", model.final_norm_, false);
    Matrix<float> table = model.rotary_;
    f("the tables of the rotary embedding", table, false);
    if (!model.config_.tied) f("the classifier", model.classifier_, false);
  }

  Matrix<float> normalized(const Matrix<float>& h, const Matrix<float>& weight) const {
    const Eigen::RowVectorXf scale = (h.colwise().squaredNorm().array() / static_cast<float>(h.rows()) +
                                      static_cast<float>(config_.norm_epsilon))
                                         .rsqrt();
    return weight.col(0).asDiagonal() * h * scale.asDiagonal();
  }

  /// Turns each pair of features of each head at place t by t times its frequency.
  void rotate(Matrix<float>& m) const {
    const Index pairs = config_.head_size() / 2;
    const bool adjacent = config_.rotary_pairs == RotaryPairs::adjacent;
    const Index next = adjacent ? 2 : 1, partner = adjacent ? 1 : pairs;
    for (Index t = 0; t < m.cols(); ++t) {
      const float* cosine = rotary_.col(t).data();
      const float* sine = rotary_.col(config_.sequence + t).data();
      for (Index head = 0; head < m.rows() / (2 * pairs); ++head) {
        float* x = m.col(t).data() + head * 2 * pairs;
        for (Index i = 0; i < pairs; ++i) {
          const float a = x[next * i], b = x[next * i + partner];
          x[next * i] = a * cosine[i] - b * sine[i];
          x[next * i + partner] = a * sine[i] + b * cosine[i];
        }
      }
    }
  }

  Matrix<float> attention(const Matrix<float>& q, const Matrix<float>& k, const Matrix<float>& v) const {
    const Index tokens = q.cols(), size = config_.head_size(), sharing = config_.heads / config_.kv_heads;
    const float scale = 1 / std::sqrt(static_cast<float>(size));
    Matrix<float> out(config_.dim, tokens), weights(tokens, tokens);
    for (Index head = 0; head < config_.heads; ++head) {
      const auto keys = k.middleRows(head / sharing * size, size);
      const auto values = v.middleRows(head / sharing * size, size);
      weights.noalias() = keys.transpose() * q.middleRows(head * size, size);
      for (Index t = 0; t < tokens; ++t) {
        auto seen = weights.col(t).head(t + 1);
        seen = (scale * (seen.array() - seen.maxCoeff())).exp();
        seen /= seen.sum();
        weights.col(t).tail(tokens - t - 1).setZero();
      }
      out.middleRows(head * size, size).noalias() = values * weights;
    }
    return out;
  }

  LlamaConfig config_;
  Matrix<float> embedding_, classifier_;  // dim x vocabulary
  Matrix<float> final_norm_;              // dim x 1
  Matrix<float> rotary_;                  // head size / 2 x 2 sequence: cosines, then sines
  std::vector<Layer> layers_;
};

}  // namespace examples
