// SPDX-License-Identifier: MIT
/// \file
/// Reading and writing safetensors files, strictly.
///
/// A file is: 8 bytes little-endian length of the header; the header, JSON, padded with spaces to 8 bytes;
/// the values. The header maps the name of each tensor to {"dtype", "shape", "data_offsets": [begin, end)},
/// offsets counted from the end of the header, and "__metadata__" to an object of strings
/// (https://github.com/huggingface/safetensors). Tensors are row-major and must tile the values: no overlap,
/// no hole, nothing behind the last one. A matrix out x in is the weight of PyTorch's nn.Linear(in, out).
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/dtype.hpp"
#include "rotorlin/io/file.hpp"
#include "rotorlin/io/tensor_info.hpp"

namespace rotorlin {

namespace detail {

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  // in the order of the text; names may stand twice
};

/// The entries of a header. std::runtime_error, with the place in the file, when it is not one; equal names
/// of tensors are left to the caller, who sorts them.
template <class = void>
SafetensorsHeader read_safetensors_header(std::string_view text, std::size_t value_bytes);

/// A header as JSON, without its length. std::invalid_argument where a name is not UTF-8.
template <class = void>
std::string safetensors_header_text(const SafetensorsHeader& header);

/// Values in files are little-endian. A machine that is not compiles everything, and refuses files.
inline void require_little_endian(const char* who) {
  if constexpr (std::endian::native != std::endian::little)
    throw_runtime(who, ": the values in safetensors files are little-endian, those of this machine are not");
}
}  // namespace detail

/// A safetensors file, memory-mapped. Everything in the header is checked before the constructor returns, so
/// that what `tensors()` says can be relied upon. Copies of values are converted and may be unaligned in the
/// file. The file must not shrink while it is open.
///
/// A tensor of a type that the library does not know (`DType::other`) is listed, and its `bytes` can be
/// carried to another file; only reading it as numbers is an error.
///
/// Errors in the file are std::runtime_error; they name the file, the tensor and the offset.
class SafetensorsFile {
 public:
  /// Largest header accepted, in bytes.
  static constexpr std::size_t max_header_size = 100'000'000;

  explicit SafetensorsFile(const std::filesystem::path& path) : path_(path) {
    auto file = std::make_shared<const detail::MappedFile>(path);
    bytes_ = file->bytes();
    storage_ = std::move(file);
    open();
  }

  /// The same of a file's bytes in memory, such as SafetensorsWriter::bytes() gives. `name` stands for the
  /// path in messages.
  explicit SafetensorsFile(std::vector<std::byte> bytes, std::filesystem::path name = "bytes in memory")
      : path_(std::move(name)) {
    auto owned = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    bytes_ = *owned;
    storage_ = std::move(owned);
    open();
  }

  /// As it was opened.
  const std::filesystem::path& path() const { return path_; }

  /// The strings under "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// All tensors, in the order of their values in the file.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  /// Whether there is a tensor of that name.
  bool contains(const std::string& name) const { return find(name) != nullptr; }

  /// What the header says of one tensor; std::runtime_error when there is none of that name.
  const TensorInfo& info(const std::string& name) const {
    const TensorInfo* found = find(name);
    if (found == nullptr) fail("has no tensor '", name, "' among its ", tensors_.size());
    return *found;
  }

  /// The stored bytes of one tensor, as long as this object lives.
  std::span<const std::byte> bytes(const std::string& name) const {
    const TensorInfo& tensor = info(name);
    return values_.subspan(tensor.begin, tensor.end - tensor.begin);
  }

  /// The values of a tensor of any shape, in row-major order. T is float or double (from F64, F32, F16, BF16;
  /// a value beyond the range of T is an error) or the very type that is stored (integers).
  template <class T>
  VectorX<T> vector(const std::string& name) const {
    const TensorInfo& tensor = info(name);
    if (tensor.dtype == dtype_of<T>()) return decode<T, T>(tensor);
    if constexpr (std::floating_point<T>) {
      switch (tensor.dtype) {
        case DType::f64:
          return decode<double, T>(tensor);
        case DType::f32:
          return decode<float, T>(tensor);
        case DType::f16:
          return decode<Eigen::half, T>(tensor);
        case DType::bf16:
          return decode<Eigen::bfloat16, T>(tensor);
        default:
          break;
      }
    }
    fail_at(tensor, "holds ", name_of(tensor.dtype), ", which cannot be read as ", name_of(dtype_of<T>()));
  }

  /// A tensor of two dimensions as a matrix of the same logical shape.
  template <class T>
  Matrix<T> matrix(const std::string& name) const {
    const TensorInfo& tensor = info(name);
    if (tensor.shape.size() != 2) {
      fail_at(tensor, "has shape ", detail::shape(tensor.shape), ", expected a matrix");
    }
    using RowMajor = Eigen::Matrix<T, Dynamic, Dynamic, Eigen::RowMajor>;
    const VectorX<T> values = vector<T>(name);
    return Eigen::Map<const RowMajor>(values.data(), tensor.shape[0], tensor.shape[1]);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    detail::throw_runtime("safetensors: ", path_, " ", parts...);
  }
  template <class... Parts>
  [[noreturn]] void fail_at(const TensorInfo& tensor, const Parts&... parts) const {
    fail("tensor '", tensor.name, "' at offset ", bytes_.size() - values_.size() + tensor.begin, " ",
         parts...);
  }

