// SPDX-License-Identifier: MIT
#include "rotorlin/io/npy.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

using namespace rotorlin;
using Catch::Contains;

namespace npy_test {
namespace {

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A file as NumPy writes it: version, header, values.
std::string npy(const std::string& header, const std::string& values, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return text + header + values;
}

std::string dictionary(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }   \n";
}

/// The bytes of numbers, or these in reverse.
template <class T>
std::string bytes_of(std::initializer_list<T> values, bool swapped = false) {
  std::string result;
  for (const T& value : values) {
    std::string own(reinterpret_cast<const char*>(&value), sizeof(T));
    if (swapped) std::reverse(own.begin(), own.end());
    result += own;
  }
  return result;
}

}  // namespace

TEST_CASE("npy: every width, byte order and storage order that is documented") {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.npy";
  Matrix<double> expected(2, 3);
  expected << 1, 2, 3, 4, 5, -0.5;
  const bool little = std::endian::native == std::endian::little;
  for (const bool swapped : {false, true}) {
    const std::string order(1, swapped == little ? '>' : '<');
    const auto check = [&](const std::string& descr, const std::string& c_order, const std::string& fortran) {
      for (const char version : {'\x01', '\x02', '\x03'}) {
        write_bytes(path, npy(dictionary(descr, "False", "(2, 3)"), c_order, version));
        CHECK(NpyFile(path).matrix<double>() == expected);
        CHECK(NpyFile(path).batch<float>(1, 1) == expected.row(1).transpose().cast<float>());
        write_bytes(path, npy(dictionary(descr, "True", "(2, 3)"), fortran, version));
        const NpyFile file(path);
        CHECK(file.matrix<float>() == expected.cast<float>());
        CHECK(file.batch<double>(0, 2) == expected.transpose());
        CHECK(file.fortran_order());
        CHECK(file.dtype() == descr);
        CHECK(file.shape() == std::vector<Index>{2, 3});
      }
    };
    check(order + "f8", bytes_of<double>({1, 2, 3, 4, 5, -0.5}, swapped),
          bytes_of<double>({1, 4, 2, 5, 3, -0.5}, swapped));
    check(order + "f4", bytes_of<float>({1, 2, 3, 4, 5, -0.5f}, swapped),
          bytes_of<float>({1, 4, 2, 5, 3, -0.5f}, swapped));
    check(order + "f2", bytes_of<std::uint16_t>({0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0xb800}, swapped),
          bytes_of<std::uint16_t>({0x3c00, 0x4400, 0x4000, 0x4500, 0x4200, 0xb800}, swapped));
  }
}

TEST_CASE("npy: shapes") {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.npy";
  const auto values = bytes_of<float>({1, 2, 3, 4, 5, 6});
  write_bytes(path, npy(dictionary("<f4", "False", "(6,)"), values));
  CHECK(NpyFile(path).matrix<float>().rows() == 6);
  CHECK_THROWS_WITH(NpyFile(path).features(), Contains("(6,)") && Contains("samples x features"));
  write_bytes(path, npy(dictionary("<f4", "False", "(1, 3, 2)"), values));
  CHECK(NpyFile(path).samples() == 3);
  CHECK(NpyFile(path).batch<float>(2, 1) == Eigen::Vector2f(5, 6));
  CHECK_THROWS_WITH(NpyFile(path).batch<float>(2, 2), Contains("3 samples"));
  CHECK_THROWS_WITH(NpyFile(path).matrix<float>(), Contains("(1, 3, 2)") && Contains("two dimensions"));
  write_bytes(path, npy(dictionary("<f4", "True", "(1, 3, 2)"), values));
  CHECK_THROWS_WITH(NpyFile(path).batch<float>(0, 1), Contains("ascontiguousarray"));
  write_bytes(path, npy(dictionary("<f4", "False", "(0, 4)"), ""));
  CHECK(NpyFile(path).matrix<float>().cols() == 4);
  // A file of 90 bytes must not ask for a walk over 2^60 columns without rows.
  write_bytes(path, npy(dictionary("<f4", "False", "(0, 1152921504606846976)"), ""));
  CHECK(NpyFile(path).matrix<float>().cols() == Index{1} << 60);
  write_bytes(path, npy(dictionary("<f4", "False", "(1152921504606846976, 0)"), ""));
  CHECK(NpyFile(path).batch<float>(0, NpyFile(path).samples()).cols() == Index{1} << 60);
  write_bytes(path, npy(dictionary("<f4", "False", "()"), bytes_of<float>({1})));
  CHECK_THROWS_WITH(NpyFile(path).matrix<float>(), Contains("()"));
  // Keys in another order, quotes and spaces as other writers have them.
  write_bytes(path, npy("{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}", values));
  CHECK(NpyFile(path).matrix<float>()(1, 0) == 4);
}

