// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/compressor.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "problems.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"
#include "rotorlin/geopair/allocation.hpp"
#include "support/temporary_folder.hpp"

using Catch::Contains;
using rotorlin::BudgetAllocation;
using rotorlin::CompressionMethod;
using rotorlin::CompressionResult;
using rotorlin::CompressorOptions;
using rotorlin::DictionarySide;
using rotorlin::GeoPairCompressor;
using rotorlin::Pairing;
using test::Index;
using test::Matrix;
using test::random_gram;
using test::random_matrix;

namespace {

constexpr CompressionMethod all_methods[] = {
    CompressionMethod::plain_svd,     CompressionMethod::svd_llm,       CompressionMethod::basis_sharing,
    CompressionMethod::sparse_single, CompressionMethod::geopair_dense, CompressionMethod::geopair_sparse};

struct Model {
  std::vector<std::string> names;
  std::vector<Matrix> weights, grams;  // of every layer
  GeoPairCompressor compressor;

  void add(const std::string& name, const Matrix& weight, const Matrix& gram,
           rotorlin::LayerOptions options = {}) {
    names.push_back(name);
    weights.push_back(weight);
    grams.push_back(gram);
    compressor.add_layer(name, weight, gram, std::move(options));
  }

  double error(std::size_t i, const Matrix& approximation) const {
    const Matrix missing = weights[i] - approximation;
    return std::sqrt((missing * grams[i] * missing.transpose()).trace() /
                     (weights[i] * grams[i] * weights[i].transpose()).trace());
  }
};

/// Blocks with two types of 16 inputs, which share their Gram matrix, and one of 24.
Model blocks(Index count) {
  Model model;
  const Matrix common = random_matrix(5, 16, 1);
  for (Index b = 0; b < count; ++b) {
    const auto seed = static_cast<std::uint64_t>(10 * b);
    const Matrix gram = random_gram(16, 100, seed + 2);
    const auto handle = model.compressor.add_gram(gram);
    for (const char* type : {"q", "k"}) {
      const Matrix weight = random_matrix(12, 5, seed + static_cast<std::uint64_t>(type[0])) * common +
                            0.3 * random_matrix(12, 16, seed + 3);
      model.names.push_back("block." + std::to_string(b) + "." + type);
      model.weights.push_back(weight);
      model.grams.push_back(gram);
      model.compressor.add_layer(model.names.back(), weight.cast<float>(), handle);
    }
    model.add("block." + std::to_string(b) + ".down", random_matrix(10, 24, seed + 4),
              random_gram(24, 100, seed + 5));
  }
  return model;
}

void check_result(const Model& model, const CompressionResult& result, double ratio, double slack = 0) {
  REQUIRE(result.layers.size() == model.names.size());
  CHECK(result.kept_fraction() <= 1 - ratio + slack);
  double bytes = 0;
  for (const auto& group : result.groups) {
    CAPTURE(group.members);
    CHECK(group.bytes <= group.dense_bytes);
    CHECK(group.bytes <= (1 - group.ratio) * group.dense_bytes * (1 + 1e-12));
    CHECK(group.objective <= group.energy * (1 + 1e-9));
    if (!group.trace.empty()) CHECK(group.objective <= group.trace.front().objective * (1 + 1e-9));
    bytes += group.bytes;
  }
  CHECK(bytes == Approx(result.bytes));
  for (std::size_t i = 0; i < model.names.size(); ++i) {
    CAPTURE(model.names[i]);
    CHECK(result.layers[i].name == model.names[i]);
    const auto& report = result.layer_reports[i];
    CHECK(report.name == model.names[i]);
    const auto& members = result.groups.at(report.group).members;
    CHECK(std::count(members.begin(), members.end(), model.names[i]) == 1);
    const Matrix dense = result.layers[i].layer.to_dense().cast<double>();
    REQUIRE(dense.rows() == model.weights[i].rows());
    CHECK(dense.allFinite());
    if (model.weights[i].norm() > 0)
      CHECK(report.relative_error == Approx(model.error(i, dense)).epsilon(1e-4).margin(1e-5));
  }
}

double total_error(const CompressionResult& result) {
  double sum = 0;
  for (const auto& report : result.layer_reports) sum += report.relative_error * report.relative_error;
  return sum;
}

}  // namespace