  template <class = void>
  void open();

  template <class = void>
  void check_tiling();

  template <class = void>
  void index_names();

  /// nullptr where there is none of that name.
  const TensorInfo* find(const std::string& name) const {
    const auto place =
        std::lower_bound(by_name_.begin(), by_name_.end(), name,
                         [&](std::size_t i, const std::string& wanted) { return tensors_[i].name < wanted; });
    return place != by_name_.end() && tensors_[*place].name == name ? &tensors_[*place] : nullptr;
  }

  template <class Stored, class T>
  VectorX<T> decode(const TensorInfo& tensor) const {
    VectorX<T> result(tensor.size());
    if (result.size() == 0) return result;
    const std::byte* source = values_.data() + tensor.begin;
    if constexpr (std::is_same_v<Stored, bool>) {
      for (Index i = 0; i < result.size(); ++i) result[i] = source[i] != std::byte{0};
    } else if constexpr (std::is_same_v<Stored, T>) {
      std::memcpy(result.data(), source, tensor.end - tensor.begin);
    } else {
      for (Index i = 0; i < result.size(); ++i) {
        Stored value;
        std::memcpy(static_cast<void*>(&value), source + static_cast<std::size_t>(i) * sizeof value,
                    sizeof value);
        if constexpr (std::is_same_v<Stored, double>) {
          if (detail::is_finite(value) &&
              std::abs(value) > static_cast<double>(std::numeric_limits<T>::max())) {
            fail_at(tensor, "holds ", value, " as value ", i, ", beyond the range of ",
                    name_of(dtype_of<T>()));
          }
        }
        result[i] = static_cast<T>(value);
      }
    }
    return result;
  }

  std::filesystem::path path_;
  std::shared_ptr<const void> storage_;  // of the bytes: a mapped file, or a vector
  std::span<const std::byte> bytes_, values_;
  std::map<std::string, std::string> metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::size_t> by_name_;  // places in tensors_
};

/// Collects tensors and metadata, and writes them to a file at once: to a temporary file in the same folder,
/// synchronised with the disk and renamed. Whatever fails, the old file stays as it was.
class SafetensorsWriter {
 public:
  /// An entry of the file's metadata; a second one of the same key takes its place.
  void set_metadata(const std::string& key, std::string value) { metadata_[key] = std::move(value); }

  /// A copy of a vector (one dimension) or of a matrix (two), in its own scalar type.
  template <class Derived>
  void add(const std::string& name, const Eigen::DenseBase<Derived>& values) {
    using T = typename Derived::Scalar;
    const Eigen::Matrix<T, Dynamic, Dynamic, Eigen::RowMajor> rows = values;
    std::vector<Index> shape{values.rows(), values.cols()};
    if constexpr (Derived::IsVectorAtCompileTime) shape = {values.size()};
    add_raw(name, dtype_of<T>(), std::move(shape),
            std::as_bytes(std::span(rows.data(), static_cast<std::size_t>(rows.size()))));
  }

  /// A copy of row-major values of any dtype and shape, `DType("F4")` as well. std::invalid_argument when the
  /// bytes do not fit the shape (as far as the size of a value is known), or when the name is taken.
  void add_raw(const std::string& name, DType dtype, std::vector<Index> shape,
               std::span<const std::byte> bytes) {
    check_new(name, dtype, shape, bytes.size());
    entries_.push_back({{name, dtype, std::move(shape), 0, 0}, {bytes.begin(), bytes.end()}, {}});
  }

  /// The same without a copy: the bytes must live until the last `write`. For files larger than memory, of
  /// which parts are mapped from other files.
  void add_view(const std::string& name, DType dtype, std::vector<Index> shape,
                std::span<const std::byte> bytes) {
    check_new(name, dtype, shape, bytes.size());
    entries_.push_back({{name, dtype, std::move(shape), 0, 0}, {}, bytes});
  }

  /// std::runtime_error when the file cannot be written, std::invalid_argument when a name is not UTF-8.
  template <class = void>
  void write(const std::filesystem::path& path) const;

  /// What `write` would write.
  template <class = void>
  std::vector<std::byte> bytes() const;

 private:
  struct Entry {
    TensorInfo info;
    std::vector<std::byte> copy;
    std::span<const std::byte> view;  // of what is not copied
    std::span<const std::byte> bytes() const { return copy.empty() ? view : copy; }
  };

  /// Takes a name. std::invalid_argument when it is taken, or when so many bytes don't fit the shape.
  template <class = void>
  void check_new(const std::string& name, const DType& dtype, const std::vector<Index>& shape,
                 std::size_t bytes);

  /// Wide types first: every tensor is then aligned for its type.
  template <class = void>
  std::vector<const Entry*> aligned_order() const;

  /// With its length before it.
  template <class = void>
  std::string make_header(const std::vector<const Entry*>& order) const;

  std::map<std::string, std::string> metadata_;
  std::set<std::string> names_;
  std::vector<Entry> entries_;
};

}  // namespace rotorlin

#if defined(ROTORLIN_COMPILED)
#include "rotorlin/io/instances.hpp"
#else
#include "rotorlin/io/detail/safetensors_header.hpp"
#endif
