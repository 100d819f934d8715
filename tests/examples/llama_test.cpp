// SPDX-License-Identifier: MIT
#include "common/llama.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

using namespace examples;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

LlamaConfig small(bool tied) {
  return {.dim = 8,
          .hidden = 12,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .vocabulary = 300,
          .sequence = 10,
          .tied = tied};
}

Llama random_model(const LlamaConfig& config, std::uint64_t seed = 1) {
  Llama model(config);
  rotorlin::Random random(seed);
  random.fill_uniform(model.embedding(), -1, 1);
  if (!config.tied) random.fill_uniform(model.classifier(), -1, 1);
  for (Index l = 0; l < config.layers; ++l) {
    for (const Projection p : all_projections) random.fill_uniform(model.weight(p, l), -1, 1);
  }
  return model;
}

const std::vector<Token> some_tokens = {1, 299, 17, 17, 5, 260, 3};

void append(std::string& bytes, auto value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The special tokens, all bytes, then " ", "a", "b", "ab", " a", "aba" with growing joy in joining.
std::string small_tokenizer() {
  std::string bytes;
  append(bytes, std::int32_t{3});
  const auto add = [&](float score, const std::string& text) {
    append(bytes, score);
    append(bytes, static_cast<std::int32_t>(text.size()));
    bytes += text;
  };
  for (const char* special : {"<unk>", "\n<s>\n", "\n</s>\n"}) add(0, special);
  for (int i = 0; i < 256; ++i) add(0, format("<0x%02X>", i));
  float score = -10;
  for (const char* text : {" ", "a", "b", "ab", " a", "aba", "é"}) add(score += 1, text);
  return bytes;
}

/// The folder with real checkpoints, or an empty path and a line that says why nothing is tested.
fs::path real_data(const char* what) {
  const char* folder = std::getenv("ROTORLIN_TEST_DATA");
  if (folder == nullptr) std::cout << "skipped: " << what << " (ROTORLIN_TEST_DATA is not set)\n";
  return folder == nullptr ? fs::path() : fs::path(folder);
}

// The forward pass by its definition: loops in double precision, one token after another.
Eigen::MatrixXd logits_by_definition(const Llama& model, const std::vector<Token>& tokens) {
  const LlamaConfig& c = model.config();
  const auto w = [&](Projection p, Index l) { return model.weight(p, l).cast<double>().eval(); };
  const auto norm = [](const Eigen::VectorXd& x) {
    return (x / std::sqrt(x.squaredNorm() / static_cast<double>(x.size()) + 1e-5)).eval();
  };
  const auto rotated = [&](Eigen::VectorXd x, Index position) {
    for (Index i = 0; i < x.size(); i += 2) {
      const double angle =
          static_cast<double>(position) *
          std::pow(10000, -static_cast<double>(i % c.head_size()) / static_cast<double>(c.head_size()));
      const double a = x[i], b = x[i + 1];
      x[i] = a * std::cos(angle) - b * std::sin(angle);
      x[i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
    return x;
  };
  const auto n = static_cast<Index>(tokens.size());
  Eigen::MatrixXd logits(c.vocabulary, n);
  std::vector<std::vector<Eigen::VectorXd>> keys(2), values(2);
  const Eigen::MatrixXd classifier = model.classifier().cast<double>();
  for (Index t = 0; t < n; ++t) {
    Eigen::VectorXd h =
        const_cast<Llama&>(model).embedding().col(tokens[static_cast<std::size_t>(t)]).cast<double>();
    for (Index l = 0; l < c.layers; ++l) {
      const auto at = static_cast<std::size_t>(l);
      Eigen::VectorXd x = norm(h);
      const Eigen::VectorXd q = rotated(w(Projection::q, l) * x, t);
      keys[at].push_back(rotated(w(Projection::k, l) * x, t));
      values[at].push_back(w(Projection::v, l) * x);
      Eigen::VectorXd heads = Eigen::VectorXd::Zero(c.dim);
      for (Index head = 0; head < c.heads; ++head) {
        const Index group = head * c.kv_heads / c.heads, size = c.head_size();
        double total = 0;
        for (std::size_t s = 0; s < keys[at].size(); ++s) {
          const double weight =
              std::exp(q.segment(head * size, size).dot(keys[at][s].segment(group * size, size)) /
                       std::sqrt(static_cast<double>(size)));
          total += weight;
          heads.segment(head * size, size) += weight * values[at][s].segment(group * size, size);
        }
        heads.segment(head * size, size) /= total;
      }
      h += w(Projection::o, l) * heads;
      x = norm(h);
      const Eigen::ArrayXd gate = w(Projection::w1, l) * x, up = w(Projection::w3, l) * x;
      h += w(Projection::w2, l) * (gate / (1 + (-gate).exp()) * up).matrix();
    }
    logits.col(t) = classifier.transpose() * norm(h);
  }
  return logits;
}

}  // namespace

TEST_CASE("the forward pass follows its definition") {
  for (const bool tied : {true, false}) {
    const Llama model = random_model(small(tied));
    const Eigen::MatrixXd expected = logits_by_definition(model, some_tokens);
    CHECK((model.logits(some_tokens).cast<double>() - expected).norm() < 1e-5 * expected.norm());
  }
}

TEST_CASE("checkpoints come back as they were saved") {
  const test::TemporaryFolder folder;
  for (const bool tied : {true, false}) {
    const Llama model = random_model(small(tied));
    model.save(folder / "a.bin");
    const Llama again = Llama::load(folder / "a.bin");
    again.save(folder / "b.bin");
    CHECK(again.config().tied == tied);
    CHECK(again.logits(some_tokens) == model.logits(some_tokens));
    CHECK(test::read_bytes(folder / "a.bin") == test::read_bytes(folder / "b.bin"));
  }
}

TEST_CASE("checkpoints that lie are refused") {
  const test::TemporaryFolder folder;
  const auto path = folder / "model.bin";
  random_model(small(true)).save(path);
  const std::string good = test::read_bytes(path);
  const auto refuses = [&](const std::string& bytes, const std::string& reason) {
    test::write_bytes(path, bytes);
    CHECK_THROWS_WITH(Llama::load(path), Contains(reason) && Contains("model.bin"));
  };
  const auto with = [&](std::size_t entry, std::int32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 4 * entry, &value, 4);
    return bytes;
  };
  CHECK_THROWS_WITH(Llama::load(folder / "nothing"), Contains("can't be opened"));
  refuses("", "within its header");
  refuses(good.substr(0, good.size() - 4), "bytes, expected " + std::to_string(good.size()));
  refuses(good + "x", std::to_string(good.size() + 1) + " bytes");
  refuses(with(0, 0), "dim = 0");
  refuses(with(0, 9), "even number");
  refuses(with(4, 3), "key and value heads = 3");
  refuses(with(1, -5), "hidden = -5");
  refuses(with(2, 1 << 30), "layers");
  refuses(with(5, -300), "bytes, expected");  // announces a classifier that is not there
  refuses(with(5, std::numeric_limits<std::int32_t>::min()), "vocabulary");
  refuses(with(0, 0x616b3432), "version");
  std::string nan = good;
  const float value = std::nanf("");
  std::memcpy(nan.data() + 28 + 4 * 300 * 8, &value, 4);
  refuses(nan, "attention norm");
}

TEST_CASE("projections are observed, replaced and restored") {
  Llama model = random_model(small(true));
  const Matrix<float> before = model.logits(some_tokens);

  std::vector<std::string> seen;
  const auto observer = [&](Index layer, Projection p, const ConstMatrixRef<float>& x) {
    seen.push_back(std::to_string(layer) + name(p));
    CHECK(x.rows() == model.in_features(p));
    CHECK(x.cols() == static_cast<Index>(some_tokens.size()));
  };
  CHECK(model.logits(some_tokens, observer) == before);
  CHECK(seen == std::vector<std::string>{"0q", "0k", "0v", "0o", "0w1", "0w3", "0w2",  //
                                         "1q", "1k", "1v", "1o", "1w1", "1w3", "1w2"});

  const Matrix<float> weight = 2 * model.weight(Projection::v, 1);
  model.replace(1, Projection::v,
                [weight](const ConstMatrixRef<float>& x, MatrixRef<float> y) { y.noalias() = weight * x; });
  const Llama copy = model;
  const Matrix<float> replaced = model.logits(some_tokens);
  CHECK((replaced - before).norm() > 1e-3f * before.norm());
  CHECK(copy.logits(some_tokens) == replaced);
  const test::TemporaryFolder folder;
  CHECK_THROWS_WITH(model.save(folder / "x"), Contains("projection v of layer 1"));
  model.restore();
  CHECK(model.logits(some_tokens) == before);
  model.weight(Projection::v, 1) = weight;
  CHECK((model.logits(some_tokens) - replaced).norm() < 1e-5f * replaced.norm());
}

TEST_CASE("a model refuses what it can't read") {
  const Llama model = random_model(small(true));
  CHECK_THROWS_WITH(model.logits(std::vector<Token>{}), Contains("0 tokens, expected 1 to 10"));
  CHECK_THROWS_WITH(model.logits(std::vector<Token>(11, Token{1})), Contains("11 tokens"));
  CHECK_THROWS_WITH(model.logits(std::vector<Token>{1, 300}), Contains("token 1 is 300"));
  CHECK_THROWS_WITH(model.weight(Projection::q, 2), Contains("layer 2, expected 0 to 1"));
  Matrix<float> h(7, 3);
  CHECK_THROWS_WITH(model.apply_layer(0, h), Contains("7 x 3"));
  CHECK_THROWS_WITH(cross_entropy(model, some_tokens), Contains("11 tokens or more"));
}

TEST_CASE("the cross-entropy is the mean over whole windows") {
  const Llama model = random_model(small(false));
  std::vector<Token> tokens;
  rotorlin::Random random(3);
  for (int i = 0; i < 39; ++i) tokens.push_back(static_cast<Token>(random.below(300)));
  const Windows windows(model, tokens, 79);
  CHECK(windows.count() == 3);
  CHECK(windows.length() == 10);
  double sum = 0;
  for (std::size_t j = 0; j < 3; ++j) {
    const std::vector<Token> inputs(tokens.begin() + static_cast<std::ptrdiff_t>(10 * j),
                                    tokens.begin() + static_cast<std::ptrdiff_t>(10 * j + 10));
    const Eigen::MatrixXd logits = logits_by_definition(model, inputs);
    for (Index t = 0; t < 10; ++t) {
      sum += std::log(logits.col(t).array().exp().sum()) -
             logits(tokens[10 * j + static_cast<std::size_t>(t) + 1], t);
    }
  }
  CHECK(cross_entropy(model, tokens) == Approx(sum / 30).epsilon(1e-5));
  CHECK(cross_entropy(model, tokens, 1) != Approx(sum / 30).epsilon(1e-5));
}

TEST_CASE("byte-pair encoding joins the best pairs first") {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "tok.bin", small_tokenizer());
  const Tokenizer tokenizer = Tokenizer::load(folder / "tok.bin");
  enum : Token { space = 259, a, b, ab, space_a, aba, e_acute };
  CHECK(tokenizer.size() == 266);
  CHECK(tokenizer.encode("") == std::vector<Token>{1});
  CHECK(tokenizer.encode("b", false) == std::vector<Token>{space, b});
  CHECK(tokenizer.encode("a") == std::vector<Token>{1, space_a});
  CHECK(tokenizer.encode("ab") == std::vector<Token>{1, space_a, b});  // " a" has the better score
  CHECK(tokenizer.encode("babab", false) == std::vector<Token>{space, b, aba, b});
  CHECK(tokenizer.encode("baba", false) == std::vector<Token>{space, b, aba});
  CHECK(tokenizer.encode("é\n", false) == std::vector<Token>{space, e_acute, 3 + '\n'});
  CHECK(tokenizer.encode("€", false) == std::vector<Token>{space, 3 + 0xe2, 3 + 0x82, 3 + 0xac});
  for (const std::string text : {"babab aba", "a€é\n\nb", " a", "\xff\x80"})
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  CHECK(tokenizer.decode(std::vector<Token>{1, space_a, 2, 1, space, b}) == "a\nb");
  CHECK_THROWS_WITH(tokenizer.decode(std::vector<Token>{266}), Contains("token 266"));
}

