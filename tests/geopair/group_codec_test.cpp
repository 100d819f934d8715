// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/group_codec.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <memory>
#include <vector>

using namespace rotorlin;
using Catch::Contains;

namespace {

CompressedGroup small_group() {
  const auto dictionary = std::make_shared<const SharedDictionary<float>>(
      Matrix<float>(Matrix<float>::Random(3, 2)), std::vector<Index>{4, 1});
  Matrix<float> c = Matrix<float>::Random(2, 3);
  CompressedGroup group;
  group.members = {7, 3};
  group.layers.emplace_back(dictionary, c, CoefficientStorage::dense, DictionarySide::input,
                            VectorX<float>::Ones(3));
  c(0, 1) = 0;
  group.layers.emplace_back(dictionary, c, CoefficientStorage::sparse, DictionarySide::input);
  group.layer_reports = {{"a.q", 5, 0.25, 1e-9, 24, true},
                         {"a.k", 5, std::numeric_limits<double>::infinity(), 0, 20.5, false}};
  group.report = {.members = {"a.q", "a.k"},
                  .side = DictionarySide::input,
                  .ratio = 1.0 / 3,
                  .size = {2, 1},
                  .energy = 2,
                  .objective = 0.1,
                  .trace = {{HalfStep{}, 0.5}, {static_cast<HalfStep>(1), 0.1}},
                  .dictionary_bytes = 24,
                  .bytes = 68.5,
                  .dense_bytes = 120,
                  .seconds = 0.125};
  return group;
}

}  // namespace

TEST_CASE("a group comes back from its tensors as it was") {
  const CompressedGroup group = small_group();
  SafetensorsWriter writer;
  write_group(writer, group);
  const CompressedGroup again = read_group(SafetensorsFile(writer.bytes()));
  CHECK(again.members == group.members);
  CHECK(again.report.members == group.report.members);
  CHECK(again.report.size == group.report.size);
  CHECK(again.report.ratio == group.report.ratio);
  CHECK(again.report.energy == group.report.energy);
  CHECK(again.report.objective == group.report.objective);
  CHECK(again.report.dictionary_bytes == group.report.dictionary_bytes);
  CHECK(again.report.bytes == group.report.bytes);
  CHECK(again.report.dense_bytes == group.report.dense_bytes);
  CHECK(again.report.seconds == group.report.seconds);
  REQUIRE(again.report.trace.size() == 2);
  CHECK(again.report.trace[1].step == group.report.trace[1].step);
  CHECK(again.report.trace[1].objective == group.report.trace[1].objective);
  REQUIRE(again.layers.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(again.layers[i].parameters() == group.layers[i].parameters());
    CHECK(again.layers[i].describe() == group.layers[i].describe());
    CHECK(again.layer_reports[i].name == group.layer_reports[i].name);
    CHECK(again.layer_reports[i].group == group.layer_reports[i].group);
    CHECK(again.layer_reports[i].relative_error == group.layer_reports[i].relative_error);
    CHECK(again.layer_reports[i].eta == group.layer_reports[i].eta);
    CHECK(again.layer_reports[i].bytes == group.layer_reports[i].bytes);
    CHECK(again.layer_reports[i].calibrated == group.layer_reports[i].calibrated);
  }
  CHECK(again.layers[0].dictionary() == again.layers[1].dictionary());
}

TEST_CASE("a group in 16 bits, and tensors that are no group") {
  SafetensorsWriter writer;
  write_group(writer, small_group(), {.dtype = DType::bf16});
  const SafetensorsFile file(writer.bytes());
  CHECK(file.info("dictionaries.0.atoms").dtype == DType::bf16);
  CHECK(read_group(file).layer_reports[0].relative_error == 0.25);

  SafetensorsWriter plain;
  write_shared_layers<float>(plain, {{"a", small_group().layers[0]}});
  CHECK_THROWS_WITH(read_group(SafetensorsFile(plain.bytes(), "plain")), Contains("report.members"));
  plain.add("report.members", VectorX<std::int64_t>(VectorX<std::int64_t>::Zero(2)));
  plain.add("report.group", VectorX<double>(VectorX<double>::Zero(10)));
  plain.add("report.trace", Matrix<double>(Matrix<double>::Zero(1, 2)));
  plain.add("report.layers", Matrix<double>(Matrix<double>::Zero(1, 5)));
  CHECK_THROWS_WITH(read_group(SafetensorsFile(plain.bytes(), "plain")),
                    Contains("plain") && Contains("1 layers"));
}
