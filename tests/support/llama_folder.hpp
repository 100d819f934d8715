// SPDX-License-Identifier: MIT
// Llama models written as Hugging Face's transformers would: the way that convert_llama_weights_to_hf.py
// goes.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/llama.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "support/temporary_folder.hpp"

namespace test {

/// Rows of each head from adjacent pairs (2 i, 2 i + 1) to halves (i, pairs + i).
inline rotorlin::Matrix<float> halved(const rotorlin::Matrix<float>& weight, rotorlin::Index head_size) {
  rotorlin::Matrix<float> result(weight.rows(), weight.cols());
  const rotorlin::Index pairs = head_size / 2;
  for (rotorlin::Index row = 0; row < weight.rows(); ++row) {
    const rotorlin::Index head = row / head_size, within = row % head_size;
    result.row(head * head_size + within % 2 * pairs + within / 2) = weight.row(row);
  }
  return result;
}

inline nlohmann::json llama_config_json(const examples::LlamaConfig& c) {
  return {{"model_type", "llama"},          {"hidden_size", c.dim},
          {"intermediate_size", c.hidden},  {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads}, {"num_key_value_heads", c.kv_heads},
          {"vocab_size", c.vocabulary},     {"max_position_embeddings", c.sequence},
          {"tie_word_embeddings", c.tied},  {"rms_norm_eps", c.norm_epsilon},
          {"rope_theta", c.rope_theta},     {"rope_scaling", nullptr},
          {"hidden_act", "silu"},           {"attention_bias", false}};
}

/// A new folder with config.json and model.safetensors, or as many shards and their index. `Stored` is float,
/// Eigen::half or Eigen::bfloat16; a tensor that `keep` refuses is left out.
template <class Stored>
void write_llama_folder(
    const std::filesystem::path& folder, examples::Llama& model, std::size_t shards = 1,
    const std::function<bool(const std::string&)>& keep = [](const std::string&) { return true; }) {
  using examples::Projection;
  const examples::LlamaConfig& c = model.config();
  std::filesystem::create_directories(folder);
  std::vector<rotorlin::SafetensorsWriter> writers(shards);
  nlohmann::json index{{"metadata", nlohmann::json::object()}, {"weight_map", nlohmann::json::object()}};
  const auto file = [&](std::size_t shard) {
    return shards == 1 ? std::string("model.safetensors")
                       : "model-0000" + std::to_string(shard + 1) + "-of-0000" + std::to_string(shards) +
                             ".safetensors";
  };
  std::size_t next = 0;
  const auto add = [&](const std::string& name, const auto& values) {
    if (!keep(name)) return;
    index["weight_map"][name] = file(next % shards);
    writers[next++ % shards].add(name, values.template cast<Stored>());
  };
  add("model.embed_tokens.weight", rotorlin::Matrix<float>(model.embedding().transpose()));
  if (!c.tied) add("lm_head.weight", rotorlin::Matrix<float>(model.classifier().transpose()));
  add("model.norm.weight", model.final_norm().col(0));
  for (rotorlin::Index l = 0; l < c.layers; ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + ".";
    const auto turned = [&](Projection p) {
      return c.rotary_pairs == examples::RotaryPairs::halves ? model.weight(p, l)
                                                             : halved(model.weight(p, l), c.head_size());
    };
    add(layer + "self_attn.q_proj.weight", turned(Projection::q));
    add(layer + "self_attn.k_proj.weight", turned(Projection::k));
    add(layer + "self_attn.v_proj.weight", model.weight(Projection::v, l));
    add(layer + "self_attn.o_proj.weight", model.weight(Projection::o, l));
    add(layer + "mlp.gate_proj.weight", model.weight(Projection::w1, l));
    add(layer + "mlp.up_proj.weight", model.weight(Projection::w3, l));
    add(layer + "mlp.down_proj.weight", model.weight(Projection::w2, l));
    add(layer + "input_layernorm.weight", model.attention_norm(l).col(0));
    add(layer + "post_attention_layernorm.weight", model.ffn_norm(l).col(0));
  }
  for (std::size_t s = 0; s < shards; ++s) writers[s].write(folder / file(s));
  if (shards > 1) write_bytes(folder / "model.safetensors.index.json", index.dump());
  write_bytes(folder / "config.json", llama_config_json(c).dump(2));
}

}  // namespace test