TEST_CASE("stories are separated by single newlines") {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "tok.bin", small_tokenizer());
  const Tokenizer tokenizer = Tokenizer::load(folder / "tok.bin");
  const auto tokens = encode_stories(tokenizer, "a\n\nb\nb a\n \nab\n");
  CHECK(tokenizer.decode(tokens) == "a\n\nb\nb a\nab");
  CHECK(std::count(tokens.begin(), tokens.end(), Tokenizer::bos) == 3);
  CHECK(encode_stories(tokenizer, "a\r\n\r\nb\r\nb a\r\n \r\nab\r\n") == tokens);  // from Windows
  CHECK(encode_stories(tokenizer, "a\rb") == tokenizer.encode("a\rb"));

  test::write_bytes(folder / "a.txt", "a\nb");
  CHECK(read_stream(folder / "a.txt", tokenizer, 266).size() == 5);
  CHECK_THROWS_WITH(read_stream(folder / "a.txt", tokenizer, 260),
                    Contains("a.txt") && Contains("expected 0 to 259"));
}

TEST_CASE("streams are cut between stories") {
  const std::vector<Token> tokens = {1, 5, 6, 1, 7, 1, 8, 9, 9, 9};
  CHECK(split_stream(tokens, 0.5).first.size() == 5);
  CHECK(split_stream(tokens, 0.35).first.size() == 3);
  CHECK(split_stream(tokens, 0.9).first.size() == 5);
  CHECK(split_stream(std::vector<Token>{5, 6, 7, 8}, 0.5).second == std::vector<Token>{7, 8});
}

