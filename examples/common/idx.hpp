// SPDX-License-Identifier: MIT
/// \file
/// IDX files (the format of MNIST and its kin), plain or gzip, and the Fashion-MNIST data set made of four of
/// them. An IDX file is two zero bytes, a type code (8: unsigned bytes), the number of dimensions, each
/// dimension as a big-endian 32-bit number, then the values, the last index running fastest.
#pragma once

#include <zlib.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace examples {

/// An array of unsigned bytes with its dimensions, the last index running fastest.
struct IdxArray {
  std::vector<std::size_t> dimensions;
  std::vector<std::uint8_t> values;
};

/// Reads an IDX file of unsigned bytes, plain or gzip.
/// \throws std::runtime_error that names the file and what is wrong with it: it can't be read, is no IDX file
/// of bytes, ends early, or goes on after its last value.
inline IdxArray read_idx(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error("read_idx: " + path.string() + ": " + what);
  };
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) fail("can't be opened");
  // Up to `size` bytes; fewer only at the end of the file.
  const auto read = [&](std::uint8_t* target, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
      const auto piece = static_cast<unsigned>(std::min<std::size_t>(size - done, 1u << 24));
      const int got = gzread(file.get(), target + done, piece);
      if (got < 0) {
        int code = 0;
        fail(std::string("damaged gzip data: ") + gzerror(file.get(), &code));
      }
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  };

  std::uint8_t head[4] = {};
  if (read(head, 4) != 4) fail("ends within the first 4 bytes");
  if (head[0] != 0 || head[1] != 0) fail("is not an IDX file (it must begin with two zero bytes)");
  if (head[2] != 8) fail("has type code " + std::to_string(head[2]) + ", expected 8 (unsigned bytes)");
  if (head[3] == 0) fail("has no dimensions");

  IdxArray array;
  std::size_t count = 1;
  constexpr std::size_t limit = std::size_t{1} << 32;
  for (int i = 0; i < head[3]; ++i) {
    std::uint8_t bytes[4] = {};
    if (read(bytes, 4) != 4) fail("ends within its dimensions");
    const std::size_t size = (std::size_t{bytes[0]} << 24) | (std::size_t{bytes[1]} << 16) |
                             (std::size_t{bytes[2]} << 8) | std::size_t{bytes[3]};
    if (size == 0) fail("dimension " + std::to_string(i) + " is zero");
    if (size > limit / count) fail("announces more than 4 GiB of values");
    count *= size;
    array.dimensions.push_back(size);
  }
  // The values are read in pieces, so that a header that lies about the size costs no memory.
  while (array.values.size() < count) {
    const std::size_t begin = array.values.size();
    const std::size_t piece = std::min<std::size_t>(count - begin, std::size_t{1} << 24);
    array.values.resize(begin + piece);
    const std::size_t got = read(array.values.data() + begin, piece);
    if (got != piece) {
      fail("ends after " + std::to_string(begin + got) + " values, its header announces " +
           std::to_string(count));
    }
  }
  std::uint8_t more = 0;
  if (read(&more, 1) != 0) fail("goes on after its last value");
  return array;
}

/// Images as columns (pixels x images, values 0 to 1) and a class number for each.
struct LabelledImages {
  Eigen::MatrixXf images;
  std::vector<int> labels;
  Eigen::Index size() const { return images.cols(); }
};

/// The ten classes of Fashion-MNIST, in the order of their numbers.
inline const char* fashion_mnist_class(int label) {
  static constexpr const char* names[] = {"T-shirt", "trousers", "pullover", "dress", "coat",
                                          "sandal",  "shirt",    "sneaker",  "bag",   "ankle boot"};
  return names[label];
}

struct FashionMnist {
  LabelledImages train, test;
};

/// Reads one half of MNIST or Fashion-MNIST: `stem` is "train" or "t10k".
inline LabelledImages read_mnist_half(const std::filesystem::path& folder, const std::string& stem) {
  const auto file = [&](const std::string& name) {
    const auto zipped = folder / (stem + name + ".gz");
    return std::filesystem::exists(zipped) ? zipped : folder / (stem + name);
  };
  const IdxArray images = read_idx(file("-images-idx3-ubyte"));
  const IdxArray labels = read_idx(file("-labels-idx1-ubyte"));
  if (images.dimensions.size() != 3 || images.dimensions[1] != 28 || images.dimensions[2] != 28) {
    throw std::runtime_error("read_mnist_half: " + file("-images-idx3-ubyte").string() +
                             ": expected images of 28 x 28 pixels");
  }
  if (labels.dimensions.size() != 1 || labels.dimensions[0] != images.dimensions[0]) {
    throw std::runtime_error("read_mnist_half: " + folder.string() + ": " +
                             std::to_string(images.dimensions[0]) + " images but " +
                             std::to_string(labels.values.size()) + " labels in the files " + stem + "-*");
  }
  LabelledImages result;
  const auto count = static_cast<Eigen::Index>(images.dimensions[0]);
  result.images = Eigen::Map<const Eigen::Matrix<std::uint8_t, Eigen::Dynamic, Eigen::Dynamic>>(
                      images.values.data(), 784, count)
                      .cast<float>() /
                  255.0f;
  result.labels.assign(labels.values.begin(), labels.values.end());
  for (int label : result.labels) {
    if (label > 9) {
      throw std::runtime_error("read_mnist_half: " + folder.string() + ": label " + std::to_string(label) +
                               ", expected 0 to 9");
    }
  }
  return result;
}

/// Where Debian's package dataset-fashion-mnist puts the files.
inline const std::filesystem::path debian_fashion_mnist = "/usr/share/datasets/fashion-mnist";

/// Reads the 60,000 training and 10,000 test images.
/// \throws std::runtime_error with the command that installs the data where the folder does not hold them.
inline FashionMnist read_fashion_mnist(const std::filesystem::path& folder = debian_fashion_mnist) {
  const auto there = [&](const char* name) {
    return std::filesystem::exists(folder / name) ||
           std::filesystem::exists(folder / (std::string(name) + ".gz"));
  };
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                           "t10k-labels-idx1-ubyte"}) {
    if (there(name)) continue;
    throw std::runtime_error(
        "Fashion-MNIST is not in " + folder.string() + ": " + name +
        "[.gz] is missing.\n"
        "On Debian or Ubuntu, install it with\n\n    sudo apt-get install dataset-fashion-mnist\n\n"
        "or download the four files from https://github.com/zalandoresearch/fashion-mnist into a folder and "
        "name the folder with --data FOLDER.");
  }
  return {read_mnist_half(folder, "train"), read_mnist_half(folder, "t10k")};
}

}  // namespace examples
