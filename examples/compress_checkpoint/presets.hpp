// SPDX-License-Identifier: MIT
/// \file
/// Which tensors of a checkpoint are compressed: patterns of names, given or known for an architecture, and
/// on which side of a stored matrix its inputs stand.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

namespace examples {

/// How a weight is stored: out x in as by PyTorch's nn.Linear, or in x out as by GPT-2's Conv1D.
enum class Orientation { unknown, linear, transposed };

/// Tensors that are compressed: `name`, where a * stands for a number (of the layer, of the expert); what is
/// the same for the same place in every layer; the layer whose inputs serve where there are none under the
/// tensor's own name, with as many *.
struct NamePattern {
  std::string name, type, reads;
  Orientation orientation = Orientation::unknown;
};

/// "NAME:TYPE[:READS][:linear|:transposed]". \throws std::invalid_argument on anything else.
inline NamePattern parse_pattern(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  NamePattern pattern;
  if (parts.size() > 2 && (parts.back() == "linear" || parts.back() == "transposed")) {
    pattern.orientation = parts.back() == "linear" ? Orientation::linear : Orientation::transposed;
    parts.pop_back();
  }
  const bool empty =
      std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
  if (parts.size() < 2 || parts.size() > 3 || empty) {
    rotorlin::detail::throw_invalid(
        "'", text,
        "': expected NAME:TYPE or NAME:TYPE:READS, * for numbers, and behind that "
        ":linear or :transposed where the shape does not say it");
  }
  pattern.name = parts[0];
  pattern.type = parts[1];
  if (parts.size() == 3) {
    pattern.reads = parts[2];
    if (std::count(pattern.reads.begin(), pattern.reads.end(), '*') >
        std::count(pattern.name.begin(), pattern.name.end(), '*'))
      rotorlin::detail::throw_invalid("'", text, "': READS has more * than NAME");
  }
  return pattern;
}

/// The numbers that stand for the * of a pattern in a name; nullopt where the name is another.
inline std::optional<std::vector<std::string>> match(const std::string& pattern, const std::string& name) {
  std::vector<std::string> numbers;
  if (pattern == name) return numbers;
  std::size_t at = 0;
  for (const char c : pattern) {
    if (c != '*') {
      if (at == name.size() || name[at++] != c) return std::nullopt;
      continue;
    }
    const std::size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
    if (end == at || end - at > 9) return std::nullopt;
    numbers.push_back(name.substr(at, end - at));
    at = end;
  }
  return at == name.size() ? std::optional(numbers) : std::nullopt;
}

/// The same numbers in another pattern, from the left.
inline std::string filled(const std::string& pattern, const std::vector<std::string>& numbers) {
  std::string text;
  std::size_t used = 0;
  for (const char c : pattern) {
    if (c == '*' && used < numbers.size()) {
      text += numbers[used++];
    } else {
      text += c;
    }
  }
  return text;
}

/// The names of an architecture.
struct Preset {
  std::string name;
  std::vector<std::string> model_types;  ///< that have them, as in config.json
  std::vector<NamePattern> patterns;
};

namespace detail {

/// Every projection under every prefix. A projection is its module's name, its type, and the module whose
/// inputs it shares.
inline std::vector<NamePattern> under(const std::vector<std::string>& prefixes, Orientation orientation,
                                      const std::vector<NamePattern>& projections) {
  std::vector<NamePattern> patterns;
  for (const std::string& prefix : prefixes) {
    for (const auto& [name, type, reads, ignored] : projections)
      patterns.push_back(
          {prefix + name + ".weight", type, prefix + (reads.empty() ? name : reads), orientation});
  }
  return patterns;
}

}  // namespace detail

inline const std::vector<Preset>& presets() {
  using detail::under;
  static const std::vector<Preset> all = {
      {"llama",
       {"llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2",
        "gemma3", "gemma3_text", "phi3", "stablelm", "olmo", "olmo2", "granite", "cohere"},
       under({"model.layers.*.", "layers.*.", "language_model.model.layers.*.",
              "model.language_model.layers.*."},
             Orientation::linear,
             {{"self_attn.q_proj", "q", ""},
              {"self_attn.k_proj", "k", "self_attn.q_proj"},
              {"self_attn.v_proj", "v", "self_attn.q_proj"},
              {"self_attn.qkv_proj", "qkv", ""},
              {"self_attn.o_proj", "o", ""},
              {"mlp.gate_proj", "gate", ""},
              {"mlp.up_proj", "up", "mlp.gate_proj"},
              {"mlp.gate_up_proj", "gate_up", ""},
              {"mlp.down_proj", "down", ""},
              {"block_sparse_moe.experts.*.w1", "gate", ""},
              {"block_sparse_moe.experts.*.w3", "up", "block_sparse_moe.experts.*.w1"},
              {"block_sparse_moe.experts.*.w2", "down", ""},
              {"mlp.experts.*.gate_proj", "gate", ""},
              {"mlp.experts.*.up_proj", "up", "mlp.experts.*.gate_proj"},
              {"mlp.experts.*.down_proj", "down", ""},
              {"mlp.shared_expert.gate_proj", "shared_gate", ""},
              {"mlp.shared_expert.up_proj", "shared_up", "mlp.shared_expert.gate_proj"},
              {"mlp.shared_expert.down_proj", "shared_down", ""}})},
      {"gpt2",
       {"gpt2", "openai-gpt"},
       under({"h.*.", "transformer.h.*."}, Orientation::transposed,
             {{"attn.c_attn", "c_attn", ""},
              {"attn.c_proj", "attn_c_proj", ""},
              {"mlp.c_fc", "c_fc", ""},
              {"mlp.c_proj", "mlp_c_proj", ""}})},
      {"opt",
       {"opt"},
       under({"model.decoder.layers.*.", "decoder.layers.*."}, Orientation::linear,
             {{"self_attn.q_proj", "q", ""},
              {"self_attn.k_proj", "k", "self_attn.q_proj"},
              {"self_attn.v_proj", "v", "self_attn.q_proj"},
              {"self_attn.out_proj", "out", ""},
              {"fc1", "fc1", ""},
              {"fc2", "fc2", ""}})},
      {"bert",
       {"bert", "roberta", "xlm-roberta", "camembert", "electra"},
       under({"bert.encoder.layer.*.", "encoder.layer.*.", "roberta.encoder.layer.*.",
              "electra.encoder.layer.*."},
             Orientation::linear,
             {{"attention.self.query", "query", ""},
              {"attention.self.key", "key", "attention.self.query"},
              {"attention.self.value", "value", "attention.self.query"},
              {"attention.output.dense", "attention_output", ""},
              {"intermediate.dense", "intermediate", ""},
              {"output.dense", "output", ""}})}};
  return all;
}

/// "llama, gpt2, opt, bert".
inline std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) names += (names.empty() ? "" : ", ") + preset.name;
  return names;
}