TEST_CASE("token files and tokenizers that lie are refused") {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "odd.u16", "abc");
  CHECK_THROWS_WITH(read_tokens(folder / "odd.u16"), Contains("odd.u16 has 3 bytes"));
  CHECK_THROWS_WITH(read_tokens(folder / "nothing.u16"), Contains("can't read"));
  const std::string good = small_tokenizer();
  const auto refuses = [&](const std::string& bytes, const std::string& reason) {
    test::write_bytes(folder / "tok.bin", bytes);
    CHECK_THROWS_WITH(Tokenizer::load(folder / "tok.bin"), Contains(reason) && Contains("tok.bin"));
  };
  refuses("", "ends after 0 bytes");
  refuses(good.substr(0, good.size() - 1), "1 short");
  refuses(good.substr(0, 101), "short");
  refuses(good.substr(0, 4), "0 tokens");
  std::string lying = good;
  lying[11] = 1;
  refuses(lying, "has length");
  lying[3] = 0x7f, lying[11] = 0x7e;  // announces tokens of up to 2 GB, which must not be allocated
  refuses(lying, "short");
  std::string nan = good;
  const float value = std::nanf("");
  std::memcpy(nan.data() + 4, &value, 4);
  refuses(nan, "has score nan");
  CHECK_THROWS_WITH(Tokenizer::load(folder.path()), Contains("is a file"));
  CHECK_THROWS_WITH(Llama::load(folder.path()), Contains("is a file"));
}