TEST_CASE("npy: what is no such file is refused, with what to do") {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.npy";
  const auto values = bytes_of<float>({1, 2, 3, 4, 5, 6});
  const auto must_refuse = [&](const std::string& bytes, const std::string& text) {
    INFO(text);
    write_bytes(path, bytes);
    CHECK_THROWS_AS(NpyFile(path), std::runtime_error);
    CHECK_THROWS_WITH(NpyFile(path), Contains("a.npy") && Contains(text));
  };
  must_refuse("", "not an .npy file");
  must_refuse("PK\x03\x04 an npz file, which is a zip", "not an .npy file");
  must_refuse("\x93NUMPY\x01", "ends within");
  must_refuse(npy(dictionary("<f4", "False", "(2, 3)"), values, 4), "version 4");
  must_refuse(npy(dictionary("<f4", "False", "(2, 3)"), values).substr(0, 40), "ends within");
  must_refuse(npy(dictionary("<f4", "False", "(2, 3)"), values.substr(1)), "truncated");
  must_refuse(npy(dictionary("<f4", "False", "(2, 3)"), values + "x"), "damaged");
  must_refuse(npy(dictionary("<i8", "False", "(2, 3)"), values), "astype('float32')");
  must_refuse(npy(dictionary("|O", "False", "(2, 3)"), values), "'|O'");
  must_refuse(npy(dictionary("<f16", "False", "(2, 3)"), values), "<f16");
  must_refuse(npy(dictionary("<c8", "False", "(3,)"), values), "<c8");
  must_refuse(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", values), "structures");
  must_refuse(npy(dictionary("<f4", "Maybe", "(2, 3)"), values), "True nor False");
  must_refuse(npy(dictionary("<f4", "False", "(2, -3)"), values), "no size");
  must_refuse(npy(dictionary("<f4", "False", "(2 3)"), values), "no tuple");
  must_refuse(npy(dictionary("<f4", "False", "(99999999999999999999, 3)"), values), "no size");
  must_refuse(npy(dictionary("<f4", "False", "(4611686018427387904, 4611686018427387904)"), values),
              "overflows");
  must_refuse(npy("{'descr': '<f4', 'fortran_order': False}", values), "lacks");
  must_refuse(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", values),
              "twice");
  must_refuse(npy("{'descr': '<f4", values), "without an end");
  must_refuse(npy("import os", values), "dictionary");
  must_refuse(npy("", values), "dictionary");
  must_refuse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} and more", values), "goes on");
  CHECK_THROWS_WITH(NpyFile(folder / "absent.npy"), Contains("absent.npy"));

  write_bytes(path, npy(dictionary("<f8", "False", "(1, 1)"), bytes_of<double>({1e300})));
  CHECK_THROWS_WITH(NpyFile(path).matrix<float>(), Contains("1e+300") && Contains("float"));
  CHECK(NpyFile(path).matrix<double>()(0, 0) == 1e300);
}

TEST_CASE("npy: what is written is read, NaN and infinities too") {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.npy";
  Matrix<float> m = Matrix<float>::Random(3, 5);
  write_npy<float>(path, m);
  CHECK(NpyFile(path).matrix<float>() == m);
  CHECK(NpyFile(path).batch<float>(0, 3) == m.transpose());
  CHECK(std::filesystem::file_size(path) == 128 + 60);  // values begin at a multiple of 64
  write_npy<double>(path, m.cast<double>().middleCols(1, 2));
  CHECK(NpyFile(path).matrix<double>() == m.cast<double>().middleCols(1, 2));
  m(1, 1) = INFINITY;
  m(2, 2) = std::nanf("");
  write_npy<float>(path, m);
  const Matrix<double> again = NpyFile(path).matrix<double>();
  CHECK(again(1, 1) == INFINITY);
  CHECK(std::isnan(again(2, 2)));
  write_npy<float>(path, Matrix<float>(0, 4));
  CHECK(NpyFile(path).shape() == std::vector<Index>{0, 4});
  CHECK_THROWS_WITH(write_npy<float>(folder / "no/such/folder.npy", m), Contains("folder.npy"));
}

}  // namespace npy_test
