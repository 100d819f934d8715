// SPDX-License-Identifier: MIT
#include "compress_checkpoint/presets.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_folder.hpp"

using Catch::Contains;
using examples::Orientation;

TEST_CASE("patterns of names are read strictly", "[examples][presets]") {
  const auto plain = examples::parse_pattern("a.*.b:t");
  CHECK((plain.name == "a.*.b" && plain.type == "t" && plain.reads.empty()));
  CHECK(plain.orientation == Orientation::unknown);
  const auto full = examples::parse_pattern("a.*.b.*:t:c.*.d:transposed");
  CHECK((full.reads == "c.*.d" && full.orientation == Orientation::transposed));
  const auto marked = examples::parse_pattern("a:t:linear");
  CHECK((marked.reads.empty() && marked.orientation == Orientation::linear));
  CHECK(examples::parse_pattern("a:linear").type == "linear");
  for (const char* wrong :
       {"", "a", ":t", "a:", "a:t:", "a::transposed", "a:t:r:x", "a:t:r:", "a:t:r:linear:x"})
    CHECK_THROWS_WITH(examples::parse_pattern(wrong), Contains("expected NAME:TYPE"));
  CHECK_THROWS_WITH(examples::parse_pattern("a.*:t:b.*.*"), Contains("more * than"));
}

TEST_CASE("a star stands for a number", "[examples][presets]") {
  using examples::match;
  using Numbers = std::vector<std::string>;
  CHECK(match("a.*.b", "a.17.b") == Numbers{"17"});
  CHECK(match("a.*.b.*", "a.1.b.23") == Numbers{"1", "23"});
  CHECK(match("*", "007") == Numbers{"007"});
  CHECK(match("a", "a") == Numbers{});
  CHECK(match("odd*name", "odd*name") == Numbers{});
  for (const char* other :
       {"", "a..b", "a.x.b", "a.1.bc", "a.1", "xa.1.b", "a.-1.b", "a.1234567890.b", "a.1 .b"})
    CHECK_FALSE(match("a.*.b", other));
  CHECK(examples::filled("x.*.y.*", {"1", "2"}) == "x.1.y.2");
  CHECK(examples::filled("x.*.y", {"1", "2"}) == "x.1.y");
  CHECK(examples::filled("x", {"1"}) == "x");
}

TEST_CASE("presets know names, company and orientation", "[examples][presets]") {
  const auto found = [](const char* preset, const std::string& name) {
    const auto* pattern = examples::find_pattern(examples::preset_named(preset).patterns, name);
    if (pattern == nullptr) return std::string("none");
    return pattern->type + (pattern->orientation == Orientation::transposed ? " transposed " : " linear ") +
           examples::filled(pattern->reads, *examples::match(pattern->name, name));
  };
  CHECK(found("llama", "model.layers.3.self_attn.v_proj.weight") ==
        "v linear model.layers.3.self_attn.q_proj");
  CHECK(found("llama", "model.layers.3.self_attn.v_proj.bias") == "none");
  CHECK(found("llama", "model.layers.3.mlp.experts.12.up_proj.weight") ==
        "up linear model.layers.3.mlp.experts.12.gate_proj");
  CHECK(found("llama", "model.embed_tokens.weight") == "none");
  CHECK(found("gpt2", "h.0.attn.c_proj.weight") == "attn_c_proj transposed h.0.attn.c_proj");
  CHECK(found("gpt2", "transformer.h.11.mlp.c_proj.weight") ==
        "mlp_c_proj transposed transformer.h.11.mlp.c_proj");
  CHECK(found("gpt2", "wte.weight") == "none");
  CHECK(found("opt", "model.decoder.layers.0.self_attn.out_proj.weight") ==
        "out linear model.decoder.layers.0.self_attn.out_proj");
  CHECK(found("opt", "decoder.layers.0.fc2.weight") == "fc2 linear decoder.layers.0.fc2");
  CHECK(found("bert", "bert.encoder.layer.0.attention.self.key.weight") ==
        "key linear bert.encoder.layer.0.attention.self.query");
  CHECK(found("bert", "encoder.layer.0.output.dense.weight") == "output linear encoder.layer.0.output.dense");
  CHECK_THROWS_WITH(examples::preset_named("gpt"), Contains("'gpt' is not one of llama, gpt2, opt, bert"));
  const std::map<std::string, int> names = {{"h.0.attn.c_proj.weight", 0}, {"wte.weight", 0}},
                                   others = {{"x", 0}};
  CHECK(examples::preset_resembling(names) == "gpt2");
  CHECK(examples::preset_resembling(others).empty());
}

TEST_CASE("config.json names the architecture", "[examples][presets]") {
  const test::TemporaryFolder folder;
  const auto type = [&](const std::string& text) {
    test::write_bytes(folder / "config.json", text);
    return examples::read_model_type(folder / "config.json");
  };
  CHECK(examples::read_model_type(folder / "absent.json").empty());
  CHECK(type(R"({"model_type": "mistral", "deep": {"a": {"b": {"c": [[[1]]]}}}})") == "mistral");
  CHECK(type("{}").empty());
  for (const char* wrong : {"", "{", "[]", "3", R"({"model_type": 3})", R"({"model_type": null})"})
    CHECK_THROWS_WITH(type(wrong), Contains("config.json"));
  CHECK_THROWS_WITH(examples::read_model_type(folder.path()), Contains("is no file"));
}

TEST_CASE("the side of the inputs is stated or seen, and never guessed", "[examples][presets]") {
  using examples::is_transposed;
  const auto unknown = Orientation::unknown, linear = Orientation::linear,
             transposed = Orientation::transposed;
  CHECK_FALSE(is_transposed("w", 3, 2, 2, unknown));
  CHECK(is_transposed("w", 2, 3, 2, unknown));
  CHECK_FALSE(is_transposed("w", 3, 2, 2, linear));
  CHECK(is_transposed("w", 2, 3, 2, transposed));
  CHECK_FALSE(is_transposed("w", 2, 2, 2, linear));
  CHECK(is_transposed("w", 2, 2, 2, transposed));
  CHECK_THROWS_WITH(is_transposed("w", 2, 2, 2, unknown),
                    Contains("'w' is square") && Contains(":transposed") && Contains("--preset"));
  CHECK_THROWS_WITH(is_transposed("w", 2, 3, 2, linear),
                    Contains("2 x 3") && Contains("mark its --pattern with "
                                                  ":transposed"));
  CHECK_THROWS_WITH(is_transposed("w", 3, 2, 2, transposed), Contains("with :linear"));
  for (const auto stated : {unknown, linear, transposed}) {
    CHECK_THROWS_WITH(is_transposed("w", 3, 2, 4, stated), Contains("3 x 2") && Contains("has 4 features"));
    CHECK_THROWS_WITH(is_transposed("w", 2, 2, 4, stated), Contains("has 4 features"));
  }
}
