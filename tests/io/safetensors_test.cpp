// SPDX-License-Identifier: MIT
#include "rotorlin/io/safetensors.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

using namespace rotorlin;
using Catch::Contains;
using test::TemporaryFolder;

namespace {

/// A file with this header and these values; `header_size` may lie.
std::string file_of(const std::string& header, const std::string& values, std::uint64_t header_size) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &header_size, 8);
  return bytes + header + values;
}
std::string file_of(const std::string& header, const std::string& values = "") {
  return file_of(header, values, header.size());
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}

/// The message of the std::runtime_error that opening these bytes must cause.
std::string error_of(const std::string& bytes) {
  const TemporaryFolder folder;
  test::write_bytes(folder / "bad.safetensors", bytes);
  try {
    const SafetensorsFile file(folder / "bad.safetensors");
  } catch (const std::runtime_error& error) {
    CHECK_THAT(error.what(), Contains("bad.safetensors"));
    return error.what();
  }
  return "accepted";
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

}  // namespace

TEST_CASE("matrices, vectors, integers and metadata come back as they were") {
  const TemporaryFolder folder;
  const Matrix<double> a = Matrix<double>::Random(3, 5);
  const VectorX<float> b = VectorX<float>::Random(7);
  const Eigen::Matrix<std::int64_t, Dynamic, 1> permutation{{2, 0, -1}};
  SafetensorsWriter writer;
  writer.add("b", b);
  writer.add("a", a);
  writer.add("block", a.middleCols(1, 2).transpose());
  writer.add("permutation", permutation);
  writer.add("empty", Matrix<float>(0, 4));
  writer.add("half", b.cast<Eigen::half>());
  writer.set_metadata("title", "größer \"quoted\" \n");
  writer.write(folder / "x.safetensors");

  const SafetensorsFile file(folder / "x.safetensors");
  CHECK(file.matrix<double>("a") == a);
  CHECK(file.matrix<float>("a") == a.cast<float>());
  CHECK(file.vector<float>("b") == b);
  CHECK(file.vector<double>("b") == b.cast<double>());
  CHECK(file.matrix<double>("block") == a.middleCols(1, 2).transpose());
  CHECK(file.vector<std::int64_t>("permutation") == permutation);
  CHECK(file.matrix<float>("empty").cols() == 4);
  CHECK(file.vector<float>("half").isApprox(b, 1e-3f));
  CHECK(file.metadata().at("title") == "größer \"quoted\" \n");
  CHECK(file.tensors().size() == 6);
  CHECK(file.info("a").shape == std::vector<Index>{3, 5});
  CHECK(file.info("b").shape == std::vector<Index>{7});
  CHECK(file.info("b").size() == 7);
  CHECK(file.bytes("a").size() == 120);
  for (const TensorInfo& tensor : file.tensors()) CHECK(tensor.begin % size_of(tensor.dtype) == 0);

  // Row-major, as PyTorch has it, after a header of a multiple of 8 bytes.
  CHECK(file.vector<double>("a")[1] == a(0, 1));
  const std::string bytes = test::read_bytes(folder / "x.safetensors");
  CHECK(static_cast<unsigned char>(bytes[0]) % 8 == 0);

  CHECK_THROWS_WITH(file.info("c"), Contains("x.safetensors") && Contains("'c'"));
  CHECK_THROWS_WITH(file.matrix<double>("b"), Contains("'b'") && Contains("[7]") && Contains("offset"));
  CHECK_THROWS_WITH(file.vector<float>("permutation"), Contains("I64") && Contains("F32"));
  CHECK_THROWS_WITH(file.vector<std::int32_t>("permutation"), Contains("I64") && Contains("I32"));
  CHECK_THROWS_AS(file.vector<std::int32_t>("b"), std::runtime_error);
}

