// SPDX-License-Identifier: MIT
/// \file
/// A Llama-2-architecture language model in the format of llama2.c (float32, version 0): a plain forward pass
/// on Eigen, whose projections can be observed and replaced.
///
/// Activations are features x tokens, a column for each token of one sequence. With h_0 the embeddings of the
/// tokens, each layer is
///
///     x = norm(h);  h += Wo attention(rotate(Wq x), rotate(Wk x), Wv x)
///     x = norm(h);  h += W2 (silu(W1 x) * W3 x)
///
/// and the logits are C norm(h). norm is RMSNorm (Zhang, Sennrich 2019, epsilon 1e-5), rotate the rotary
/// position embedding of adjacent pairs (Su et al. 2021), the attention causal with grouped key and value
/// heads, silu(W1 x) * W3 x is SwiGLU (Shazeer 2020).
#pragma once

#include <Eigen/Core>
#include <algorithm>
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
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"

namespace examples {

using rotorlin::ConstMatrixRef;
using rotorlin::Index;
using rotorlin::Matrix;
using rotorlin::MatrixRef;

struct LlamaConfig {
  Index dim, hidden, layers, heads, kv_heads, vocabulary, sequence;
  bool tied;  ///< the embedding is the classifier too

  Index head_size() const { return dim / heads; }
  Index kv_dim() const { return head_size() * kv_heads; }  ///< features of keys and of values
};

/// The matrices of a layer.
enum class Projection { q, k, v, o, w1, w2, w3 };

inline constexpr std::array<Projection, 7> all_projections = {Projection::q, Projection::k,  Projection::v,
                                                              Projection::o, Projection::w1, Projection::w2,
                                                              Projection::w3};

inline const char* name(Projection projection) {
  static constexpr const char* names[] = {"q", "k", "v", "o", "w1", "w2", "w3"};
  return names[static_cast<std::size_t>(projection)];
}

class Llama {
 public:
  /// y = f(x): x is in x tokens, y out x tokens.
  using Map = std::function<void(const ConstMatrixRef<float>& x, MatrixRef<float> y)>;
  /// Told before each projection what goes into it: x, in x tokens.
  using Observer = std::function<void(Index layer, Projection projection, const ConstMatrixRef<float>& x)>;

  /// A model with weights 0 and norms 1. \throws std::invalid_argument for sizes that don't fit each other.
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
        const double frequency = std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs));
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
  /// is no matrix that could be written. std::runtime_error where the file can't be written.
  void save(const std::filesystem::path& path) const {
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
  Index in_features(Projection p) const { return p == Projection::w2 ? config_.hidden : config_.dim; }
  Index out_features(Projection p) const {
    switch (p) {
      case Projection::k:
      case Projection::v:
        return config_.kv_dim();
      case Projection::w1:
      case Projection::w3:
        return config_.hidden;
      default:
        return config_.dim;
    }
  }

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
  }

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

  static Matrix<float> normalized(const Matrix<float>& h, const Matrix<float>& weight) {
    const Eigen::RowVectorXf scale =
        (h.colwise().squaredNorm().array() / static_cast<float>(h.rows()) + 1e-5f).rsqrt();
    return weight.col(0).asDiagonal() * h * scale.asDiagonal();
  }

  /// Turns the features 2i and 2i + 1 of each head at place t by t * 10000^(-2i / head size).
  void rotate(Matrix<float>& m) const {
    const Index pairs = config_.head_size() / 2;
    for (Index t = 0; t < m.cols(); ++t) {
      const float* cosine = rotary_.col(t).data();
      const float* sine = rotary_.col(config_.sequence + t).data();
      for (Index head = 0; head < m.rows() / (2 * pairs); ++head) {
        float* x = m.col(t).data() + head * 2 * pairs;
        for (Index i = 0; i < pairs; ++i) {
          const float a = x[2 * i], b = x[2 * i + 1];
          x[2 * i] = a * cosine[i] - b * sine[i];
          x[2 * i + 1] = a * sine[i] + b * cosine[i];
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

/// Sum of -log softmax(logits)[target] over the columns of `logits` (vocabulary x tokens).
inline double negative_log_likelihood(const Matrix<float>& logits, std::span<const Token> targets) {
  double sum = 0;
  for (Index t = 0; t < logits.cols(); ++t) {
    const float largest = logits.col(t).maxCoeff();
    const float total = (logits.col(t).array() - largest).exp().sum();
    sum += std::log(total) + largest - logits(targets[static_cast<std::size_t>(t)], t);
  }
  return sum;
}

/// The windows of a stream on which models are compared: window j predicts the tokens length j + 1 ...
/// length (j + 1) from those before them, from token length j on.
class Windows {
 public:
  /// As many windows as asked for or as the tokens fill, each of 256 predictions or of what the model can
  /// see. \throws std::invalid_argument where not one is full.
  Windows(const Llama& model, std::span<const Token> tokens, Index count)
      : tokens_(tokens), length_(std::min<Index>(256, model.config().sequence)) {
    count_ = std::min(count, (static_cast<Index>(tokens.size()) - 1) / length_);
    if (count_ < 1) {
      rotorlin::detail::throw_invalid("Windows: ", count, " windows of ", tokens.size(),
                                      " tokens; expected at least 1, and ", length_ + 1, " tokens or more");
    }
  }

  Index count() const { return count_; }
  Index length() const { return length_; }
  Index predictions() const { return count_ * length_; }
  std::span<const Token> inputs(Index j) const { return part(j * length_); }
  std::span<const Token> targets(Index j) const { return part(j * length_ + 1); }

 private:
  std::span<const Token> part(Index begin) const {
    return tokens_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length_));
  }
  std::span<const Token> tokens_;
  Index length_, count_;
};

/// Mean cross-entropy (the logarithm of the perplexity) in nats over `Windows`; the figures in this
/// repository are for the first 79.
inline double cross_entropy(const Llama& model, std::span<const Token> tokens, Index windows = 79) {
  const Windows parts(model, tokens, windows);
  double sum = 0;
  for (Index j = 0; j < parts.count(); ++j)
    sum += negative_log_likelihood(model.logits(parts.inputs(j)), parts.targets(j));
  return sum / static_cast<double>(parts.predictions());
}

/// Continues a text by up to `length` tokens, or to the end of the story or of what the model can see. Tokens
/// are drawn from softmax(logits / temperature); temperature 0 takes the likeliest.
inline std::string generate(const Llama& model, const Tokenizer& tokenizer, const std::string& prompt,
                            Index length, double temperature, std::uint64_t seed) {
  if (!(temperature >= 0))
    rotorlin::detail::throw_invalid("generate: temperature ", temperature, ", expected a number >= 0");
  rotorlin::Random random(seed);
  std::vector<Token> tokens = tokenizer.encode(prompt);
  for (Index i = 0; i < length && static_cast<Index>(tokens.size()) < model.config().sequence; ++i) {
    const Eigen::VectorXd logits = model.logits(tokens).rightCols(1).cast<double>();
    Index next = 0;
    const double largest = logits.maxCoeff(&next);
    if (temperature > 0) {
      const Eigen::ArrayXd weights = ((logits.array() - largest) / temperature).exp();
      double left = random.uniform() * weights.sum();
      for (next = 0; next + 1 < weights.size() && left >= weights[next]; ++next) left -= weights[next];
    }
    if (next == Tokenizer::bos || next == Tokenizer::eos) break;
    tokens.push_back(static_cast<Token>(next));
  }
  return tokenizer.decode(tokens);
}

}  // namespace examples
