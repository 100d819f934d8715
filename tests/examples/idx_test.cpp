// SPDX-License-Identifier: MIT
#include "common/idx.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

using namespace examples;
using Catch::Contains;

namespace {

// Labels 7 0 9 as an IDX file.
const std::string three_labels("\0\0\x08\x01\0\0\0\x03\x07\0\x09", 11);

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rotorlin_idx_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }

  std::filesystem::path plain(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return path / name;
  }
  std::filesystem::path zipped(const std::string& name, const std::string& bytes) const {
    const gzFile file = gzopen((path / name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path / name;
  }
};

std::string idx_images(int count) {
  std::string bytes("\0\0\x08\x03\0\0\0", 7);
  bytes += static_cast<char>(count);
  bytes += std::string("\0\0\0\x1c\0\0\0\x1c", 8);
  for (int i = 0; i < count; ++i) bytes += std::string(784, static_cast<char>(51 * i));
  return bytes;
}

}  // namespace

TEST_CASE("IDX files are read plain and compressed") {
  const Folder folder;
  for (const auto& path : {folder.plain("labels", three_labels), folder.zipped("labels.gz", three_labels)}) {
    const IdxArray array = read_idx(path);
    CHECK(array.dimensions == std::vector<std::size_t>{3});
    CHECK(array.values == std::vector<std::uint8_t>{7, 0, 9});
  }
}

TEST_CASE("IDX files that lie or are damaged are refused") {
  const Folder folder;
  const auto refuses = [&](const std::string& bytes, const std::string& reason) {
    CHECK_THROWS_WITH(read_idx(folder.plain("file", bytes)), Contains(reason) && Contains("file"));
  };
  CHECK_THROWS_WITH(read_idx(folder.path / "nothing"), Contains("can't be opened"));
  refuses("", "first 4 bytes");
  refuses("hello", "not an IDX file");
  refuses(std::string("\0\0\x0d\x01\0\0\0\x01\0\0\0\0", 12), "type code 13");
  refuses(std::string("\0\0\x08\0", 4), "no dimensions");
  refuses(std::string("\0\0\x08\x02\0\0\0\x03", 8), "within its dimensions");
  refuses(std::string("\0\0\x08\x01\0\0\0\0", 8), "dimension 0 is zero");
  refuses(std::string("\0\0\x08\x02\xff\xff\xff\xff\xff\xff\xff\xff", 12), "4 GiB");
  refuses(std::string("\0\0\x08\x01\xff\xff\xff\xff\x01", 9), "ends after 1 values");
  refuses(three_labels.substr(0, 10), "ends after 2 values");
  refuses(three_labels + "x", "after its last value");

  const auto path = folder.zipped("damaged.gz", idx_images(3));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 12);
  CHECK_THROWS_AS(read_idx(path), std::runtime_error);
}

TEST_CASE("a data set is four files that fit each other") {
  const Folder folder;
  CHECK_THROWS_WITH(read_fashion_mnist(folder.path), Contains("apt-get install dataset-fashion-mnist"));

  folder.zipped("train-images-idx3-ubyte.gz", idx_images(3));
  folder.zipped("train-labels-idx1-ubyte.gz", three_labels);
  folder.plain("t10k-images-idx3-ubyte", idx_images(3));
  folder.plain("t10k-labels-idx1-ubyte", three_labels);
  const FashionMnist data = read_fashion_mnist(folder.path);
  CHECK(data.train.size() == 3);
  CHECK(data.train.labels == std::vector<int>{7, 0, 9});
  CHECK(data.test.images.rows() == 784);
  CHECK(data.test.images(783, 0) == 0.0f);
  CHECK(data.test.images(0, 2) == Approx(0.4f));

  folder.plain("t10k-images-idx3-ubyte", idx_images(2));
  CHECK_THROWS_WITH(read_fashion_mnist(folder.path), Contains("2 images but 3 labels"));
  folder.plain("t10k-images-idx3-ubyte", idx_images(3));
  folder.plain("t10k-labels-idx1-ubyte", three_labels.substr(0, 10) + "\x0b");
  CHECK_THROWS_WITH(read_fashion_mnist(folder.path), Contains("label 11"));
}