TEST_CASE("every floating-point type is read exactly, aligned or not") {
  // 1, -2.5, the smallest subnormal and infinity in F16 and BF16; the odd header length misaligns everything.
  const std::string header = "{" + entry("n", "U8", "[1]", "[0,1]") + "," +
                             entry("h", "F16", "[4]", "[1,9]") + "," + entry("b", "BF16", "[2,2]", "[9,17]") +
                             "," + entry("d", "F64", "[]", "[17,25]") + "," +
                             entry("t", "BOOL", "[2]", "[25,27]") + "}";
  const std::string values =
      bytes_of<std::uint8_t>({200}) + bytes_of<std::uint16_t>({0x3c00, 0xc100, 1, 0x7c00}) +
      bytes_of<std::uint16_t>({0x3f80, 0xc020, 1, 0x7f80}) + bytes_of({0.1}) + bytes_of<std::uint8_t>({0, 1});
  const TemporaryFolder folder;
  for (const std::string padding : {"", " ", "  "}) {
    test::write_bytes(folder / "x", file_of(header + padding, values));
    const SafetensorsFile file(folder / "x");
    const double inf = std::numeric_limits<double>::infinity();
    CHECK(file.vector<std::uint8_t>("n")[0] == 200);
    CHECK(file.vector<double>("h") == Eigen::Vector4d(1, -2.5, 0x1p-24, inf));
    CHECK(file.matrix<double>("b") == Eigen::Matrix2d{{1, -2.5}, {0x1p-133, inf}});
    CHECK(file.vector<double>("d")[0] == 0.1);
    CHECK(file.vector<float>("d")[0] == 0.1f);
    CHECK(file.vector<bool>("t") == Eigen::Matrix<bool, 2, 1>(false, true));
  }
}

TEST_CASE("a double beyond the range of float is an error, infinity is not") {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.add("huge", Eigen::Vector2d(0, 1e300));
  writer.add("infinite", Eigen::Vector2d(0, -std::numeric_limits<double>::infinity()));
  writer.write(folder / "x");
  const SafetensorsFile file(folder / "x");
  CHECK_THROWS_WITH(file.vector<float>("huge"), Contains("'huge'") && Contains("1e+300"));
  CHECK(std::isinf(file.vector<float>("infinite")[1]));
}

TEST_CASE("a file cut short anywhere, or with anything added, is refused") {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.add("a", Matrix<double>::Random(2, 2));
  writer.add("b", VectorX<float>::Random(3));
  writer.set_metadata("k", "v");
  writer.write(folder / "whole");
  const std::string whole = test::read_bytes(folder / "whole");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    test::write_bytes(folder / "cut", whole.substr(0, length));
    CHECK_THROWS_AS(SafetensorsFile(folder / "cut"), std::runtime_error);
  }
  CHECK_THAT(error_of(whole + "x"), Contains("1 bytes belong to no tensor"));
}

