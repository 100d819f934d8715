// SPDX-License-Identifier: MIT
#include "rotorlin/files/serialization.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "support/allocation_counter.hpp"
#include "support/temporary_folder.hpp"

using namespace rotorlin;
using Catch::Contains;
using test::TemporaryFolder;

namespace {

/// A layer's file as a writer, with one entry of the metadata or one tensor replaced.
SafetensorsWriter forge(const SafetensorsFile& file, const std::string& key, const std::string& value,
                        const std::string& tensor = "", const Matrix<double>& replacement = {}) {
  SafetensorsWriter writer;
  for (const auto& [name, text] : file.metadata()) writer.set_metadata(name, text);
  if (!key.empty()) writer.set_metadata(key, value);
  for (const TensorInfo& info : file.tensors()) {
    if (info.name == tensor) {
      writer.add(info.name, replacement);
    } else {
      writer.add_raw(info.name, info.dtype, info.shape, file.bytes(info.name));
    }
  }
  return writer;
}

}  // namespace

TEST_CASE("layers load in the other precision") {
  const TemporaryFolder folder;
  const DenseLinear<double> dense(6, 4, {.seed = 1});
  save(dense, folder / "double");
  CHECK(load<DenseLinear<float>>(folder / "double").parameters() == dense.parameters().cast<float>());
  const LowRankLinear<float> low(6, 4, {.rank = 2, .bias = false, .seed = 1});
  save(low, folder / "float");
  CHECK(load<LowRankLinear<double>>(folder / "float").parameters() == low.parameters().cast<double>());
}

TEST_CASE("several layers share a file under prefixes") {
  const TemporaryFolder folder;
  const DenseLinear<double> first(6, 4, {.seed = 1});
  const LowRankLinear<double> second(4, 3, {.rank = 2, .seed = 2});
  SafetensorsWriter writer;
  write_layer(writer, "layers.0.", first);
  write_layer(writer, "layers.1.", second);
  CHECK_THROWS_WITH(write_layer(writer, "layers.0.", second), Contains("layers.0.parameters"));
  writer.write(folder / "network");

  const SafetensorsFile file(folder / "network");
  CHECK(layer_type(file, "layers.0.") == "DenseLinear");
  CHECK(layer_type(file, "layers.1.") == "LowRankLinear");
  CHECK(read_layer<DenseLinear<double>>(file, "layers.0.").parameters() == first.parameters());
  CHECK(read_layer<LowRankLinear<double>>(file, "layers.1.").parameters() == second.parameters());
  CHECK_THROWS_WITH(read_layer<DenseLinear<double>>(file, "layers.1."),
                    Contains("network") && Contains("layers.1.") && Contains("holds a LowRankLinear"));
  CHECK_THROWS_WITH(read_layer<DenseLinear<double>>(file),
                    Contains("no metadata 'layer'") && Contains("prefixes 'layers.0.', 'layers.1.'"));
  CHECK_THROWS_WITH(layer_type(file, "layers.2."), Contains("layers.2.layer") && Contains("'layers.1.'"));
}

TEST_CASE("a layer without a prefix is called by its file") {
  const TemporaryFolder folder;
  save(LowRankLinear<double>(4, 3, 2), folder / "w.safetensors");
  CHECK_THROWS_WITH(load<DenseLinear<double>>(folder / "w.safetensors"),
                    Contains("w.safetensors\": holds a LowRankLinear, expected a DenseLinear"));
  const SafetensorsFile good(folder / "w.safetensors");
  forge(good, "options", "{}").write(folder / "w.safetensors");
  CHECK_THROWS_WITH(load<LowRankLinear<double>>(folder / "w.safetensors"),
                    Contains("w.safetensors\": LowRankLinear with impossible options"));

  SafetensorsWriter foreign;
  foreign.add("model.weight", Matrix<float>(Matrix<float>::Ones(3, 4)));
  foreign.write(folder / "foreign.safetensors");
  CHECK_THROWS_WITH(load<DenseLinear<double>>(folder / "foreign.safetensors"),
                    Contains("foreign.safetensors\" has no metadata 'layer'") && Contains("save()"));
}