TEST_CASE("Every method keeps to its bytes and reports what it stores", "[geopair][compressor]") {
  const Model model = blocks(3);
  std::vector<double> errors;
  for (const CompressionMethod method : all_methods) {
    CAPTURE(static_cast<int>(method));
    const CompressionResult result =
        model.compressor.compress({.ratio = 0.3, .method = method, .iterations = 10});
    check_result(model, result, 0.3);
    errors.push_back(total_error(result));
  }
  CHECK(errors[1] < errors[0]);  // whitening
  CHECK(errors[4] < errors[2]);  // a whitening for every layer
  CHECK(errors[5] < errors[3]);  // a wide group
}

TEST_CASE("A pair's dense objective lies between the layers apart and Basis Sharing",
          "[geopair][compressor]") {
  const Model model = blocks(2);
  CompressorOptions options{.ratio = 0.3, .method = CompressionMethod::geopair_dense};
  options.groups = {{"block.0.q", "block.1.q"}, {"block.1.k", "block.0.k"}, {"block.0.down", "block.1.down"}};
  const CompressionResult dense = model.compressor.compress(options);
  check_result(model, dense, 0.3);
  REQUIRE(dense.groups.size() == 3);
  CHECK(dense.groups[0].members == std::vector<std::string>{"block.0.q", "block.1.q"});
  for (const auto& group : dense.groups) {
    for (std::size_t i = 1; i < group.trace.size(); ++i)
      CHECK(group.trace[i].objective <= group.trace[i - 1].objective * (1 + 1e-9));
  }
  options.method = CompressionMethod::basis_sharing;
  CHECK(total_error(dense) < total_error(model.compressor.compress(options)));
  options.method = CompressionMethod::geopair_dense;
  options.identity_gauge = true;
  const CompressionResult gauged = model.compressor.compress(options);
  check_result(model, gauged, 0.3);
  CHECK(gauged.groups[0].size.rank > dense.groups[0].size.rank);
  CHECK(total_error(gauged) < total_error(dense));
}

TEST_CASE("Groups are found by type, by neighbourhood and by measure", "[geopair][compressor]") {
  const Model model = blocks(4);
  const auto members = [&](CompressorOptions options) {
    std::vector<std::size_t> sizes;
    for (const auto& group : model.compressor.plan(options)) sizes.push_back(group.members.size());
    return sizes;
  };
  CompressorOptions options{.method = CompressionMethod::geopair_dense};
  options.pairing = Pairing::adjacent;
  const auto plan = model.compressor.plan(options);
  REQUIRE(plan.size() == 6);
  CHECK(plan[0].members == std::vector<std::size_t>{0, 3});  // q of the first two blocks
  options.across_types = true;
  CHECK(model.compressor.plan(options)[0].members == std::vector<std::size_t>{0, 1});
  for (const Pairing pairing : {Pairing::distance, Pairing::gain}) {
    options.pairing = pairing;
    options.group_size = 2;
    const auto pairs = members(options);
    CHECK(*std::max_element(pairs.begin(), pairs.end()) == 2);
    options.group_size = 3;
    const auto triples = members(options);
    CHECK(*std::max_element(triples.begin(), triples.end()) <= 3);
  }
  // all of one width are in one group
  const auto wide = model.compressor.plan({.method = CompressionMethod::geopair_sparse});
  REQUIRE(wide.size() == 2);
  CHECK(wide[0].members.size() == 8);
  CHECK(wide[1].members.size() == 4);
  CHECK(members({.method = CompressionMethod::svd_llm}).size() == 12);
}

TEST_CASE("Results do not depend on the number of threads", "[geopair][compressor]") {
  const Model model = blocks(2);
  for (const CompressionMethod method :
       {CompressionMethod::geopair_dense, CompressionMethod::geopair_sparse}) {
    CompressorOptions options{.ratio = 0.4, .method = method, .group_size = 2};
    options.budget = BudgetAllocation::global;
    options.iterations = 2;
    const CompressionResult one = model.compressor.compress(options);
    options.threads = 3;
    double last = 0;
    options.progress = [&](const rotorlin::CompressionProgress& progress) {
      if (progress.stage == "compression") last = progress.fraction;
      CHECK(progress.seconds_left >= 0);
    };
    const CompressionResult three = model.compressor.compress(options);
    CHECK(last == Approx(1));
    for (std::size_t i = 0; i < one.layers.size(); ++i)
      CHECK(one.layers[i].layer.to_dense() == three.layers[i].layer.to_dense());
    options.progress = [](const rotorlin::CompressionProgress&) { throw std::runtime_error("enough"); };
    CHECK_THROWS_WITH(model.compressor.compress(options), "enough");
  }
}

