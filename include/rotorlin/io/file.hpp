// SPDX-License-Identifier: MIT
/// \file
/// Files as this library treats them: read through a map of the memory, and replaced as a whole or not at
/// all. On Windows they are mapped by its own functions and written through streams; where
/// ROTORLIN_PLAIN_FILES is defined they are read into memory. Nothing else in the library knows of operating
/// systems.
#pragma once

#if !defined(ROTORLIN_PLAIN_FILES) && !defined(_WIN32)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "rotorlin/core/error.hpp"

#if defined(_WIN32) && !defined(ROTORLIN_PLAIN_FILES)
// As <windows.h> declares them, without its macros; a program may include both.
extern "C" {
struct _SECURITY_ATTRIBUTES;
__declspec(dllimport) void* __stdcall CreateFileW(const wchar_t*, unsigned long, unsigned long,
                                                  _SECURITY_ATTRIBUTES*, unsigned long, unsigned long, void*);
__declspec(dllimport) void* __stdcall CreateFileMappingW(void*, _SECURITY_ATTRIBUTES*, unsigned long,
                                                         unsigned long, unsigned long, const wchar_t*);
__declspec(dllimport) void* __stdcall MapViewOfFile(void*, unsigned long, unsigned long, unsigned long,
                                                    std::size_t);
__declspec(dllimport) int __stdcall UnmapViewOfFile(const void*);
__declspec(dllimport) int __stdcall CloseHandle(void*);
__declspec(dllimport) unsigned long __stdcall GetLastError();
}
#endif

namespace rotorlin::detail {

inline std::string system_message(int error) { return std::system_category().message(error); }

#if defined(ROTORLIN_PLAIN_FILES) || defined(_WIN32)

/// Tells the temporary files of processes apart.
inline unsigned process_number() {
  static const unsigned number = std::random_device{}();
  return number;
}

/// As below, through streams.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : file_(path, std::ios::binary | std::ios::trunc) {}
  explicit operator bool() const { return file_.is_open(); }
  int write(std::span<const std::byte> bytes) {
    file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return file_ ? 0 : EIO;
  }
  int finish() {
    file_.close();
    return file_ ? 0 : EIO;
  }
  static void finish_folder(const std::filesystem::path&) {}

 private:
  std::ofstream file_;
};

/// Throws std::runtime_error where `path` does not exist or is no regular file.
inline void expect_regular_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw_runtime("cannot open ", path, ": ", system_message(ENOENT));
  if (!std::filesystem::is_regular_file(status)) throw_runtime(path, " is not a regular file");
}

#endif

#if defined(ROTORLIN_PLAIN_FILES)

/// As below, the file's bytes read into memory.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    expect_regular_file(path);
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw_runtime("cannot open ", path, ": ", system_message(EACCES));
    size_ = static_cast<std::size_t>(file.tellg());
    data_ = std::make_unique<std::byte[]>(size_);
    file.seekg(0);
    if (!file.read(reinterpret_cast<char*>(data_.get()), static_cast<std::streamsize>(size_)))
      throw_runtime("cannot read ", path, ": ", system_message(EIO));
  }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

#elif defined(_WIN32)

/// As below. A file cannot be replaced while it is mapped.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    expect_regular_file(path);
    constexpr unsigned long generic_read = 0x80000000, share_all = 7, open_existing = 3, normal = 0x80,
                            page_readonly = 2, map_read = 4;
    const Handle file(
        ::CreateFileW(path.c_str(), generic_read, share_all, nullptr, open_existing, normal, nullptr));
    if (!file) throw_runtime("cannot open ", path, ": ", last_message());
    size_ = static_cast<std::size_t>(std::filesystem::file_size(path));
    if (size_ == 0) return;  // an empty file has no map
    const Handle map(::CreateFileMappingW(file.get(), nullptr, page_readonly, 0, 0, nullptr));
    if (!map) throw_runtime("cannot map ", path, ": ", last_message());
    data_ = static_cast<const std::byte*>(::MapViewOfFile(map.get(), map_read, 0, 0, size_));
    if (data_ == nullptr) throw_runtime("cannot map ", path, ": ", last_message());
  }
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile() {
    if (data_ != nullptr) ::UnmapViewOfFile(data_);
  }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  class Handle {
   public:
    explicit Handle(void* handle) : handle_(handle) {}
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() {
      if (*this) ::CloseHandle(handle_);
    }
    explicit operator bool() const {  // CreateFileW has a failure of its own, -1
      return handle_ != nullptr && reinterpret_cast<std::intptr_t>(handle_) != -1;
    }
    void* get() const { return handle_; }

   private:
    void* handle_;
  };
  static std::string last_message() { return system_message(static_cast<int>(::GetLastError())); }

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

#endif