TEST_CASE("a file in which things do not belong together does not load") {
  const TemporaryFolder folder;
  using L = LowRankLinear<double>;
  save(L(6, 4, {.rank = 2, .seed = 1}), folder / "good");
  const SafetensorsFile good(folder / "good");
  const auto refuse = [&](const SafetensorsWriter& forged, const auto& matcher) {
    forged.write(folder / "forged");
    CHECK_THROWS_AS(load<L>(folder / "forged"), std::runtime_error);
    CHECK_THROWS_WITH(load<L>(folder / "forged"), Contains("forged") && matcher);
  };
  const auto options = [&](const std::string& text) { return forge(good, "options", text); };
  const auto of = [](const std::string& in, const std::string& out, const std::string& rank) {
    return R"({"in":")" + in + R"(","out":")" + out + R"(","rank":")" + rank + R"(","bias":"true"})";
  };
  const auto tensor = [&](const std::string& name, const Matrix<double>& value) {
    return forge(good, "", "", name, value);
  };
  const Matrix<double> parameters = good.vector<double>("parameters");

  forge(good, "options", of("6", "4", "2")).write(folder / "same");
  CHECK_NOTHROW(load<L>(folder / "same"));

  refuse(options(of("6", "4", "1")), Contains("[24]") || Contains("expected"));
  refuse(options(of("6", "4", "9")), Contains("rank = 9"));
  refuse(options(of("60", "4", "2")), Contains("in = 60"));
  refuse(options(of("6", "9223372036854775807", "2")), Contains("9223372036854775807"));
  refuse(options(of("6", "-4", "2")), Contains("-4"));
  refuse(options(of("6.5", "4", "2")), Contains("'6.5'"));
  refuse(options(of("99999999999999999999", "4", "2")), Contains("an integer"));
  refuse(options(R"({"in":"6","out":"4","bias":"true"})"), Contains("'rank' is missing"));
  refuse(options(R"({"in":"6","out":"4","rank":"2","bias":"yes"})"), Contains("'yes'"));
  refuse(options(R"({"in":6})"), Contains("options"));
  refuse(options("[]"), Contains("options"));
  refuse(options("{"), Contains("options"));
  refuse(options(""), Contains("options"));
  refuse(options(std::string(100000, '[')), Contains("nested"));
  refuse(forge(good, "layer", "RotorLinear"), Contains("holds a RotorLinear"));

  refuse(tensor("parameters", parameters), Contains("[24, 1]"));
  refuse(tensor("self_test.input", Matrix<double>(0, 6)), Contains("0 x 6"));
  refuse(tensor("self_test.input", Matrix<double>::Zero(4, 7)), Contains("in = 6"));
  refuse(tensor("self_test.input", Matrix<double>::Zero(3, 6)), Contains("3 x 6"));
  refuse(tensor("self_test.input", Matrix<double>::Zero(4, 6)), Contains("self-test fails"));
  refuse(tensor("self_test.output", Matrix<double>::Zero(4, 4)), Contains("self-test fails"));
  refuse(tensor("self_test.output", Matrix<double>::Constant(4, 4, std::nan(""))),
         Contains("self-test fails"));

  SafetensorsWriter missing;
  for (const auto& [name, text] : good.metadata()) missing.set_metadata(name, text);
  refuse(missing, Contains("parameters"));
}

TEST_CASE("parameters that are not finite are neither saved nor loaded") {
  const TemporaryFolder folder;
  DenseLinear<double> layer(20, 2);
  layer.parameters()[0] = std::nan("");
  CHECK_THROWS_AS(save(layer, folder / "x"), std::domain_error);
  layer.parameters().setConstant(1.7e308);
  CHECK_THROWS_AS(save(layer, folder / "x"), std::domain_error);
  CHECK(folder.count_files() == 0);

  save(DenseLinear<double>(2, 2), folder / "x");
  const SafetensorsFile good(folder / "x");
  SafetensorsWriter forged;
  for (const auto& [name, text] : good.metadata()) forged.set_metadata(name, text);
  forged.add("parameters", VectorX<double>::Constant(6, std::nan("")));
  forged.add("self_test.input", good.matrix<double>("self_test.input"));
  forged.add("self_test.output", good.matrix<double>("self_test.output"));
  forged.write(folder / "y");
  CHECK_THROWS_WITH(load<DenseLinear<double>>(folder / "y"), Contains("NaN"));
}

TEST_CASE("a small file that announces a large layer is refused before anything of that size is allocated") {
  const TemporaryFolder folder;
  const auto refuse = [&]<class L>(const L*, Description options, Index in, Index out, const auto& matcher) {
    options["in"] = std::to_string(in);
    options["out"] = std::to_string(out);
    SafetensorsWriter writer;
    writer.set_metadata("layer", L::type_name);
    writer.set_metadata("options", nlohmann::json(options).dump());
    writer.add("parameters", VectorX<float>(VectorX<float>::Zero(3)));
    writer.add("self_test.input", Matrix<float>(Matrix<float>::Zero(1, in)));
    writer.add("self_test.output", Matrix<float>(Matrix<float>::Zero(1, out)));
    writer.write(folder / "small");
    const std::size_t largest = test::largest_allocation_of([&] {
      CHECK_THROWS_AS(load<L>(folder / "small"), std::runtime_error);
      CHECK_THROWS_WITH(load<L>(folder / "small"), Contains("small") && matcher);
    });
    INFO(L::type_name);
    CHECK(largest < 4 * test::fs::file_size(folder / "small"));
  };
  refuse(static_cast<DenseLinear<float>*>(nullptr), {{"bias", "false"}}, 24000, 24000,
         Contains("576000000 parameters, the file holds 3"));
  refuse(static_cast<LowRankLinear<float>*>(nullptr), {{"rank", "24000"}, {"bias", "true"}}, 24000, 24000,
         Contains("1152024000 parameters, the file holds 3"));
  refuse(static_cast<BlockHadamardLinear<float>*>(nullptr),
         {{"blocks", "1"}, {"hadamard", "true"}, {"bias", "true"}}, 24000, 24000,
         Contains("786456000 parameters, the file holds 3"));
  refuse(static_cast<RotorLinear<float>*>(nullptr),
         {{"chunk", "2"},
          {"in_chunks", "0"},
          {"out_chunks", "0"},
          {"width", "30"},
          {"single_rotor", "true"},
          {"bias", "true"},
          {"bias_inside_alpha", "false"}},
         2048, 2048, Contains("the file holds 3"));
  Description network = {{"hidden", "1048576"},
                         {"depth", "300"},
                         {"width", "1"},
                         {"single_rotor", "true"},
                         {"use_permutations", "false"},
                         {"normalize", "true"},
                         {"epsilon", "1e-05"},
                         {"activation", "relu"},
                         {"residual", "false"},
                         {"parallel_output", "false"}};
  refuse(static_cast<RotorNetwork<float>*>(nullptr), network, 2, 2, Contains("the file holds 3"));
  network["use_permutations"] = "true";
  refuse(static_cast<RotorNetwork<float>*>(nullptr), network, 2, 2, Contains("permutation.0"));
  network["permutation.0"] = "0 1 2";
  refuse(static_cast<RotorNetwork<float>*>(nullptr), network, 2, 2, Contains("permutation 0 has 3 entries"));
}