TEST_CASE("no single flipped bit crashes the reader") {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.add("a", Matrix<double>::Random(2, 2));
  writer.add("b", VectorX<float>::Random(3));
  writer.write(folder / "whole");
  const std::string whole = test::read_bytes(folder / "whole");
  int refused = 0;
  for (std::size_t i = 0; i < 8 * whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i / 8] = static_cast<char>(bytes[i / 8] ^ (1 << i % 8));
    test::write_bytes(folder / "flipped", bytes);
    try {
      const SafetensorsFile file(folder / "flipped");
      for (const TensorInfo& tensor : file.tensors()) (void)file.bytes(tensor.name).back();
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  CHECK(refused > 500);
}

TEST_CASE("lying headers are refused with the reason") {
  const std::string eight(8, '\0'), sixteen(16, '\0');
  CHECK(error_of(file_of("{" + entry("a", "F32", "[2]", "[0,8]") + "}", eight)) == "accepted");
  CHECK(error_of(file_of("{}")) == "accepted");
  CHECK(error_of(file_of(R"({"__metadata__":{}}   )")) == "accepted");

  CHECK_THAT(error_of(""), Contains("0 bytes"));
  CHECK_THAT(error_of(file_of("{}", "", 3)), Contains("beyond the end"));
  CHECK_THAT(error_of(file_of("{}", "", ~std::uint64_t{0})), Contains("limit"));
  CHECK_THAT(error_of(file_of("{}", "", 100'000'001)), Contains("limit"));
  CHECK_THAT(error_of(file_of("{}", "", 0)), Contains("not valid"));
  CHECK_THAT(error_of(file_of(" {}")), Contains("begin"));
  CHECK_THAT(error_of(file_of("[]")), Contains("begin"));
  CHECK_THAT(error_of(file_of("{} {}")), Contains("not valid"));
  CHECK_THAT(error_of(file_of(std::string("{}\0{", 4))), Contains("zero byte"));
  CHECK_THAT(error_of(file_of("{\"a\xff\":1}")), Contains("not valid"));
  CHECK_THAT(error_of(file_of(R"({"a":)" + std::string(1'000'000, '['))), Contains("nested"));

  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return error_of(file_of("{" + entry("a", dtype, shape, offsets) + "}", eight));
  };
  CHECK_THAT(one("F64", "[2]", "[0,8]"), Contains("'a'") && Contains("needs 16") && Contains("give 8"));
  CHECK_THAT(one("", "[2]", "[0,8]"), Contains("dtype is empty"));
  CHECK_THAT(one("F32", "[2]", "[0,16]"), Contains("[0,16]") && Contains("8 bytes"));
  CHECK_THAT(one("F32", "[2]", "[8,0]"), Contains("[8,0]"));
  CHECK_THAT(one("F32", "[2]", "[0,8,8]"), Contains("[0,8,8]"));
  CHECK_THAT(one("F32", "[2]", "[-8,0]"), Contains("-8"));
  CHECK_THAT(one("F32", "[-2]", "[0,8]"), Contains("-2"));
  CHECK_THAT(one("F32", "[2.0]", "[0,8]"), Contains("2.0"));
  CHECK_THAT(one("F32", "[1e30]", "[0,8]"), Contains("1e+30"));
  CHECK_THAT(one("F32", "[18446744073709551615]", "[0,8]"), Contains("18446744073709551615"));
  CHECK_THAT(one("F32", "[4611686018427387904,4]", "[0,8]"), Contains("overflows"));
  CHECK_THAT(one("F32", "[4611686018427387906]", "[0,8]"), Contains("overflows"));
  CHECK_THAT(one("F32", "2", "[0,8]"), Contains("shape"));
  CHECK_THAT(one("F32", "[[2]]", "[0,8]"), Contains("nested"));
  CHECK_THAT(one("F32", "[1]", "[4,8]"), Contains("hole of 4"));
  CHECK_THAT(one("F32", "[1]", "[0,4]"), Contains("4 bytes belong to no tensor"));

  const auto two = [&](const std::string& name, const std::string& a, const std::string& b) {
    return error_of(
        file_of("{" + entry("a", "U8", "[8]", a) + "," + entry(name, "U8", "[8]", b) + "}", sixteen));
  };
  CHECK(two("b", "[0,8]", "[8,16]") == "accepted");
  CHECK(two("b", "[8,16]", "[0,8]") == "accepted");
  CHECK_THAT(two("a", "[0,8]", "[8,16]"), Contains("'a' stands twice"));
  CHECK_THAT(two("\\u0061", "[0,8]", "[8,16]"), Contains("'a' stands twice"));
  CHECK_THAT(two("b", "[0,8]", "[7,15]"), Contains("'b'") && Contains("overlaps"));
  CHECK_THAT(two("b", "[0,8]", "[0,8]"), Contains("overlaps"));

  CHECK_THAT(error_of(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})")),
             Contains("'dtype' stands twice"));
  CHECK_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[0]}})")), Contains("expected an object"));
  CHECK_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[0],"offsets":[0,0]}})")),
             Contains("data_offsets"));
  CHECK_THAT(error_of(file_of(R"({"a":3})")), Contains("expected an object"));
  CHECK_THAT(error_of(file_of(R"({"a":null})")), Contains("expected an object"));
  CHECK_THAT(error_of(file_of(R"({"a":{"dtype":3,"shape":[0],"data_offsets":[0,0]}})")),
             Contains("'a'") && Contains("dtype 3 is not a string"));
  CHECK_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":null,"data_offsets":[0,0]}})")),
             Contains("shape is not a list"));
  CHECK_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":{},"data_offsets":[0,0]}})")),
             Contains("shape is not a list"));
  CHECK_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"shape":[0]}})")),
             Contains("'shape' stands twice"));
  CHECK_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":)" +
                              std::string(100'000, '['))),
             Contains("nested"));
  std::string many = "[0";
  for (int i = 0; i < 300; ++i) many += ",0";
  CHECK_THAT(one("U8", many + "]", "[0,0]"), Contains("more than 255"));
  CHECK_THAT(error_of(file_of(R"({"__metadata__":{},"__metadata__":{}})")),
             Contains("'__metadata__' stands twice"));
  CHECK_THAT(error_of(file_of(R"({"__metadata__":null,"__metadata__":{}})")),
             Contains("'__metadata__' stands twice"));
  CHECK_THAT(error_of(file_of(R"({"__metadata__":3})")), Contains("__metadata__ is not an object"));
  CHECK_THAT(error_of(file_of(R"({"__metadata__":{"a":1}})")), Contains("'a' is not a string"));
  CHECK_THAT(error_of(file_of(R"({"__metadata__":[]})")), Contains("__metadata__"));
  CHECK_THAT(error_of(file_of(R"({"__metadata__":{"a":"b","a":"c"}})")), Contains("'a' stands twice"));
}

