// SPDX-License-Identifier: MIT
// What the fuzz targets share. A target is one file and reads one kind of file, from bytes that libFuzzer
// makes; whatever they are, reading ends with a value or with a std::runtime_error. Anything else is a fault:
// another exception, a memory error, undefined behaviour, more memory than ./run fuzz allows.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Bytes that have a path, without a disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (file_ < 0 || ::write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(file_); }
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/// A safetensors file from "HEADER \0 VALUES": its length is right, so that what is changed at random is the
/// text and the values rather than eight bytes that decide on everything.
inline std::vector<std::byte> safetensors_of(std::string_view input) {
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::uint64_t length = end;
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file += input.substr(0, end);
  if (end < input.size()) file += input.substr(end + 1);
  const auto bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

/// Lets a std::runtime_error pass, and nothing else.
template <class Read>
void read(const Read& body) {
  try {
    body();
  } catch (const std::runtime_error&) {
  }
}

}  // namespace fuzz
