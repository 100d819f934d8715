// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/group_codec.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
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

namespace {

/// Sparse and dense layers on a dictionary of 70 x 9, whose atoms and coefficients differ by orders of
/// magnitude, as compression leaves them.
std::vector<NamedSharedLayer<float>> uneven_layers(DictionarySide side) {
  Matrix<float> atoms = Matrix<float>::Random(70, 9);
  const bool input = side == DictionarySide::input;
  Matrix<float> c = Matrix<float>::Random(input ? 9 : 40, input ? 40 : 9);
  for (Index i = 0; i < 9; ++i) {
    const float scale = std::pow(10.0F, static_cast<float>(i - 4));
    atoms.col(i) *= scale;
    input ? void(c.row(i) /= scale) : void(c.col(i) /= scale);
  }
  const auto dictionary = std::make_shared<const SharedDictionary<float>>(atoms);
  Matrix<float> sparse = c;
  for (Index i = 0; i < sparse.size(); i += 3) sparse.data()[i] = 0;
  return {{"dense", {dictionary, c, CoefficientStorage::dense, side}},
          {"sparse",
           {dictionary, sparse, CoefficientStorage::sparse, side, VectorX<float>::Ones(input ? 40 : 70)}}};
}

double tensor_bytes(const SafetensorsFile& file, const std::string& name) {
  return static_cast<double>(file.bytes(name).size() + file.bytes(name + ".scales").size());
}

/// A file with one tensor replaced.
SafetensorsFile altered(const SafetensorsFile& file, const std::string& name, DType dtype,
                        const std::vector<Index>& shape, const std::vector<std::uint8_t>& bytes) {
  SafetensorsWriter writer;
  for (const auto& [key, value] : file.metadata()) writer.set_metadata(key, value);
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name == name) {
      writer.add_raw(name, dtype, shape, std::as_bytes(std::span(bytes)));
    } else {
      writer.add_raw(tensor.name, tensor.dtype, tensor.shape, file.bytes(tensor.name));
    }
  }
  return SafetensorsFile(writer.bytes(), "altered");
}

}  // namespace

TEST_CASE("layers in blocks of few bits: errors, bytes, and rounding twice") {
  for (const DictionarySide side : {DictionarySide::input, DictionarySide::output}) {
    for (int bits = 3; bits <= 8; ++bits) {
      CAPTURE(bits, static_cast<int>(side));
      const StorageOptions storage{.bits = bits};
      const auto layers = uneven_layers(side);
      SafetensorsWriter writer;
      write_shared_layers(writer, layers, storage);
      const SafetensorsFile file(writer.bytes());
      CHECK(file.info("dictionaries.0.atoms").dtype == (bits == 8 ? DType::i8 : DType::u8));
      CHECK(tensor_bytes(file, "dictionaries.0.atoms") == stored_bytes(70, 9, storage));
      CHECK(tensor_bytes(file, "dense.coefficients") ==
            (side == DictionarySide::input ? stored_bytes(9, 40, storage) : stored_bytes(40, 9, storage)));
      CHECK(tensor_bytes(file, "sparse.values") == stored_bytes(layers[1].layer.nonzeros(), 1, storage));

      const auto again = read_shared_layers<float>(file);
      const auto rounded = rounded_layers(layers, storage), twice = rounded_layers(rounded, storage);
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(again[i].layer.parameters() == rounded[i].layer.parameters());
        CHECK(twice[i].layer.parameters() == rounded[i].layer.parameters());
        CHECK(again[i].layer.bias() == layers[i].layer.bias());
        const Matrix<float> before = layers[i].layer.to_dense();
        // every factor is off by half a step of 1 / (2^(bits - 1) - 1) of its largest neighbour at most
        const double step = 1.0 / ((1 << (bits - 1)) - 1);
        CHECK((again[i].layer.to_dense() - before).norm() < 1.0 * step * before.norm());
      }
      CHECK(again[0].layer.dictionary() == again[1].layer.dictionary());
      const Matrix<float> atoms = again[0].layer.dictionary()->stored();
      CHECK(twice[0].layer.dictionary()->stored() == atoms);
      for (Index j = 0; j < atoms.cols(); ++j)
        CHECK(std::abs(atoms.col(j).norm() - 1) < 1.0 / ((1 << (bits - 1)) - 1));
    }
  }
}