TEST_CASE("A global budget gives the bytes to those that need them", "[geopair][compressor]") {
  Model model;  // one layer of low rank, one without structure
  model.add("easy", random_matrix(20, 2, 1) * random_matrix(2, 20, 2), random_gram(20, 10, 3));
  model.add("hard", random_matrix(20, 20, 4), random_gram(20, 10, 5));
  CompressorOptions options{.ratio = 0.5, .method = CompressionMethod::svd_llm};
  const CompressionResult uniform = model.compressor.compress(options);
  options.budget = BudgetAllocation::global;
  const CompressionResult global = model.compressor.compress(options);
  check_result(model, global, 0.5);
  CHECK(global.groups[0].ratio > 0.5);
  CHECK(global.groups[1].ratio < 0.5);
  CHECK(total_error(global) < total_error(uniform));

  using rotorlin::allocate_bytes;
  CHECK(allocate_bytes({{{1, 10}, {2, 4}, {3, 0}}, {{1, 3}, {3, 1}}}, 4) == std::vector<double>{3, 1});
  CHECK(allocate_bytes({{{1, 10}, {2, 9.9}, {3, 0}}, {{1, 3}, {3, 1}}}, 4.5) == std::vector<double>{3, 1.5});
  CHECK_THROWS_AS(allocate_bytes({{{2, 1}}}, 1), std::invalid_argument);
  CHECK_THROWS_AS(allocate_bytes({{}}, 1), std::invalid_argument);
}

TEST_CASE("Layers may share on the output side", "[geopair][compressor]") {
  Model model;
  rotorlin::LayerOptions down;
  down.side = DictionarySide::output;
  down.bias = rotorlin::VectorX<float>::LinSpaced(8, 0, 1);
  model.add("a.down", random_matrix(8, 30, 1), random_gram(30, 10, 2), down);
  model.add("b.down", random_matrix(8, 20, 3), random_gram(20, 10, 4), down);
  model.add("other", random_matrix(8, 8, 5), random_gram(8, 10, 6));
  for (const CompressionMethod method : all_methods) {
    for (const bool gauge : {false, true}) {
      CompressorOptions options{.ratio = 0.4, .method = method, .identity_gauge = gauge};
      options.pairing = Pairing::adjacent;
      const CompressionResult result = model.compressor.compress(options);
      check_result(model, result, 0.4);
      CHECK(result.layer("a.down").bias() == down.bias);
    }
  }
}

