// SPDX-License-Identifier: MIT
#include "compress_checkpoint/llama_folder.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/llama_folder.hpp"

using namespace examples;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

Llama random_model(bool tied, Index kv_heads, double theta = 10000, double epsilon = 1e-5,
                   RotaryPairs pairs = RotaryPairs::adjacent) {
  Llama model({.dim = 24,
               .hidden = 20,
               .layers = 3,
               .heads = 4,
               .kv_heads = kv_heads,
               .vocabulary = 40,
               .sequence = 12,
               .tied = tied,
               .norm_epsilon = epsilon,
               .rope_theta = theta,
               .rotary_pairs = pairs});
  rotorlin::Random random(5);
  random.fill_uniform(model.embedding(), -1, 1);
  if (!tied) random.fill_uniform(model.classifier(), -1, 1);
  random.fill_uniform(model.final_norm(), 0.5, 1.5);
  for (Index l = 0; l < 3; ++l) {
    random.fill_uniform(model.attention_norm(l), 0.5, 1.5);
    random.fill_uniform(model.ffn_norm(l), 0.5, 1.5);
    for (const Projection p : all_projections) random.fill_uniform(model.weight(p, l), -1, 1);
  }
  return model;
}

const std::vector<Token> some_tokens = {1, 39, 17, 17, 5, 26, 3, 0, 11};

double difference(const Matrix<float>& a, const Matrix<float>& b) {
  return (a - b).cwiseAbs().maxCoeff() / b.cwiseAbs().maxCoeff();
}

Matrix<float> logits_of(const fs::path& folder) {
  const CheckpointFiles files(folder);
  return LlamaFolder(files, files.config()).logits(some_tokens);
}

// Rotary embedding as transformers defines it: x cos + rotate_half(x) sin, theta^(-2 i / size) for feature i
// of both halves. The whole attention in double, a token after another.
Matrix<double> attention_by_definition(const Llama& model, const Matrix<float>& x) {
  const LlamaConfig& c = model.config();
  const Index size = c.head_size(), half = size / 2;
  const auto projected = [&](Projection p) {
    return Matrix<double>(model.weight(p, 0).cast<double>() * x.cast<double>());
  };
  const auto turned = [&](Matrix<double> m) {
    Matrix<double> result(m.rows(), m.cols());
    for (Index t = 0; t < m.cols(); ++t) {
      for (Index row = 0; row < m.rows(); ++row) {
        const Index i = row % size, base = row - i;
        const double angle =
            static_cast<double>(t) *
            std::pow(c.rope_theta, -2.0 * static_cast<double>(i % half) / static_cast<double>(size));
        const double rotated = i < half ? -m(base + i + half, t) : m(base + i - half, t);
        result(row, t) = m(row, t) * std::cos(angle) + rotated * std::sin(angle);
      }
    }
    return result;
  };
  const Matrix<double> q = turned(projected(Projection::q)), k = turned(projected(Projection::k)),
                       v = projected(Projection::v);
  Matrix<double> heads = Matrix<double>::Zero(c.dim, x.cols());
  for (Index head = 0; head < c.heads; ++head) {
    const Index kv = head / (c.heads / c.kv_heads);
    for (Index t = 0; t < x.cols(); ++t) {
      Eigen::VectorXd weights(t + 1);
      for (Index s = 0; s <= t; ++s)
        weights[s] = std::exp(q.col(t).segment(head * size, size).dot(k.col(s).segment(kv * size, size)) /
                              std::sqrt(static_cast<double>(size)));
      weights /= weights.sum();
      for (Index s = 0; s <= t; ++s)
        heads.col(t).segment(head * size, size) += weights[s] * v.col(s).segment(kv * size, size);
    }
  }
  return model.weight(Projection::o, 0).cast<double>() * heads;
}

}  // namespace

TEST_CASE("A folder of Hugging Face's gives the logits of the same model in llama2.c's form") {
  for (const bool tied : {true, false}) {
    for (const Index kv_heads : {1, 2, 4}) {
      const test::TemporaryFolder folder;
      Llama model = random_model(tied, kv_heads);
      const Matrix<float> expected = model.logits(some_tokens);
      test::write_llama_folder<float>(folder / "whole", model);
      CHECK(difference(logits_of(folder / "whole"), expected) < 1e-5);
      test::write_llama_folder<float>(folder / "shards", model, 3);
      CHECK(logits_of(folder / "shards") == logits_of(folder / "whole"));
      test::write_llama_folder<Eigen::half>(folder / "f16", model);
      CHECK(difference(logits_of(folder / "f16"), expected) < 0.02);
      test::write_llama_folder<Eigen::bfloat16>(folder / "bf16", model, 2);
      const double bf16 = difference(logits_of(folder / "bf16"), expected);
      CHECK((bf16 > 1e-4 && bf16 < 0.1));
    }
  }
}

