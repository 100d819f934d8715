// SPDX-License-Identifier: MIT
/// \file
/// Llama models as language models: their cross-entropy over streams of tokens, and text that they write.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/llama_model.hpp"
#include "common/tokenizer.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/random.hpp"

namespace examples {

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
      : Windows(model.config(), tokens, count) {}
  Windows(const LlamaConfig& config, std::span<const Token> tokens, Index count)
      : tokens_(tokens), length_(std::min<Index>(256, config.sequence)) {
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