/// \throws std::invalid_argument, listing those that there are.
inline const Preset& preset_named(const std::string& name) {
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
  }
  rotorlin::detail::throw_invalid("'", name, "' is not one of ", preset_names());
}

/// The first pattern that a name matches, or nullptr.
inline const NamePattern* find_pattern(const std::vector<NamePattern>& patterns, const std::string& name) {
  const auto found = std::find_if(patterns.begin(), patterns.end(),
                                  [&](const NamePattern& p) { return match(p.name, name).has_value(); });
  return found == patterns.end() ? nullptr : &*found;
}

/// The preset whose names a checkpoint has, for a hint: names alone don't say how a matrix is stored.
template <class Names>
std::string preset_resembling(const Names& names) {
  for (const Preset& preset : presets()) {
    for (const auto& [name, ignored] : names) {
      if (find_pattern(preset.patterns, name) != nullptr) return preset.name;
    }
  }
  return "";
}

/// "model_type" of a config.json; empty where there is no such file, or none in it. \throws
/// std::runtime_error, naming the file, where it is not a JSON object or model_type is no text.
inline std::string read_model_type(const std::filesystem::path& config) {
  if (!std::filesystem::exists(config)) return "";
  const auto fail = [&](const auto&... what) {
    rotorlin::detail::throw_runtime(config.string(), " ", what...);
  };
  constexpr std::uintmax_t most = 16 << 20;
  if (!std::filesystem::is_regular_file(config) || std::filesystem::file_size(config) > most)
    fail("is no file of less than ", most, " bytes");
  std::ifstream file(config, std::ios::binary);
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(file);
  } catch (const std::exception& error) {
    fail("is not valid JSON: ", error.what());
  }
  if (!json.is_object()) fail("is no JSON object");
  if (!json.contains("model_type")) return "";
  if (!json["model_type"].is_string()) fail("has a model_type that is no text: ", json["model_type"].dump());
  return json["model_type"].get<std::string>();
}

/// Whether a weight of the given shape lies in x out in its file. `features`: of what it reads. `stated`:
/// what its pattern or the preset says of it. \throws std::runtime_error, naming the tensor, where features
/// and shape disagree, or where a square matrix comes without a statement: that is never guessed.
inline bool is_transposed(const std::string& tensor, rotorlin::Index rows, rotorlin::Index cols,
                          rotorlin::Index features, Orientation stated) {
  using rotorlin::detail::throw_runtime;
  const bool fits_linear = cols == features, fits_transposed = rows == features;
  if (!fits_linear && !fits_transposed) {
    throw_runtime("tensor '", tensor, "' is ", rows, " x ", cols, ", but what it reads has ", features,
                  " features; are these the inputs of this layer?");
  }
  if (stated == Orientation::unknown && fits_linear && fits_transposed) {
    throw_runtime(
        "tensor '", tensor, "' is square, ", rows, " x ", cols,
        ": its shape does not say whether it is stored out x in, as by nn.Linear, or in x out, as by ",
        "GPT-2's Conv1D; add :linear or :transposed to its --pattern, or name a --preset (", preset_names(),
        ")");
  }
  if (stated == Orientation::linear && !fits_linear) {
    throw_runtime(
        "tensor '", tensor, "' is ", rows, " x ", cols, " and reads ", features,
        " features, but is said to be stored out x in; it fits as in x out (GPT-2's Conv1D): mark its ",
        "--pattern with :transposed, or use --preset gpt2 where that is what it is");
  }
  if (stated == Orientation::transposed && !fits_transposed) {
    throw_runtime(
        "tensor '", tensor, "' is ", rows, " x ", cols, " and reads ", features,
        " features, but is said to be stored transposed, in x out; it fits as out x in (nn.Linear): ",
        "mark its --pattern with :linear, or name another --preset");
  }
  return stated == Orientation::unknown ? !fits_linear : stated == Orientation::transposed;
}

}  // namespace examples