TEST_CASE("Theta and epsilon are those of config.json, and halves turn as transformers defines it") {
  const test::TemporaryFolder folder;
  Llama model = random_model(false, 2, 500, 1e-2, RotaryPairs::halves);
  test::write_llama_folder<float>(folder / "a", model);
  const CheckpointFiles files(folder / "a");
  const LlamaFolder read(files, files.config());
  CHECK(read.config().rope_theta == 500);
  CHECK(read.config().norm_epsilon == 1e-2);
  CHECK(read.logits(some_tokens) == model.logits(some_tokens));
  CHECK_THROWS_WITH(model.save(folder / "a.bin"), Contains("rope_theta = 500"));

  // attention alone: without a feed-forward part, what a layer adds to h is its output
  model.weight(Projection::w2, 0).setZero();
  const Matrix<float> before = model.embed(some_tokens);
  Matrix<float> x = before, h = before;
  for (Index t = 0; t < h.cols(); ++t) {
    const double scale = 1 / std::sqrt(before.col(t).cast<double>().squaredNorm() / 24 + 1e-2);
    x.col(t) =
        (before.col(t).cast<double>() * scale).cast<float>().cwiseProduct(model.attention_norm(0).col(0));
  }
  model.apply_layer(0, h);
  const Matrix<double> attention = attention_by_definition(model, x);
  CHECK(((h - before).cast<double>() - attention).cwiseAbs().maxCoeff() <
        1e-5 * attention.cwiseAbs().maxCoeff());
}

TEST_CASE("Layers that are read one by one predict, and are seen, as a whole model") {
  const test::TemporaryFolder folder;
  Llama model = random_model(true, 2);
  test::write_llama_folder<float>(folder / "a", model);
  const CheckpointFiles files(folder / "a");
  LlamaFolder read(files, files.config());
  std::vector<Token> tokens(200);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>((i * i + 3 * i) % 40);
  CHECK(cross_entropy(read, tokens, 5) == Approx(cross_entropy(model, tokens, 5)).margin(1e-5));
  std::vector<Matrix<double>> whole, single;
  const Windows windows(model, tokens, 4);
  for_each_gram(model, windows, [&](Index, Projection, const Matrix<double>& m) { whole.push_back(m); });
  for_each_gram(read, windows, [&](Index, Projection, const Matrix<double>& m) { single.push_back(m); });
  REQUIRE(single.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    CHECK((single[i] - whole[i]).norm() < 1e-5 * whole[i].norm());

  // other weights
  Llama other = model;
  other.weight(Projection::w3, 1) *= 2;
  read.replace([&](Projection p, Index l) {
    return p == Projection::w3 && l == 1 ? other.weight(p, l) : Matrix<float>();
  });
  CHECK(difference(read.logits(some_tokens), other.logits(some_tokens)) < 1e-5);
  CHECK(difference(read.logits(some_tokens), model.logits(some_tokens)) > 1e-3);
  read.replace([](Projection, Index) { return Matrix<float>(Matrix<float>::Zero(2, 3)); });
  CHECK_THROWS_WITH(read.logits(some_tokens), Contains("is replaced by 2 x 3"));
  read.replace({});
  CHECK(difference(read.logits(some_tokens), model.logits(some_tokens)) < 1e-5);
}

TEST_CASE("Configurations of another arithmetic are refused by name") {
  const nlohmann::json good = test::llama_config_json(random_model(true, 2).config());
  const LlamaConfig config = parse_llama_config(good.dump());
  CHECK(config.kv_heads == 2);
  CHECK(config.sequence == 12);
  const auto refuses = [&](const nlohmann::json& changes, const std::string& reason) {
    nlohmann::json changed = good;
    changed.update(changes);
    INFO(changes.dump());
    CHECK_THROWS_WITH(parse_llama_config(changed.dump()), Contains(reason));
  };
  const auto takes = [&](const nlohmann::json& changes) {
    nlohmann::json changed = good;
    changed.update(changes);
    return parse_llama_config(changed.dump());
  };
  for (const char* type : {"gemma", "qwen2", "gpt2", ""}) refuses({{"model_type", type}}, "model_type");
  refuses({{"model_type", 3}}, "model_type is 3");
  refuses({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}, "has rope_scaling = {");
  refuses({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}}, "rope_scaling");
  refuses({{"rope_scaling", "yarn"}}, "no JSON object");
  refuses({{"rope_parameters", {{"rope_type", "yarn"}}}}, "rope_parameters");
  refuses({{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}},
          "rope_parameters");
  refuses({{"attention_bias", true}}, "attention_bias");
  refuses({{"mlp_bias", true}}, "mlp_bias");
  refuses({{"hidden_act", "gelu"}}, "hidden_act");
  refuses({{"quantization_config", {{"bits", 4}}}}, "quantization_config");
  refuses({{"head_dim", 8}}, "head_dim = 8");
  refuses({{"num_attention_heads", 5}}, "heads = 5");
  refuses({{"num_attention_heads", 0}}, "heads = 0");
  refuses({{"num_key_value_heads", 3}}, "key and value heads = 3");
  refuses({{"num_attention_heads", 24}}, "even number of features");
  refuses({{"hidden_size", -24}}, "hidden_size is -24");
  refuses({{"hidden_size", 1e30}}, "hidden_size is");
  refuses({{"hidden_size", 1099511627777}}, "hidden_size is");
  refuses({{"hidden_size", nullptr}}, "has no hidden_size");
  refuses({{"vocab_size", 128256}}, "vocabulary at most 65536");
  refuses({{"rms_norm_eps", 0}}, "norm_epsilon = 0");
  refuses({{"rms_norm_eps", "1e-5"}}, "expected a number");
  refuses({{"rope_theta", -5}}, "rope_theta = -5");
  refuses({{"tie_word_embeddings", 1}}, "expected true or false");
  CHECK_THROWS_WITH(parse_llama_config("[]"), Contains("no JSON object"));
  CHECK_THROWS_WITH(parse_llama_config("{"), Contains("is not valid JSON"));
  CHECK_THROWS_WITH(parse_llama_config("{\"a\":1,\"a\":1}"), Contains("stands twice"));

  CHECK(takes({{"model_type", "mistral"}, {"sliding_window", 8}}).sequence == 8);
  CHECK(takes({{"max_position_embeddings", 1048576}}).sequence == 4096);
  CHECK(takes({{"num_key_value_heads", nullptr}}).kv_heads == 4);
  CHECK(takes({{"head_dim", 6}}).head_size() == 6);
  CHECK(takes({{"rope_theta", nullptr}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7e4}}}})
            .rope_theta == 7e4);
}