TEST_CASE("generation is greedy at temperature 0, and seeded above") {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "tok.bin", small_tokenizer());
  const Tokenizer tokenizer = Tokenizer::load(folder / "tok.bin");
  LlamaConfig config = small(true);
  config.vocabulary = 266;
  const Llama model = random_model(config);
  const auto text = [&](double temperature, std::uint64_t seed) {
    return generate(model, tokenizer, "ab", 20, temperature, seed);
  };
  CHECK(text(0, 1) == text(0, 2));
  CHECK(text(2, 1) == text(2, 1));
  CHECK(text(2, 1) != text(2, 2));
  CHECK(text(0, 1).starts_with("ab"));
}

TEST_CASE("real checkpoints: stories260K agrees with the reference vectors") {
  const fs::path data = real_data("stories260K against reference vectors");
  if (data.empty()) return;
  const auto golden =
      nlohmann::json::parse(test::read_bytes(fs::path(ROTORLIN_GOLDEN_DIR) / "geopair" / "llama.json"));
  const Llama model = Llama::load(data / "stories260K.bin");
  const Tokenizer tokenizer = Tokenizer::load(data / "tok512.bin");
  const auto tokens = golden["tokens"].get<std::vector<Token>>();
  CHECK(tokenizer.encode(golden["text"].get<std::string>()) == tokens);
  const Matrix<float> logits = model.logits(tokens);
  const auto last = golden["logits_last_first16"].get<std::vector<double>>();
  for (Index i = 0; i < 16; ++i)
    CHECK(logits(i, logits.cols() - 1) == Approx(last[static_cast<std::size_t>(i)]).margin(2e-4));
  const auto likeliest = golden["argmax"].get<std::vector<Index>>();
  for (Index t = 0; t < logits.cols(); ++t) {
    Index best = 0;
    logits.col(t).maxCoeff(&best);
    CHECK(best == likeliest[static_cast<std::size_t>(t)]);
  }
  const auto greedy = golden["greedy_tokens"].get<std::vector<Token>>();
  const auto prompt = golden["greedy_prompt"].get<std::string>();
  const auto length = static_cast<Index>(greedy.size() - tokenizer.encode(prompt).size());
  CHECK(generate(model, tokenizer, prompt, length, 0, 0) == golden["greedy_text"].get<std::string>());

  const auto calibration = read_tokens(data / "tinystories_calibration.u16");
  const auto evaluation = read_tokens(data / "tinystories_evaluation.u16");
  CHECK(calibration.size() == golden["cal_tokens"].get<std::size_t>());
  CHECK(cross_entropy(model, evaluation) == Approx(golden["eval_ce_79x256"].get<double>()).margin(1e-5));
  CHECK(cross_entropy(model, evaluation, 1) ==
        Approx(golden["eval_first2_windows_ce"][0].get<double>()).margin(1e-5));

  std::vector<Token> both = calibration;
  both.insert(both.end(), evaluation.begin(), evaluation.end());
  CHECK(encode_stories(tokenizer, read_file(data / "tinystories.txt")) == both);
}

TEST_CASE("real checkpoints: stories4M predicts as well as it was trained to, and is saved unchanged") {
  const fs::path data = real_data("stories4M");
  if (data.empty()) return;
  const Llama model = Llama::load(data / "stories4M.bin");
  CHECK(cross_entropy(model, read_tokens(data / "tinystories_evaluation.u16")) ==
        Approx(1.7975).margin(5e-4));
  const test::TemporaryFolder folder;
  model.save(folder / "copy.bin");
  const std::string original = test::read_bytes(data / "stories4M.bin"),
                    copy = test::read_bytes(folder / "copy.bin");
  REQUIRE(copy.size() == original.size());
  // All but the tables of the rotary embedding, which are computed anew.
  const std::size_t table =
      4 * static_cast<std::size_t>(model.config().sequence * model.config().head_size());
  CHECK(copy.substr(0, copy.size() - table) == original.substr(0, original.size() - table));
}
