// SPDX-License-Identifier: MIT
// llama: what the checkpoint stories260K makes of given tokens, and the Gram matrices of its activations. The
// checkpoint, its tokenizer and the streams of tokens lie in the folder that ROTORLIN_TEST_DATA names.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/llama.hpp"
#include "common/tokenizer.hpp"
#include "report.hpp"
#include "rotorlin/linalg/gram_accumulator.hpp"

namespace golden::llama {

using examples::Llama;
using examples::Projection;
using examples::Token;

inline bool matches(const json& file) {
  return file.is_object() && file.contains("tokens") && file.contains("eval_tokens");
}

inline bool can_check() { return std::getenv("ROTORLIN_TEST_DATA") != nullptr; }

/// Second moments over the first four windows of the calibration stream, by the names of the file.
inline void check_grams(const json& expected, const Llama& model, std::span<const Token> calibration,
                        Report& report) {
  std::map<std::string, rotorlin::GramAccumulator> seen;
  const std::map<Projection, std::string> places = {
      {Projection::q, "attn"}, {Projection::o, "o"}, {Projection::w1, "ffn"}, {Projection::w2, "w2"}};
  const examples::Windows windows(model, calibration, 4);
  for (Index j = 0; j < windows.count(); ++j) {
    model.logits(windows.inputs(j), [&](Index layer, Projection p, const auto& x) {
      if (const auto place = places.find(p); place != places.end())
        seen.try_emplace(place->second + std::to_string(layer), x.rows()).first->second.add(x);
    });
  }
  for (const auto& item : expected.items()) {  // clang 14 lets no lambda see structured bindings
    const std::string& name = item.key();
    const auto& values = item.value();
    const auto found = seen.find(name);
    if (found == seen.end()) {
      report.fail("the model has no place " + name);
      continue;
    }
    const rotorlin::Matrix<double> gram = found->second.gram();
    const auto compare = [&](const char* field, double computed) {
      if (values.contains(field))
        report.compare(field + (" of " + name), computed, values[field].get<double>(), 1e-4);
    };
    compare("trace", gram.trace());
    compare("fro", gram.norm());
    compare("g00", gram(0, 0));
    compare("g01", gram(0, 1));
  }
}

inline void check(const json& file, Report& report) {
  const std::filesystem::path folder = std::getenv("ROTORLIN_TEST_DATA");
  const auto model = Llama::load(folder / "stories260K.bin");
  const auto tokenizer = examples::Tokenizer::load(folder / "tok512.bin");
  const auto calibration = examples::read_tokens(folder / "tinystories_calibration.u16"),
             evaluation = examples::read_tokens(folder / "tinystories_evaluation.u16");

  const auto tokens = file["tokens"].get<std::vector<Token>>();
  if (file.contains("text"))
    report.expect(tokenizer.encode(file["text"].get<std::string>()) == tokens, "tokens of the text");
  const rotorlin::Matrix<float> logits = model.logits(tokens);
  if (file.contains("logits_last_first16")) {
    const auto expected = numbers<double>(file["logits_last_first16"]);
    report.compare("logits", logits.col(logits.cols() - 1).head(expected.size()), expected, 1e-5);
  }
  if (file.contains("argmax")) {
    for (Index t = 0; t < logits.cols(); ++t) {
      Index likeliest = 0;
      logits.col(t).maxCoeff(&likeliest);
      report.expect(likeliest == file["argmax"].at(static_cast<std::size_t>(t)).get<Index>(),
                    "the likeliest token at " + std::to_string(t));
    }
  }
  if (file.contains("greedy_tokens")) {
    const auto greedy = file["greedy_tokens"].get<std::vector<Token>>();
    const rotorlin::Matrix<float> along = model.logits(greedy);
    const auto prompt = tokenizer.encode(file.value("greedy_prompt", ""));
    report.expect(std::equal(prompt.begin(), prompt.end(), greedy.begin()), "tokens of the prompt");
    for (std::size_t t = prompt.size(); t < greedy.size(); ++t) {
      Index likeliest = 0;
      along.col(static_cast<Index>(t) - 1).maxCoeff(&likeliest);
      report.expect(likeliest == Index{greedy[t]}, "greedy token " + std::to_string(t));
    }
  }
  if (file.contains("cal_tokens"))
    report.expect(calibration.size() == file["cal_tokens"].get<std::size_t>(), "calibration tokens");
  if (file.contains("eval_tokens"))
    report.expect(evaluation.size() == file["eval_tokens"].get<std::size_t>(), "evaluation tokens");
  if (file.contains("eval_first2_windows_ce")) {
    const auto expected = numbers<double>(file["eval_first2_windows_ce"]);
    const examples::Windows windows(model, evaluation, expected.size());
    for (Index j = 0; j < windows.count(); ++j) {
      const double sum =
          examples::negative_log_likelihood(model.logits(windows.inputs(j)), windows.targets(j));
      report.compare("cross-entropy of window " + std::to_string(j),
                     sum / static_cast<double>(windows.length()), expected[j], 1e-5);
    }
  }
#if defined(__OPTIMIZE__)  // a minute without
  if (file.contains("eval_ce_79x256")) {
    report.compare("cross-entropy", examples::cross_entropy(model, evaluation),
                   file["eval_ce_79x256"].get<double>(), 1e-5);
  }
#endif
  if (file.contains("gram_4windows")) check_grams(file["gram_4windows"], model, calibration, report);
}

}  // namespace golden::llama
