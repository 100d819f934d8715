// SPDX-License-Identifier: MIT
/// \file
/// NumPy's .npy files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): a strict
/// reader, memory-mapped, and a writer that renames when done.
///
/// Read are versions 1 to 3, floating point of 16, 32 and 64 bits in either byte order, arrays in C's or
/// Fortran's order. Everything else is refused with the line of Python that makes it readable.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/file.hpp"

namespace rotorlin {

namespace detail {

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<Index> shape;
  std::size_t begin = 0;  ///< of the values in the file
};

/// The dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in any order and spacing.
class NpyHeaderParser {
 public:
  NpyHeaderParser(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  NpyHeader parse() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    const auto once = [&](bool& seen, const std::string& key) {
      if (std::exchange(seen, true)) fail("the header has '", key, "' twice");
    };
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        once(descr, key);
        if (peek() == '[') fail("holds structures; save one of its fields, x['name']");
        header.descr = string();
      } else if (key == "fortran_order") {
        once(order, key);
        header.fortran_order = boolean();
      } else if (key == "shape") {
        once(shape, key);
        header.shape = tuple();
      } else {
        fail("the header has an unknown key '", key, "'");
      }
      if (!accept(',') && peek() != '}') fail("the header lacks a comma after '", key, "'");
    }
    if (peek() != '\0') fail("the header goes on after its dictionary");
    if (!descr || !order || !shape) fail("the header lacks 'descr', 'fortran_order' or 'shape'");
    return header;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw_runtime(where_, ": ", parts...);
  }
  char peek() {
    const std::size_t next = rest_.find_first_not_of(" \n\t");
    rest_.remove_prefix(std::min(next, rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool accept(char c) {
    if (peek() != c || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("the header is no dictionary as NumPy writes it: expected '", c, "'");
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"')
      fail("the header is no dictionary as NumPy writes it: expected a string");
    const std::size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) fail("the header has a string without an end");
    const std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    peek();
    for (const bool value : {false, true}) {
      const std::string_view text = value ? "True" : "False";
      if (!rest_.starts_with(text)) continue;
      rest_.remove_prefix(text.size());
      return value;
    }
    fail("'fortran_order' is neither True nor False");
  }
  std::vector<Index> tuple() {
    std::vector<Index> values;
    expect('(');
    while (!accept(')')) {
      peek();
      Index value = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc() || value < 0) fail("the shape has an entry that is no size");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      values.push_back(value);
      if (!accept(',') && peek() != ')') fail("the shape is no tuple");
    }
    return values;
  }

  std::string_view rest_;
  const std::string& where_;
};

}  // namespace detail