TEST_CASE("blocks hold what whole numbers and scales can, and tiny scales do not move") {
  Matrix<float> m(33, 2);
  for (Index i = 0; i < 33; ++i) m.row(i) << static_cast<float>(i - 16) / 4, 1e-6F * static_cast<float>(i);
  m(32, 0) = 0;
  const auto once = detail::dense_of<float>(detail::round_blocks<float>(m, 5, "x"));
  CHECK(once(0, 0) == Approx(-4).epsilon(1e-3));
  CHECK(once(32, 0) == 0);
  CHECK(detail::dense_of<float>(detail::round_blocks<float>(once, 5, "x")) == once);
  m(3, 0) = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_WITH(detail::round_blocks<float>(m, 5, "x"), Contains("x is NaN"));
  m(3, 0) = 1e9F;
  CHECK_THROWS_WITH(detail::round_blocks<float>(m, 8, "x"), Contains("beyond the range of a scale"));
}

TEST_CASE("blocks that do not fit are refused") {
  const auto layers = uneven_layers(DictionarySide::input);
  SafetensorsWriter writer;
  write_shared_layers(writer, layers, {.bits = 6});
  const SafetensorsFile file(writer.bytes());
  const auto fails = [&](const std::string& name, DType dtype, const std::vector<Index>& shape,
                         std::size_t bytes, std::uint8_t fill, const std::string& message) {
    CAPTURE(name, message);
    CHECK_THROWS_WITH(
        read_shared_layers<float>(altered(file, name, dtype, shape, std::vector<std::uint8_t>(bytes, fill))),
        Contains("altered") && Contains(message));
  };
  fails("dictionaries.0.atoms", DType::u8, {9, 52}, 468, 0, "of [9, 53], U8, the file has [9, 52]");
  fails("dictionaries.0.atoms", DType::i8, {9, 53}, 477, 0, "the file has [9, 53], I8");
  fails("dictionaries.0.atoms", DType::u8, {477}, 477, 0, "dictionaries.0.atoms is of [477]");
  fails("dictionaries.0.atoms.scales", DType::f16, {9, 2}, 36, 0, "of [9, 3], F16");
  fails("dictionaries.0.atoms.scales", DType::f16, {9, 3}, 54, 0xff, "atoms.scales has");
  fails("sparse.values", DType::u8, {3}, 3, 0, "sparse.values");
  const Index blocks = file.info("sparse.values.scales").size();
  std::vector<std::uint8_t> infinite(static_cast<std::size_t>(2 * blocks), 0x7c);
  for (std::size_t i = 0; i < infinite.size(); i += 2) infinite[i] = 0;
  CHECK_THROWS_WITH(
      read_shared_layers<float>(altered(file, "sparse.values.scales", DType::f16, {blocks}, infinite)),
      Contains("sparse.values.scales has inf"));
  fails("dense.coefficients", DType::u8, {40, 7}, 280, 0x21, "self-test");

  SafetensorsWriter other;
  CHECK_THROWS_WITH(write_shared_layers(other, layers, {.bits = 9}), Contains("bits = 9"));
  CHECK_THROWS_WITH(write_shared_layers(other, layers, {.dtype = DType::bf16, .bits = 8}),
                    Contains("one of both"));
}

TEST_CASE("a group in blocks of 8 bits") {
  SafetensorsWriter writer;
  const CompressedGroup group = small_group();
  write_group(writer, group, {.bits = 8});
  const CompressedGroup again = read_group(SafetensorsFile(writer.bytes()));
  CHECK(again.layers[0].to_dense().isApprox(group.layers[0].to_dense(), 0.02F));
  CHECK(again.layers[1].dictionary()->identity_rows() == std::vector<Index>{4, 1});
  CHECK(again.layer_reports[1].bytes == 20.5);
}