#if !defined(ROTORLIN_PLAIN_FILES) && !defined(_WIN32)

/// Tells the temporary files of processes apart.
inline auto process_number() { return ::getpid(); }

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

/// A new file to be written once, from its beginning to its end.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : file_(path, O_WRONLY | O_CREAT | O_EXCL) {}
  explicit operator bool() const { return static_cast<bool>(file_); }

  /// 0 or errno.
  int write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return errno;
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return 0;
  }
  /// To the disk. 0 or errno.
  int finish() { return ::fsync(file_.get()) != 0 ? errno : 0; }

  /// A name is on the disk once its folder is.
  static void finish_folder(const std::filesystem::path& path) {
    const FileDescriptor folder(path, O_RDONLY | O_DIRECTORY);
    if (folder) ::fsync(folder.get());
  }

 private:
  FileDescriptor file_;
};

/// A whole file in memory, read-only. The file must not shrink while it is mapped. std::runtime_error, naming
/// it, when it cannot be read or is no regular file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    const FileDescriptor file(path, O_RDONLY | O_NONBLOCK);
    if (!file) throw_runtime("cannot open ", path, ": ", system_message(errno));
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw_runtime(path, ": ", system_message(errno));
    if (!S_ISREG(status.st_mode)) throw_runtime(path, " is not a regular file");
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return;
    void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) throw_runtime("cannot map ", path, ": ", system_message(errno));
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

#endif

/// A name in the folder of `target` that begins as its own does, as far as the 255 units of a file's name go.
inline std::filesystem::path name_beside(const std::filesystem::path& target, const std::string& ending) {
  constexpr std::size_t longest = 255;
  auto name = target.filename().native();
  if (name.size() + ending.size() > longest) {
    std::size_t size = ending.size() < longest ? longest - ending.size() : 0;
    const auto continues = [&] { return (static_cast<unsigned>(name[size]) & 0xc0u) == 0x80u; };
    while (sizeof(name[0]) == 1 && size > 0 && continues()) --size;  // no half of a UTF-8 character
    name.resize(size);
  }
  std::filesystem::path path = target;
  path.replace_filename(name);
  path += ending;
  return path;
}

/// A new file beside `target` that takes its place at `commit()`, and vanishes otherwise. Only a regular file
/// is ever replaced; a symbolic link stays, and what it points to is replaced. std::runtime_error, naming the
/// target and beginning with `who`.
class AtomicFile {
 public:
  AtomicFile(const std::filesystem::path& target, std::string who)
      : who_(std::move(who)),
        target_(replaced_by(target)),
        path_(unused_name(target_)),
        file_(std::in_place, path_) {
    if (!*file_) fail("cannot create", errno);
    // what only its owner may read stays so
    std::error_code ignored;
    const auto replaced = std::filesystem::status(target_, ignored);
    if (std::filesystem::exists(replaced))
      std::filesystem::permissions(path_, replaced.permissions(), ignored);
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() {
    if (!file_ || committed_) return;
    file_.reset();  // some systems remove no open file
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  void write(std::span<const std::byte> bytes) {
    if (const int error = file_->write(bytes)) fail("cannot write", error);
  }

  void commit() {
    if (const int error = file_->finish()) fail("cannot synchronise", error);
    std::error_code error;
    std::filesystem::rename(path_, target_, error);
    if (error) fail("cannot rename to its final name", error.value());
    committed_ = true;
    // The file is whole already; this only hastens the rename.
    NewFile::finish_folder(target_.has_parent_path() ? target_.parent_path() : ".");
  }

 private:
  std::filesystem::path replaced_by(const std::filesystem::path& target) const {
    namespace fs = std::filesystem;
    std::error_code ignored;
    const fs::file_status status = fs::status(target, ignored);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      throw_runtime(who_, ": cannot rename a file to ", target,
                    ": what is there is not a regular file; expected one, or a name that is free");
    }
    if (!fs::is_symlink(fs::symlink_status(target, ignored))) return target;
    const fs::path resolved = fs::weakly_canonical(target, ignored);
    return ignored ? target : resolved;
  }

  static std::filesystem::path unused_name(const std::filesystem::path& target) {
    static std::atomic<unsigned> counter{0};
    for (;;) {
      auto path = name_beside(target, concatenate(".", process_number(), "-", counter++, ".tmp"));
      std::error_code ignored;
      if (!std::filesystem::exists(path, ignored)) return path;
    }
  }

  [[noreturn]] void fail(const char* what, int error) const {
    throw_runtime(who_, ": ", target_, ": ", what, " (temporary file ", path_, "): ", system_message(error));
  }

  std::string who_;
  std::filesystem::path target_, path_;
  std::optional<NewFile> file_;
  bool committed_ = false;
};

}  // namespace rotorlin::detail