TEST_CASE("Folders that lie are refused before they take memory") {
  const test::TemporaryFolder folder;
  Llama model = random_model(false, 2);
  const auto refuses = [&](const std::string& reason) {
    CHECK_THROWS_WITH(logits_of(folder / "a"), Contains(reason));
    fs::remove_all(folder / "a");
  };
  for (const char* tensor : {"lm_head.weight", "model.norm.weight", "model.layers.1.self_attn.k_proj.weight",
                             "model.layers.2.post_attention_layernorm.weight"}) {
    test::write_llama_folder<float>(folder / "a", model, 1,
                                    [&](const std::string& n) { return n != tensor; });
    refuses("tensor '" + std::string(tensor) + "' is missing");
  }
  test::write_llama_folder<float>(folder / "a", model);
  fs::remove(folder / "a" / "config.json");
  refuses("config.json is needed");
  test::write_llama_folder<float>(folder / "a", model);
  fs::remove(folder / "a" / "config.json");
  fs::create_directory(folder / "a" / "config.json");
  refuses("config.json is needed");

  const auto with_config = [&](const nlohmann::json& changes) {
    test::write_llama_folder<float>(folder / "a", model);
    nlohmann::json config = test::llama_config_json(model.config());
    config.update(changes);
    test::write_bytes(folder / "a" / "config.json", config.dump());
  };
  with_config({{"num_hidden_layers", 4}});
  refuses("'model.layers.3.self_attn.q_proj.weight' is missing; config.json announces a Llama of 4 layers");
  with_config({{"num_hidden_layers", 262144}});
  refuses("'model.layers.3.self_attn.q_proj.weight' is missing");
  with_config({{"num_hidden_layers", 2}});
  refuses("is none of a Llama of 2 layers");
  with_config({{"num_key_value_heads", 4}});
  refuses("'model.layers.0.self_attn.k_proj.weight' has shape [12, 24], expected [24, 24]");
  with_config({{"vocab_size", 65536}, {"hidden_size", 262144}, {"num_attention_heads", 4}});
  refuses("'model.embed_tokens.weight' has shape [40, 24]");

  model.weight(Projection::v, 1)(3, 4) = std::nanf("");
  test::write_llama_folder<float>(folder / "a", model);
  refuses("'model.layers.1.self_attn.v_proj.weight' has NaN or infinite entries");
}

TEST_CASE("real checkpoints: stories260K in Hugging Face's form") {
  const char* data = std::getenv("ROTORLIN_TEST_DATA");
  if (data == nullptr) {
    std::cout << "skipped: stories260K in Hugging Face's form (ROTORLIN_TEST_DATA is not set)\n";
    return;
  }
  Llama model = Llama::load(fs::path(data) / "stories260K.bin");
  const test::TemporaryFolder folder;
  test::write_llama_folder<float>(folder / "a", model, 2);
  const CheckpointFiles files(folder / "a");
  const LlamaFolder read(files, files.config());
  const auto evaluation = read_tokens(fs::path(data) / "tinystories_evaluation.u16");
  const Windows windows(model, evaluation, 2);
  for (Index j = 0; j < windows.count(); ++j)
    CHECK((read.logits(windows.inputs(j)) - model.logits(windows.inputs(j))).cwiseAbs().maxCoeff() < 1e-4);
  CHECK(cross_entropy(read, evaluation) == Approx(cross_entropy(model, evaluation)).margin(1e-5));
  CHECK(cross_entropy(read, evaluation) == Approx(1.3969).margin(5e-5));

  test::write_llama_folder<Eigen::bfloat16>(folder / "bf16", model);
  const CheckpointFiles rounded(folder / "bf16");
  CHECK(cross_entropy(LlamaFolder(rounded, rounded.config()), evaluation) == Approx(1.397).margin(0.005));
}