TEST_CASE("Difficult layers give right results", "[geopair][compressor]") {
  const CompressionMethod method = all_methods[GENERATE(0, 1, 2, 3, 4, 5)];
  CAPTURE(static_cast<int>(method));
  CompressorOptions options{.ratio = 0.3, .method = method};
  options.iterations = 6;

  Model model;
  const Matrix weight = random_matrix(12, 16, 1), gram = random_gram(16, 10, 2);
  SECTION("fewer samples than features") {
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Matrix x = random_matrix(16, 4, 10 + i);
      model.add("layer." + std::to_string(i), random_matrix(12, 16, 20 + i), x * x.transpose() / 4);
    }
    options.eta = 0;
    const CompressionResult result = model.compressor.compress(options);
    check_result(model, result, 0.3);
    CHECK(result.layer_reports[0].eta > 0);
  }
  SECTION("identical layers, a zero layer and one of other width") {
    model.add("a", weight, gram);
    model.add("b", weight, gram);
    model.add("zero", Matrix::Zero(12, 16), gram);
    model.add("wide", random_matrix(40, 16, 3), random_gram(16, 10, 4));
    model.add("narrow", random_matrix(12, 10, 5), random_gram(10, 10, 6));
    options.pairing = Pairing::gain;
    options.across_types = true;
    options.group_size = 4;
    const CompressionResult result = model.compressor.compress(options);
    check_result(model, result, 0.3);
    CHECK(result.layer("zero").to_dense().norm() < 1e-6);
    CHECK(result.layer_reports[2].relative_error == 0);
  }
  SECTION("a single layer, of zeros too") {
    model.add("single", weight, gram);
    check_result(model, model.compressor.compress(options), 0.3);
    Model zero;
    zero.add("zero", Matrix::Zero(12, 16), gram);
    CHECK(zero.compressor.compress(options).layer("zero").to_dense().norm() == 0);
  }
  SECTION("ratio 0 is the weights") {
    model.add("a", weight, gram);
    model.add("b", random_matrix(9, 16, 7), gram);
    options.ratio = 0;
    const CompressionResult result = model.compressor.compress(options);
    CHECK(result.kept_fraction() == 1);
    CHECK(result.layer("a").to_dense() == weight.cast<float>());
    CHECK(result.layer_reports[1].relative_error < 1e-6);
  }
  SECTION("no iterations, of an odd number of layers") {
    for (std::uint64_t i = 0; i < 3; ++i)
      model.add("layer." + std::to_string(i), random_matrix(12, 16, 20 + i), random_gram(16, 10, 30 + i));
    options.iterations = 0;
    check_result(model, model.compressor.compress(options), 0.3);
  }
  SECTION("shared outputs of singular, equal, zero and other layers") {
    const rotorlin::LayerOptions outputs{.side = DictionarySide::output};
    const Matrix x = random_matrix(16, 4, 10);
    model.add("singular", weight, x * x.transpose() / 4, outputs);
    model.add("equal", weight, gram, outputs);
    model.add("zero", Matrix::Zero(12, 16), gram, outputs);
    model.add("other", random_matrix(12, 9, 5), random_gram(9, 10, 6), outputs);
    options.eta = 0;
    const CompressionResult result = model.compressor.compress(options);
    check_result(model, result, 0.3);
    CHECK(result.layer_reports[2].relative_error == 0);
    options.ratio = 0;
    check_result(model, model.compressor.compress(options), 0);
  }
  SECTION("inputs that are always zero") {
    Matrix dead = gram, reader = Matrix::Zero(12, 16);
    dead.row(3).setZero();
    dead.col(3).setZero();
    reader.col(3).setOnes();
    model.add("a", weight, dead);
    model.add("reads nothing", reader, dead);
    const CompressionResult result = model.compressor.compress(options);
    for (std::size_t i = 0; i < 2; ++i) CHECK(result.layers[i].layer.to_dense().allFinite());
    const double error = model.error(0, result.layers[0].layer.to_dense().cast<double>());
    CHECK(result.layer_reports[0].relative_error == Approx(error).epsilon(1e-4));
    const double nothing = result.layer_reports[1].relative_error;
    CHECK((nothing == 0 || std::isinf(nothing)));
  }
  SECTION("1 x 1") {
    model.add("point", Matrix::Constant(1, 1, 2), Matrix::Constant(1, 1, 3));
    CHECK_THROWS_WITH(model.compressor.compress(options), Contains("point") && Contains("lower ratio"));
    options.ratio = 0;
    CHECK(model.compressor.compress(options).layer("point").to_dense()(0, 0) == 2);
  }
  SECTION("what is no Gram matrix, and weights that are no weights") {
    Matrix skewed = gram, indefinite = gram;
    skewed(0, 1) += 1;
    indefinite(5, 5) = -2;
    const std::pair<Matrix, Matrix> cases[] = {{weight, skewed},
                                               {weight, indefinite},
                                               {weight, -gram},
                                               {weight, 1e-310 * gram},
                                               {1e200 * weight, gram}};
    for (const auto& [w, g] : cases) {
      Model hostile;
      hostile.add("hostile", w, g);
      CHECK_THROWS_WITH(hostile.compressor.compress(options), Contains("'hostile'") && Contains("expected"));
    }
  }
  SECTION("ratio 0.99 says what does not fit") {
    model.add("first", weight, gram);
    options.ratio = 0.99;
    CHECK_THROWS_WITH(model.compressor.compress(options), Contains("first") && Contains("0.99"));
  }
}

