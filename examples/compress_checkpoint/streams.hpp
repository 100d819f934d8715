// SPDX-License-Identifier: MIT
// The streams of tokens that a language model is calibrated with and evaluated on.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <tuple>
#include <vector>

#include "checkpoint.hpp"
#include "common/llama.hpp"
#include "rotorlin/core/error.hpp"

namespace examples {

struct Streams {
  std::vector<Token> calibration, evaluation;  ///< none: empty
  Index windows = 0;                           ///< of the calibration stream

  Index calibration_tokens(const LlamaConfig& config) const {
    return windows * std::min<Index>(256, config.sequence);
  }
};

/// What was named; a calibration stream without another for the evaluation is cut in two. \throws
/// std::runtime_error, naming the file, for text without a tokenizer of the model's vocabulary and for
/// tokens that are not in it; std::invalid_argument for streams that fill no window.
inline Streams read_streams(const Sources& sources, const LlamaConfig& config) {
  const auto vocabulary = static_cast<std::size_t>(config.vocabulary);
  std::optional<Tokenizer> tokenizer;
  const auto read = [&](const std::filesystem::path& path) {
    if (path.extension() != ".txt") return read_stream(path, tokenizer.value_or(Tokenizer()), vocabulary);
    if (sources.tokenizer.empty()) {
      rotorlin::detail::throw_runtime(path.string(), " is text; give the model's --tokenizer FILE as well");
    }
    if (!tokenizer) tokenizer = Tokenizer::load(sources.tokenizer);
    if (tokenizer->size() != vocabulary) {
      rotorlin::detail::throw_runtime(sources.tokenizer.string(), " has ", tokenizer->size(), " tokens, ",
                                      sources.model.string(), " expects ", vocabulary,
                                      "; give the tokenizer that the model was trained with");
    }
    return read_stream(path, *tokenizer, vocabulary);
  };
  Streams streams;
  if (!sources.calibration.empty()) streams.calibration = read(sources.calibration);
  if (!sources.evaluation.empty()) {
    streams.evaluation = read(sources.evaluation);
  } else {
    std::tie(streams.calibration, streams.evaluation) = split_stream(streams.calibration, 0.75);
  }
  if (!sources.calibration.empty()) {
    const Index length = std::min<Index>(256, config.sequence);
    streams.windows =
        Windows(config, streams.calibration, std::max<Index>(1, sources.tokens / length)).count();
  }
  Windows(config, streams.evaluation, 1);
  return streams;
}

}  // namespace examples
