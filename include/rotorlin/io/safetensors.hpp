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

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

static_assert(std::endian::native == std::endian::little, "safetensors values are little-endian");

/// Types of stored values, named as in the file: F64, F32, F16, BF16, I64, ..., BOOL, F8_E4M3, F8_E5M2.
enum class DType { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean, f8_e4m3, f8_e5m2 };

namespace detail {

struct DTypeFacts {
  DType dtype;
  const char* name;
  std::size_t size;
};
inline constexpr DTypeFacts dtype_facts[] = {
    {DType::f64, "F64", 8},      {DType::f32, "F32", 4},         {DType::f16, "F16", 2},
    {DType::bf16, "BF16", 2},    {DType::i64, "I64", 8},         {DType::i32, "I32", 4},
    {DType::i16, "I16", 2},      {DType::i8, "I8", 1},           {DType::u64, "U64", 8},
    {DType::u32, "U32", 4},      {DType::u16, "U16", 2},         {DType::u8, "U8", 1},
    {DType::boolean, "BOOL", 1}, {DType::f8_e4m3, "F8_E4M3", 1}, {DType::f8_e5m2, "F8_E5M2", 1}};

}  // namespace detail

constexpr std::size_t size_of(DType dtype) { return detail::dtype_facts[static_cast<int>(dtype)].size; }
constexpr const char* name_of(DType dtype) { return detail::dtype_facts[static_cast<int>(dtype)].name; }

/// The dtype that stores a C++ type: double, float, Eigen::half, Eigen::bfloat16, bool and integers.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, Eigen::half>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, Eigen::bfloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else {
    static_assert(std::is_integral_v<T>, "safetensors has no dtype for this type");
    constexpr DType of_signed[] = {DType::i8, DType::i16, DType::i32, DType::i64};
    constexpr DType of_unsigned[] = {DType::u8, DType::u16, DType::u32, DType::u64};
    return (std::is_signed_v<T> ? of_signed : of_unsigned)[std::bit_width(sizeof(T)) - 1];
  }
}

/// One tensor of a file. `begin` and `end` are bytes behind the header.
struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<Index> shape;
  std::size_t begin, end;

  /// Number of values.
  Index size() const { return static_cast<Index>((end - begin) / size_of(dtype)); }
};

namespace detail {

inline std::string shape(const std::vector<Index>& dimensions) {
  std::string text = "[";
  for (const Index d : dimensions) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

inline std::string system_message(int error) { return std::system_category().message(error); }

/// An open file descriptor, closed at the end of its life.
class FileDescriptor {
 public:
  FileDescriptor(const std::filesystem::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A whole file in memory, read-only.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    const FileDescriptor file(path, O_RDONLY | O_NONBLOCK);
    if (!file) throw_runtime("safetensors: cannot open ", path, ": ", system_message(errno));
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw_runtime("safetensors: ", path, ": ", system_message(errno));
    if (!S_ISREG(status.st_mode)) throw_runtime("safetensors: ", path, " is not a regular file");
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return;
    void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) throw_runtime("safetensors: cannot map ", path, ": ", system_message(errno));
    data_ = static_cast<const std::byte*>(data);
  }
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// JSON in which no object has a key twice and nothing is nested deeper than three levels, as in a header;
/// parse_error or runtime_error otherwise. (A plain parse keeps the last of two equal keys, and a tower of
/// brackets eats memory.)
inline nlohmann::json parse_strict_json(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open, by depth
  const auto watch = [&](int depth, Event event, const nlohmann::json& value) {
    const auto level = static_cast<std::size_t>(depth);
    if (event == Event::object_start || event == Event::array_start) {
      if (depth > 2) throw_runtime("nested too deeply");
      keys.resize(level);
      keys.emplace_back();
    } else if (event == Event::key && !keys[level - 1].insert(value.get<std::string>()).second) {
      throw_runtime("key '", value.get<std::string>(), "' stands twice");
    }
    return true;
  };
  if (text.find('\0') != text.npos) throw_runtime("a zero byte");  // which the parser would take for the end
  return nlohmann::json::parse(text, watch);
}

}  // namespace detail

/// A safetensors file, memory-mapped. Everything in the header is checked before the constructor returns, so
/// that what `tensors()` says can be relied upon. Copies of values are converted and may be unaligned in the
/// file. The file must not shrink while it is open.
///
/// Errors in the file are std::runtime_error; they name the file, the tensor and the offset.
class SafetensorsFile {
 public:
  /// Largest header accepted, in bytes.
  static constexpr std::size_t max_header_size = 100'000'000;

  explicit SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
    const auto bytes = file_.bytes();
    std::uint64_t header_size = 0;
    if (bytes.size() < sizeof header_size) {
      fail("is ", bytes.size(), " bytes long; at least 8, the length of the header, are needed");
    }
    std::memcpy(&header_size, bytes.data(), sizeof header_size);
    if (header_size > max_header_size) {
      fail("offset 0: the header's length ", header_size, " exceeds the limit of ", max_header_size,
           " bytes");
    }
    if (header_size > bytes.size() - sizeof header_size) {
      fail("offset 0: the header's length ", header_size, " goes beyond the end of the file at ",
           bytes.size(), " bytes");
    }
    values_ = bytes.subspan(sizeof header_size + header_size);
    read_header({reinterpret_cast<const char*>(bytes.data()) + sizeof header_size, header_size});
    check_tiling();
  }