TEST_CASE("A wide group survives ratio 0.99", "[geopair][compressor]") {
  Model model;
  for (std::uint64_t i = 0; i < 4; ++i)
    model.add("layer." + std::to_string(i), random_matrix(150, 128, i), random_gram(128, 10, 10 + i));
  CompressorOptions options{.ratio = 0.99, .method = CompressionMethod::geopair_dense, .group_size = 4};
  options.pairing = Pairing::adjacent;
  options.iterations = 2;
  check_result(model, model.compressor.compress(options), 0.99);
}

TEST_CASE("What can't be compressed is refused by name", "[geopair][compressor]") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  GeoPairCompressor compressor;
  CHECK_THROWS_AS(compressor.compress(), std::invalid_argument);
  const Matrix weight = random_matrix(4, 6, 1), gram = random_gram(6, 10, 2);
  const auto handle = compressor.add_gram(gram);
  for (const double bad : {nan, std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH(compressor.add_layer("bad", Matrix::Constant(4, 6, bad), handle), Contains("'bad'"));
  CHECK_THROWS_AS(compressor.add_gram(Matrix::Constant(6, 6, nan)), std::domain_error);
  CHECK_THROWS_WITH(compressor.add_layer("bad gram", weight, Matrix::Constant(6, 6, nan)),
                    Contains("'bad gram'"));
  CHECK_THROWS_WITH(compressor.add_layer("narrow", random_matrix(4, 5, 1), handle),
                    Contains("'narrow'") && Contains("4 x 5") && Contains("6 x 6"));
  CHECK_THROWS_WITH(compressor.add_layer("negative", weight, handle, {.importance = -1}),
                    Contains("'negative'"));
  CHECK_THROWS_AS(compressor.add_gram(random_matrix(3, 4, 1)), std::invalid_argument);
  CHECK_THROWS_WITH(compressor.add_layer("empty", Matrix(0, 6), handle), Contains("'empty'"));
  CHECK_THROWS_WITH(
      compressor.add_layer("bias", weight, handle,
                           {.bias = rotorlin::VectorX<float>::Constant(4, static_cast<float>(nan))}),
      Contains("'bias'") && Contains("NaN"));
  CHECK_THROWS_WITH(compressor.add_layer("good", random_matrix(4, 5, 1), handle), Contains("'good'"));
  compressor.add_layer("good", weight, handle);  // the name is free: the first was refused
  CHECK_THROWS_WITH(compressor.add_layer("good", weight, handle), Contains("'good'"));
  CHECK_THROWS_AS(compressor.compress({.ratio = 1}), std::invalid_argument);
  CHECK_THROWS_AS(compressor.compress({.ratio = -0.1}), std::invalid_argument);
  CHECK_THROWS_AS(compressor.compress({.ratio = nan}), std::invalid_argument);
  const auto only = [](const std::string& fault) { return "GeoPairCompressor: options: " + fault; };
  CHECK_THROWS_WITH(compressor.compress({.ks_ratio = 0.5}), only("ks_ratio = 0.5, expected >= 1"));
  CHECK_THROWS_WITH(compressor.compress({.ks_ratio = nan}), only("ks_ratio = nan, expected >= 1"));
  CHECK_THROWS_WITH(compressor.compress({.group_size = -1}), only("group_size = -1, expected >= 0"));
  CHECK_THROWS_WITH(compressor.compress({.eta = -1}), only("eta = -1, expected >= 0"));
  CHECK_THROWS_WITH(compressor.compress({.iterations = -1}), only("iterations = -1, expected >= 0"));
  CHECK_THROWS_WITH(compressor.compress({.threads = 0}), only("threads = 0, expected >= 1"));
  CHECK_THROWS_WITH(compressor.compress({.iterations = -1, .threads = 0}),
                    only("iterations = -1, expected >= 0; threads = 0, expected >= 1"));
  CompressorOptions options;
  options.groups = {{"good", "unknown"}};
  CHECK_THROWS_WITH(compressor.compress(options), Contains("'unknown'"));
  options.groups = {{"good", "good"}};
  CHECK_THROWS_WITH(compressor.compress(options), Contains("'good' twice"));
  options.groups = {{}};
  CHECK_THROWS_WITH(compressor.compress(options), Contains("empty"));

  compressor.add_layer("other width", random_matrix(4, 7, 1), random_gram(7, 10, 2));
  options.groups = {{"good", "other width"}};
  CHECK_THROWS_WITH(compressor.compress(options), Contains("'other width'") && Contains("'good'"));

  GeoPairCompressor lazy;
  const auto loaded = lazy.add_gram(6, [&] { return gram; });
  lazy.add_layer(
      "lazy", 4, 6, [&] { return Matrix::Constant(4, 6, nan); }, loaded);
  CHECK_THROWS_WITH(lazy.compress(), Contains("'lazy'") && Contains("NaN"));
  const std::function<Matrix()> nothing;
  CHECK_THROWS_WITH(lazy.add_gram(6, nothing), Contains("Gram matrix number 1") && Contains("no function"));
  CHECK_THROWS_WITH(lazy.add_layer("empty", 4, 6, nothing, loaded),
                    Contains("'empty'") && Contains("no function"));
  CHECK(lazy.size() == 1);
}

TEST_CASE("A compressed model comes back from its file", "[geopair][compressor]") {
  const test::TemporaryFolder folder;
  const Model model = blocks(2);
  const CompressionResult result = model.compressor.compress({.ratio = 0.3, .iterations = 6});
  result.save(folder / "model.safetensors");
  const auto again = rotorlin::load_shared_layers<float>(folder / "model.safetensors");
  REQUIRE(again.size() == model.names.size());
  for (std::size_t i = 0; i < again.size(); ++i) {
    CHECK(again[i].layer.to_dense() == result.layers[i].layer.to_dense());
    CHECK(model.error(i, again[i].layer.to_dense().cast<double>()) ==
          Approx(result.layer_reports[i].relative_error).epsilon(1e-4));
  }
  const double overhead = 16384;  // header, identity rows
  CHECK(static_cast<double>(std::filesystem::file_size(folder / "model.safetensors")) <
        result.bytes + overhead);
}

TEST_CASE("The type of a layer is its name without its number", "[geopair][compressor]") {
  using rotorlin::detail::type_of;
  CHECK(type_of("layers.0.w1") == "layers.#.w1");
  CHECK(type_of("layers.12.w2") == "layers.#.w2");
  CHECK(type_of("model.layers.3.self_attn.q_proj") == "model.layers.#.self_attn.q_proj");
  CHECK(type_of("gpt2.h.11.experts.3.fc") == "gpt2.h.#.experts.#.fc");
  CHECK(type_of("7") == "#");
  CHECK(type_of("layer10.w1") == "layer#.w1");
  CHECK(type_of("head") == "head");
}

TEST_CASE("A layer that no activation reached is compressed as a weight, and the report says so",
          "[geopair][compressor]") {
  for (const CompressionMethod method :
       {CompressionMethod::plain_svd, CompressionMethod::svd_llm, CompressionMethod::basis_sharing,
        CompressionMethod::sparse_single, CompressionMethod::geopair_dense,
        CompressionMethod::geopair_sparse}) {
    CAPTURE(static_cast<int>(method));
    for (const auto side : {rotorlin::DictionarySide::input, rotorlin::DictionarySide::output}) {
      const Matrix heard = random_matrix(12, 12, 1), unheard = random_matrix(12, 12, 2);
      GeoPairCompressor compressor;
      compressor.add_layer("heard", heard, random_gram(12, 100, 3), {.side = side});
      compressor.add_layer("zeros", unheard, Matrix::Zero(12, 12), {.side = side});
      compressor.add_layer("never", unheard, compressor.add_gram(rotorlin::GramAccumulator(12)),
                           {.side = side});
      const CompressionResult result = compressor.compress({.ratio = 0.3, .method = method});
      CHECK(result.layer_reports[0].calibrated);
      for (const std::size_t i : {1u, 2u}) {
        const rotorlin::LayerReport& report = result.layer_reports[i];
        CHECK_FALSE(report.calibrated);
        CHECK(report.eta == 0);
        const Matrix missing = unheard - result.layers[i].layer.to_dense().cast<double>();
        CHECK(report.relative_error == Approx(missing.norm() / unheard.norm()));
        CHECK(report.relative_error < 0.8);
      }
    }
  }
}

TEST_CASE("Values outside of their enumerations and ridges without measure are refused by name",
          "[geopair][compressor]") {
  GeoPairCompressor compressor;
  compressor.add_layer("a", random_matrix(6, 6, 1), random_gram(6, 10, 2));
  const auto refused = [&](const CompressorOptions& options, const char* text) {
    CHECK_THROWS_WITH(compressor.compress(options), Contains(text) && Contains("expected"));
    CHECK_THROWS_AS(compressor.plan(options), std::invalid_argument);
  };
  refused({.method = static_cast<CompressionMethod>(6)}, "method = 6");
  refused({.method = static_cast<CompressionMethod>(-1)}, "method = -1");
  refused({.pairing = static_cast<rotorlin::Pairing>(4)}, "pairing = 4");
  refused({.weighting = static_cast<rotorlin::LayerWeighting>(2)}, "weighting = 2");
  refused({.budget = static_cast<rotorlin::BudgetAllocation>(99)}, "budget = 99");
  refused({.eta = 1e300}, "eta = 1e+300");
  refused({.eta = std::numeric_limits<double>::infinity()}, "eta = inf");
  CHECK_THROWS_WITH(compressor.add_layer("b", random_matrix(6, 6, 1), random_gram(6, 10, 2),
                                         {.side = static_cast<rotorlin::DictionarySide>(7)}),
                    Contains("'b'") && Contains("side = 7"));
  CHECK(compressor.compress({.eta = 1e6}).layer_reports[0].relative_error < 1);
  for (const rotorlin::MethodTraits& traits : rotorlin::compression_methods) {
    CHECK(rotorlin::compression_method(rotorlin::to_string(traits.method)) == traits.method);
  }
  CHECK_THROWS_WITH(rotorlin::compression_method("geopair"), Contains("svd_llm") && Contains("'geopair'"));
}

TEST_CASE("The scale of activations and weights does not change what is kept", "[geopair][compressor]") {
  for (const rotorlin::MethodTraits& traits : rotorlin::compression_methods) {
    for (const auto side : {rotorlin::DictionarySide::input, rotorlin::DictionarySide::output}) {
      CAPTURE(std::string(traits.name), side == rotorlin::DictionarySide::output);
      const Matrix a = random_matrix(10, 10, 1), b = random_matrix(10, 10, 2);
      const Matrix g = random_gram(10, 100, 3), h = random_gram(10, 100, 4);
      const auto compressed = [&](double weights, double inputs) {
        GeoPairCompressor compressor;
        compressor.add_layer("a", weights * a, inputs * inputs * g, {.side = side});
        compressor.add_layer("b", weights * b, inputs * inputs * h, {.side = side});
        return compressor.compress({.ratio = 0.3, .method = traits.method, .iterations = 4});
      };
      const CompressionResult plain = compressed(1, 1);
      for (const double weights : {1e-30, 1.0, 1e30}) {
        for (const double inputs : {1e-30, 1e-5, 1e30}) {
          CAPTURE(weights, inputs);
          const CompressionResult scaled = compressed(weights, inputs);
          for (std::size_t i = 0; i < 2; ++i) {
            CHECK(scaled.layer_reports[i].relative_error ==
                  Approx(plain.layer_reports[i].relative_error).epsilon(1e-3));
          }
        }
      }
    }
  }
}

TEST_CASE("No stored layer is further from its weight than zero, and weights below float are gone",
          "[geopair][compressor]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    GeoPairCompressor compressor;
    for (std::uint64_t i = 0; i < 4; ++i) {  // wide inputs, one output, metrics of their own
      compressor.add_layer("layers." + std::to_string(i) + ".w", random_matrix(1, 16, 10 * seed + i + 1),
                           random_gram(16, 1e8, 10 * seed + i + 5));
    }
    for (const Index size : {2, 4}) {
      const CompressionResult result =
          compressor.compress({.ratio = 0.3, .method = CompressionMethod::basis_sharing, .group_size = size});
      for (const rotorlin::LayerReport& layer : result.layer_reports) CHECK(layer.relative_error <= 1 + 1e-6);
    }
  }
  GeoPairCompressor compressor;
  compressor.add_layer("tiny", 1e-200 * random_matrix(6, 6, 1), random_gram(6, 10, 2));
  CHECK(compressor.compress({.ratio = 0.3, .method = CompressionMethod::svd_llm})
            .layer_reports[0]
            .relative_error == Approx(1));
}