/// An array in a file. All that throws, throws std::runtime_error that begins with the path.
class NpyFile {
 public:
  /// \throws where the file can't be read, is no .npy file, holds something else than floating point, or is
  /// not as long as its header says.
  explicit NpyFile(const std::filesystem::path& path) : path_(path.string()), file_(path) {
    const std::span<const std::byte> bytes = file_.bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with("\x93NUMPY")) detail::throw_runtime(path_, " is not an .npy file");
    if (text.size() < 12) detail::throw_runtime(path_, " ends within its header");
    const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(bytes[i]); };
    const std::size_t version = byte(6);
    if (version < 1 || version > 3)
      detail::throw_runtime(path_, " is of version ", version, " of the format, expected 1 to 3");
    const std::size_t begin = version == 1 ? 10 : 12;
    const std::size_t length =
        byte(8) + (byte(9) << 8) + (version == 1 ? 0 : (byte(10) << 16) + (byte(11) << 24));
    if (length > text.size() - begin)
      detail::throw_runtime(path_, " ends within its header of ", length, " bytes");
    header_ = detail::NpyHeaderParser(text.substr(begin, length), path_).parse();
    header_.begin = begin + length;

    const std::string& descr = header_.descr;
    const bool known = descr.size() == 3 && std::string_view("<>=").find(descr[0]) != descr.npos &&
                       descr[1] == 'f' && std::string_view("248").find(descr[2]) != descr.npos;
    if (!known) {
      detail::throw_runtime(path_, " holds '", descr,
                            "', expected floating point of 16, 32 or 64 bits; save x.astype('float32')");
    }
    width_ = static_cast<std::size_t>(descr[2] - '0');
    swapped_ = descr[0] == (std::endian::native == std::endian::little ? '>' : '<');
    std::size_t expected = width_;
    for (const Index size : header_.shape) {
      if (__builtin_mul_overflow(expected, static_cast<std::size_t>(size), &expected))
        detail::throw_runtime(path_, ": a shape of ", shape_text(), " overflows");
    }
    const std::size_t present = bytes.size() - header_.begin;
    if (present != expected) {
      detail::throw_runtime(path_, " has ", present, " bytes of values, a shape of ", shape_text(), " needs ",
                            expected, "; is the file ", present < expected ? "truncated?" : "damaged?");
    }
  }

  /// As it was opened.
  const std::string& path() const { return path_; }
  /// As NumPy writes it: "<f4".
  const std::string& dtype() const { return header_.descr; }
  bool fortran_order() const { return header_.fortran_order; }
  const std::vector<Index>& shape() const { return header_.shape; }
  /// "(3, 4)".
  std::string shape_text() const {
    std::string text = "(";
    for (const Index size : header_.shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
    return text + (header_.shape.size() == 1 ? ",)" : ")");
  }

  /// An array of two dimensions; one of one dimension becomes a column. \throws for other dimensions, and for
  /// a finite number beyond the range of S.
  template <std::floating_point S>
  Matrix<S> matrix() const {
    const std::size_t dimensions = header_.shape.size();
    if (dimensions != 1 && dimensions != 2)
      detail::throw_runtime(path_, " has shape ", shape_text(), ", expected a matrix: two dimensions");
    const Index rows = header_.shape[0], cols = dimensions == 2 ? header_.shape[1] : 1;
    Matrix<S> result(rows, cols);
    if (result.size() == 0) return result;  // any number of columns without rows
    for (Index j = 0; j < cols; ++j) {
      for (Index i = 0; i < rows; ++i) result(i, j) = value<S>(fortran_order() ? i + j * rows : i * cols + j);
    }
    return result;
  }

  /// The array as samples x features: the last dimension are the features, all before it samples.
  Index features() const {
    if (header_.shape.size() < 2) {
      detail::throw_runtime(path_, " has shape ", shape_text(), ", expected samples x features");
    }
    return header_.shape.back();
  }
  Index samples() const {
    Index count = 1;
    features();
    for (std::size_t i = 0; i + 1 < header_.shape.size(); ++i) count *= header_.shape[i];
    return count;
  }
  /// features x count: samples first ... first + count - 1, one a column. \throws as `matrix`, and for an
  /// array of more than two dimensions in Fortran's order.
  template <std::floating_point S>
  Matrix<S> batch(Index first, Index count) const {
    const Index rows = features(), all = samples();
    if (first < 0 || count < 0 || first > all - count) {
      detail::throw_runtime(path_, " has ", all, " samples, asked for ", count, " from ", first, " on");
    }
    if (fortran_order() && header_.shape.size() > 2) {
      detail::throw_runtime(path_, " has shape ", shape_text(),
                            " in Fortran's order; save numpy.ascontiguousarray(x)");
    }
    Matrix<S> result(rows, count);
    if (result.size() == 0) return result;
    for (Index j = 0; j < count; ++j) {
      for (Index i = 0; i < rows; ++i)
        result(i, j) = value<S>(fortran_order() ? first + j + i * all : (first + j) * rows + i);
    }
    return result;
  }

 private:
  template <class S>
  S value(Index at) const {
    const std::byte* bytes = file_.bytes().data() + header_.begin + static_cast<std::size_t>(at) * width_;
    const auto converted = [&](double stored) {
      const auto result = static_cast<S>(stored);
      if (!detail::is_finite(result) && detail::is_finite(stored)) {
        detail::throw_runtime(path_, ": value ", at, " is ", stored, ", beyond the range of ",
                              sizeof(S) == 4 ? "float" : "double");
      }
      return result;
    };
    if (width_ == 8) return converted(std::bit_cast<double>(bits<std::uint64_t>(bytes)));
    if (width_ == 4) return static_cast<S>(std::bit_cast<float>(bits<std::uint32_t>(bytes)));
    return static_cast<S>(
        static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits<std::uint16_t>(bytes))));
  }

  template <class Bits>
  Bits bits(const std::byte* bytes) const {
    std::byte own[sizeof(Bits)];
    std::copy_n(bytes, sizeof(Bits), own);
    if (swapped_) std::reverse(own, own + sizeof(Bits));
    Bits result;
    std::memcpy(&result, own, sizeof(Bits));
    return result;
  }

  std::string path_;
  detail::MappedFile file_;
  detail::NpyHeader header_;
  std::size_t width_ = 0;
  bool swapped_ = false;
};

/// Writes a matrix as an array of version 1, rows x cols in C's order. \throws std::runtime_error, naming the
/// file, where that fails; what was there before stays then.
template <std::floating_point S>
void write_npy(const std::filesystem::path& path, const ConstMatrixRef<S>& matrix) {
  static_assert(sizeof(S) == 4 || sizeof(S) == 8);
  std::string header = detail::concatenate(
      "{'descr': '", std::endian::native == std::endian::little ? '<' : '>', 'f', sizeof(S),
      "', 'fortran_order': False, 'shape': (", matrix.rows(), ", ", matrix.cols(), "), }");
  constexpr std::size_t begin = 10, align = 64;
  header.append((align - (begin + header.size() + 1) % align) % align, ' ');
  header += '\n';
  std::string text = "\x93NUMPY";
  text += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  text += header;
  const Matrix<S> rows = matrix.transpose();
  detail::AtomicFile file(path, "write_npy");
  file.write(std::as_bytes(std::span(text)));
  file.write(std::as_bytes(std::span(rows.data(), static_cast<std::size_t>(rows.size()))));
  file.commit();
}

}  // namespace rotorlin