TEST_CASE("a tensor of an unknown type is listed and carried, only its numbers can't be read") {
  const std::string values = "0123456789abcdefghijklmn";
  const std::string header =
      "{" + entry("x", "F32", "[1]", "[0,4]") + "," + entry("scale", "F8_E8M0", "[2,2]", "[4,8]") + "," +
      entry("packed", "F4", "[3,2]", "[8,11]") + "," + entry("six", "F6_E2M3", "[4]", "[11,14]") + "," +
      entry("complex", "C64", "[1]", "[14,22]") + "," + entry("later", "MX_7.5", "[1000]", "[22,24]") + "}";
  const TemporaryFolder folder;
  test::write_bytes(folder / "new types", file_of(header, values));
  const SafetensorsFile file(folder / "new types");
  REQUIRE(file.tensors().size() == 6);
  CHECK(file.vector<float>("x").size() == 1);
  CHECK(name_of(file.info("scale").dtype) == "F8_E8M0");
  CHECK(file.info("scale").dtype == DType::other);
  CHECK(file.info("scale").shape == std::vector<Index>{2, 2});
  CHECK(file.info("packed").size() == 6);
  CHECK(file.info("later").size() == 1000);
  CHECK(file.bytes("later").size() == 2);
  CHECK_THROWS_WITH(file.vector<float>("scale"), Contains("'scale'") && Contains("F8_E8M0, which cannot be"));
  CHECK_THROWS_WITH(file.matrix<double>("packed"), Contains("'packed'") && Contains("F4"));
  CHECK_THROWS_WITH(file.vector<std::uint8_t>("later"), Contains("MX_7.5") && Contains("U8"));

  SafetensorsWriter writer;
  for (const TensorInfo& tensor : file.tensors())
    writer.add_view(tensor.name, tensor.dtype, tensor.shape, file.bytes(tensor.name));
  const auto bytes = std::as_bytes(std::span(values));
  writer.add_raw("named", DType("F4"), {4}, bytes.first(2));
  CHECK_THROWS_WITH(writer.add_raw("b", DType("F4"), {3}, bytes.first(2)), Contains("12 bits"));
  CHECK_THROWS_WITH(writer.add_raw("b", DType("C64"), {3}, bytes.first(2)), Contains("24 bytes"));
  CHECK_THROWS_AS(writer.add_raw("b", DType(""), {3}, bytes.first(2)), std::invalid_argument);
  writer.write(folder / "copy");
  const SafetensorsFile copy(folder / "copy");
  for (const TensorInfo& tensor : file.tensors()) {
    CHECK(copy.info(tensor.name).dtype == tensor.dtype);
    CHECK(copy.info(tensor.name).shape == tensor.shape);
    const auto before = file.bytes(tensor.name), after = copy.bytes(tensor.name);
    CHECK(std::equal(before.begin(), before.end(), after.begin(), after.end()));
    if (size_of(tensor.dtype) != 0) CHECK(copy.info(tensor.name).begin % size_of(tensor.dtype) == 0);
  }

  // Where the size of a value is known, it is checked.
  const auto one = [&](const std::string& dtype, const std::string& shape) {
    return error_of(file_of("{" + entry("a", dtype, shape, "[0,24]") + "}", values));
  };
  CHECK(one("F4", "[48]") == "accepted");
  CHECK(one("F33", "[2]") == "accepted");
  CHECK_THAT(one("F4", "[47]"), Contains("188 bits"));
  CHECK_THAT(one("C64", "[2]"), Contains("needs 16") && Contains("give 24"));
  CHECK_THAT(one("F33", "[4611686018427387904,4]"), Contains("overflows"));
}