  const std::filesystem::path& path() const { return path_; }

  /// The strings under "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// All tensors, in the order of their values in the file.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  bool contains(const std::string& name) const { return index_.count(name) != 0; }

  /// What the header says of one tensor; std::runtime_error when there is none of that name.
  const TensorInfo& info(const std::string& name) const {
    const auto found = index_.find(name);
    if (found == index_.end()) fail("has no tensor '", name, "' among its ", tensors_.size());
    return tensors_[found->second];
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
  [[noreturn]] void fail_entry(const std::string& name, const Parts&... parts) const {
    fail("tensor '", name, "' in the header at offset 8: ", parts...);
  }
  template <class... Parts>
  [[noreturn]] void fail_at(const TensorInfo& tensor, const Parts&... parts) const {
    fail("tensor '", tensor.name, "' at offset ", file_.bytes().size() - values_.size() + tensor.begin, " ",
         parts...);
  }

  void read_header(std::string_view text) {
    nlohmann::json header;
    try {
      if (!text.starts_with('{')) detail::throw_runtime("does not begin with '{'");
      header = detail::parse_strict_json(text);
    } catch (const std::exception& error) {
      fail("offset 8: the header is not valid: ", error.what());
    }
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(entry);
      } else {
        tensors_.push_back(read_entry(name, entry));
      }
    }
  }

  void read_metadata(const nlohmann::json& entry) {
    if (!entry.is_object()) fail("offset 8: __metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("offset 8: __metadata__ '", key, "' is not a string");
      metadata_[key] = value.get<std::string>();
    }
  }

  TensorInfo read_entry(const std::string& name, const nlohmann::json& entry) const {
    const auto field = [&](const char* key) {
      const auto found = entry.find(key);
      return found == entry.end() ? nlohmann::json() : *found;
    };
    const auto numbers = [&](const char* key) {
      std::vector<std::size_t> values;
      const nlohmann::json list = field(key);
      if (!list.is_array()) fail_entry(name, key, " is not a list");
      for (const auto& value : list) {
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<Index>::max()) {
          fail_entry(name, key, " holds ", value.dump(), ", expected a count");
        }
        values.push_back(value.get<std::size_t>());
      }
      return values;
    };
    if (!entry.is_object() || entry.size() != 3)
      fail_entry(name, "expected an object of dtype, shape and data_offsets");

    TensorInfo tensor{name, DType::u8, {}, 0, 0};
    const nlohmann::json dtype = field("dtype");
    const auto* facts = std::find_if(std::begin(detail::dtype_facts), std::end(detail::dtype_facts),
                                     [&](const auto& f) { return dtype == f.name; });
    if (facts == std::end(detail::dtype_facts)) fail_entry(name, "dtype ", dtype.dump(), " is not known");
    tensor.dtype = facts->dtype;

    const auto offsets = numbers("data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > values_.size()) {
      fail_entry(name, "data_offsets ", field("data_offsets").dump(), " do not lie within the ",
                 values_.size(), " bytes of values");
    }
    tensor.begin = offsets[0];
    tensor.end = offsets[1];

    std::size_t expected = facts->size;
    for (const std::size_t d : numbers("shape")) {
      tensor.shape.push_back(static_cast<Index>(d));
      if (__builtin_mul_overflow(expected, d, &expected))
        fail_entry(name, "shape ", field("shape").dump(), " overflows");
    }
    if (expected != tensor.end - tensor.begin) {
      fail_entry(name, "shape ", detail::shape(tensor.shape), " of ", facts->name, " needs ", expected,
                 " bytes, data_offsets ", field("data_offsets").dump(), " give ", tensor.end - tensor.begin);
    }
    return tensor;
  }

  void check_tiling() {
    std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::size_t end = 0;
    for (const TensorInfo& tensor : tensors_) {
      if (tensor.begin < end)
        fail_at(tensor, "overlaps the one before, which ends ", end - tensor.begin, " bytes later");
      if (tensor.begin > end) fail_at(tensor, "comes after a hole of ", tensor.begin - end, " bytes");
      index_.emplace(tensor.name, index_.size());
      end = tensor.end;
    }
    if (end != values_.size()) {
      fail("offset ", file_.bytes().size() - values_.size() + end, ": ", values_.size() - end,
           " bytes belong to no tensor");
    }
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
          if (detail::is_finite(value) && std::abs(value) > static_cast<double>(std::numeric_limits<T>::max())) {
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
  detail::MappedFile file_;
  std::span<const std::byte> values_;
  std::map<std::string, std::string> metadata_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::size_t> index_;
};

/// Collects tensors and metadata, and writes them to a file at once: to a temporary file in the same folder,
/// synchronised with the disk and renamed. Whatever fails, the old file stays as it was.
class SafetensorsWriter {
 public:
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

  /// A copy of row-major values of any dtype and shape. std::invalid_argument when the bytes do not fit the
  /// shape, or when the name is taken.
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
  void write(const std::filesystem::path& path) const {
    // Wide types first: every tensor is then aligned for its type.
    std::vector<const Entry*> order;
    for (const Entry& entry : entries_) order.push_back(&entry);
    std::stable_sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
      return size_of(a->info.dtype) > size_of(b->info.dtype);
    });
    const std::string header = make_header(order);
    const std::uint64_t header_size = header.size();
    if (header_size > SafetensorsFile::max_header_size) {
      detail::throw_invalid("SafetensorsWriter: the header would be ", header_size,
                            " bytes long, the limit is ", SafetensorsFile::max_header_size);
    }

    TemporaryFile file(path);
    file.write(std::as_bytes(std::span(&header_size, 1)));
    file.write(std::as_bytes(std::span(header)));
    for (const Entry* entry : order) file.write(entry->bytes());
    file.commit();
  }

 private:
  struct Entry {
    TensorInfo info;
    std::vector<std::byte> copy;
    std::span<const std::byte> view;  // of what is not copied
    std::span<const std::byte> bytes() const { return copy.empty() ? view : copy; }
  };

  /// Takes a name. std::invalid_argument when it is taken, or when so many bytes don't fit the shape.
  void check_new(const std::string& name, DType dtype, const std::vector<Index>& shape, std::size_t bytes) {
    std::size_t expected = size_of(dtype);
    for (const Index d : shape) {
      if (d < 0 || __builtin_mul_overflow(expected, static_cast<std::size_t>(d), &expected)) {
        detail::throw_invalid("SafetensorsWriter: tensor '", name, "' has the impossible shape ",
                              detail::shape(shape));
      }
    }
    if (bytes != expected) {
      detail::throw_invalid("SafetensorsWriter: tensor '", name, "' of shape ", detail::shape(shape), " and ",
                            name_of(dtype), " needs ", expected, " bytes, given ", bytes);
    }
    if (name == "__metadata__" || !names_.insert(name).second) {
      detail::throw_invalid("SafetensorsWriter: the name '", name, "' is taken");
    }
  }

  /// A new file beside `target` that takes its place at `commit()`, and vanishes otherwise.
  class TemporaryFile {
   public:
    explicit TemporaryFile(const std::filesystem::path& target)
        : target_(target), path_(unused_name(target)), file_(path_, O_WRONLY | O_CREAT | O_EXCL) {
      if (!file_) fail("cannot create", errno);
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() {
      if (file_ && !committed_) ::unlink(path_.c_str());
    }

    void write(std::span<const std::byte> bytes) {
      while (!bytes.empty()) {
        const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) fail("cannot write", errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
      }
    }

    void commit() {
      if (::fsync(file_.get()) != 0) fail("cannot synchronise", errno);
      if (::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot rename to its final name", errno);
      committed_ = true;
      const FileDescriptor folder(target_.has_parent_path() ? target_.parent_path() : ".",
                                  O_RDONLY | O_DIRECTORY);
      if (folder) ::fsync(folder.get());  // the file is whole already; this only hastens the rename
    }

   private:
    using FileDescriptor = detail::FileDescriptor;

    static std::filesystem::path unused_name(const std::filesystem::path& target) {
      static std::atomic<unsigned> counter{0};
      for (;;) {
        auto path = target;
        path += detail::concatenate(".", ::getpid(), "-", counter++, ".tmp");
        std::error_code ignored;
        if (!std::filesystem::exists(path, ignored)) return path;
      }
    }
    [[noreturn]] void fail(const char* what, int error) const {
      detail::throw_runtime("SafetensorsWriter: ", target_, ": ", what, " (temporary file ", path_,
                            "): ", detail::system_message(error));
    }

    std::filesystem::path target_, path_;
    FileDescriptor file_;
    bool committed_ = false;
  };

  std::string make_header(const std::vector<const Entry*>& order) const {
    nlohmann::json header = nlohmann::json::object();
    if (!metadata_.empty()) header["__metadata__"] = metadata_;
    std::size_t offset = 0;
    for (const Entry* entry : order) {
      const std::size_t end = offset + entry->bytes().size();
      header[entry->info.name] = {{"dtype", name_of(entry->info.dtype)},
                                  {"shape", entry->info.shape},
                                  {"data_offsets", {offset, end}}};
      offset = end;
    }
    try {
      std::string text = header.dump();
      text.append((8 - text.size() % 8) % 8, ' ');
      return text;
    } catch (const nlohmann::json::exception& error) {
      detail::throw_invalid("SafetensorsWriter: a name or a metadata string is not UTF-8: ", error.what());
    }
  }

  std::map<std::string, std::string> metadata_;
  std::set<std::string> names_;
  std::vector<Entry> entries_;
};

}  // namespace rotorlin