TEST_CASE("a type outside of the enumeration is refused") {
  for (const int number : {-1, 16, 29, 1 << 20})
    CHECK_THROWS_WITH(DType(static_cast<DType::Known>(number)), Contains("DType: " + std::to_string(number)));
}

TEST_CASE("fields that other readers skip, and no metadata, are no error") {
  const std::string shape = R"("shape":[1],"data_offsets":[0,1])";
  for (const std::string extra :
       {"3", "null", "true", "\"x\"", "-1.5", "[]", "{}", R"([1,[2,{"a":[],"dtype":"F64"}]])"}) {
    CHECK(error_of(file_of(R"({"a":{"dtype":"U8","more":)" + extra + "," + shape + "}}", "x")) == "accepted");
  }
  CHECK(error_of(file_of(R"({"__metadata__":null,"a":{"dtype":"U8",)" + shape + "}}", "x")) == "accepted");
}

TEST_CASE("opening is linear in the number of tensors") {
  const auto named = [](const char* kind, int i) {
    return std::string("model.layers.") + std::to_string(i) + kind + ".weight";
  };
  std::string header = "{";
  constexpr int count = 30'000;
  for (int i = 0; i < count; ++i) {
    const std::string offsets = "[" + std::to_string(i) + "," + std::to_string(i + 1) + "]";
    header += (i == 0 ? "" : ",") + entry(named(".self_attn.q_proj", i), "U8", "[1]", offsets);
  }
  header += "}";
  const TemporaryFolder folder;
  test::write_bytes(folder / "many", file_of(header, std::string(count, 'x')));
  const auto seconds = [](const auto& work) {
    double least = 1e9;
    for (int repetition = 0; repetition < 3; ++repetition) {
      const auto begin = std::chrono::steady_clock::now();
      work();
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      least = std::min(least, passed.count());
    }
    return least;
  };
  const double plain = seconds([&] { CHECK(nlohmann::json::parse(header).size() == count); });
  const double whole =
      seconds([&] { CHECK(SafetensorsFile(folder / "many").contains(named(".x", 1)) == false); });
  CAPTURE(plain, whole);
  CHECK(whole < 8 * plain);
}

TEST_CASE("a file in memory is read as one on the disk") {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.add("a", Eigen::Vector2d(1, 2));
  writer.set_metadata("key", "value");
  writer.write(folder / "x");
  const std::vector<std::byte> bytes = writer.bytes();
  const std::string on_disk = test::read_bytes(folder / "x");
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == on_disk);
  const SafetensorsFile file(bytes, "message");
  const SafetensorsFile copy = file;  // shares the bytes
  CHECK(copy.vector<double>("a") == Eigen::Vector2d(1, 2));
  CHECK(copy.metadata().at("key") == "value");
  CHECK_THROWS_WITH(file.info("b"), Contains("\"message\" has no tensor 'b'"));
  CHECK_THROWS_WITH(SafetensorsFile(std::vector<std::byte>(3)), Contains("bytes in memory"));
}

TEST_CASE("what is not a regular file is refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(SafetensorsFile(folder / "missing"), Contains("missing") && Contains("No such file"));
  CHECK_THROWS_WITH(SafetensorsFile(folder.path()), Contains("not a regular file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(SafetensorsFile(folder / "pipe"), Contains("not a regular file"));
}

TEST_CASE("the writer refuses what it could not read back") {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  const Eigen::Vector2d v(1, 2);
  const auto bytes = std::as_bytes(std::span(v.data(), 2));
  writer.add("a", v);
  CHECK_THROWS_WITH(writer.add("a", v), Contains("'a' is taken"));
  CHECK_THROWS_AS(writer.add("__metadata__", v), std::invalid_argument);
  CHECK_THROWS_WITH(writer.add_raw("b", DType::f64, {3}, bytes),
                    Contains("[3]") && Contains("24") && Contains("16"));
  CHECK_THROWS_AS(writer.add_raw("b", DType::f64, {-2}, bytes), std::invalid_argument);
  CHECK_THROWS_AS(writer.add_raw("b", DType::f64, {Index{1} << 62, 8}, bytes), std::invalid_argument);
  writer.add("\xff", v);
  CHECK_THROWS_WITH(writer.write(folder / "x"), Contains("UTF-8"));
  CHECK(folder.count_files() == 0);
}

TEST_CASE("a failed write leaves the old file and nothing else, a good one replaces it") {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.add("a", Eigen::Vector2d(1, 2));
  CHECK_THROWS_WITH(writer.write(folder / "no_folder" / "x"),
                    Contains("cannot create") && Contains("no_folder"));

  test::fs::create_directories(folder / "occupied" / "by a folder");
  CHECK_THROWS_WITH(writer.write(folder / "occupied"), Contains("cannot rename"));
  CHECK(folder.count_files() == 1);

  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(writer.write(folder / "pipe"), Contains("pipe") && Contains("not a regular file"));
  CHECK(test::fs::is_fifo(folder / "pipe"));
  test::fs::remove(folder / "pipe");

  test::write_bytes(folder / "linked", "old");
  test::fs::create_symlink("linked", folder / "link");
  writer.write(folder / "link");
  CHECK(test::fs::is_symlink(folder / "link"));
  CHECK(SafetensorsFile(folder / "linked").contains("a"));
  test::fs::remove(folder / "link");
  test::fs::remove(folder / "linked");

  test::write_bytes(folder / "x", "old");
  SafetensorsWriter bad;
  bad.set_metadata("key", "\xc3");
  CHECK_THROWS_AS(bad.write(folder / "x"), std::invalid_argument);
  CHECK(test::read_bytes(folder / "x") == "old");

  writer.write(folder / "x");
  CHECK(SafetensorsFile(folder / "x").vector<double>("a") == Eigen::Vector2d(1, 2));
  CHECK(folder.count_files() == 2);
}

TEST_CASE("a name may be as long as the system has them, and a private file stays private") {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.add("a", VectorX<float>::Ones(3));
  const std::string longest(255, 'a');
  writer.write(folder / longest);
  writer.write(folder / longest);
  CHECK(SafetensorsFile(folder / longest).contains("a"));
  std::string umlauts;
  for (int i = 0; i < 127; ++i) umlauts += "\xc3\xa4";
  writer.write(folder / umlauts);
  CHECK(SafetensorsFile(folder / umlauts).contains("a"));
  CHECK_THROWS_WITH(writer.write(folder / std::string(256, 'a')), Contains("too long"));

  const auto path = folder / "private";
  writer.write(path);
  std::filesystem::permissions(path,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  writer.write(path);
  CHECK(std::filesystem::status(path).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("a file moves, and outlives its name") {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.add("a", Eigen::Vector2d(1, 2));
  writer.write(folder / "x");
  SafetensorsFile first(folder / "x");
  test::fs::remove(folder / "x");
  SafetensorsFile second(std::move(first));
  CHECK(second.vector<double>("a") == Eigen::Vector2d(1, 2));
}
