// SPDX-License-Identifier: MIT
/// \file
/// What a program writes: whole or not at all, never over what it reads, and never in the place of anything
/// but a regular file.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "rotorlin/io/file.hpp"

namespace examples {

namespace detail {

/// Device and inode of what a path leads to, however it is spelt; nullopt where there is nothing.
inline std::optional<std::pair<dev_t, ino_t>> file_identity(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

/// The input that `target` is, by device and inode; empty where it is none.
inline std::filesystem::path same_file(const std::filesystem::path& target,
                                       const std::vector<std::filesystem::path>& inputs) {
  const auto identity = file_identity(target);
  if (!identity) return {};
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const std::filesystem::path& input) {
    return !input.empty() && file_identity(input) == identity;
  });
  return found == inputs.end() ? std::filesystem::path() : *found;
}

/// Where the links of a path lead: what a write to it would have to replace. Not through /proc, as
/// /dev/stdout: open files have no name that could be given to another file.
inline std::filesystem::path resolved(const std::filesystem::path& given) {
  std::filesystem::path path = given;
  for (int hops = 0;; ++hops) {
    const auto folder = std::filesystem::weakly_canonical(path.has_parent_path() ? path.parent_path() : ".");
    if ((folder / "").string().starts_with("/proc/"))
      throw std::runtime_error(given.string() + " is an open file, not one with a name that can be written");
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path))) return path;
    if (hops == 40) throw std::runtime_error(given.string() + " is a circle of links");
    path = path.parent_path() / std::filesystem::read_symlink(path);
  }
}

[[noreturn]] inline void can_not_write(const std::filesystem::path& path, const std::string& why) {
  throw std::runtime_error("write_file: can't write " + path.string() + ": " + why +
                           "; name a folder that may be written to, on a disk with space left");
}

}  // namespace detail

/// The file that a program may write where `--out` names `target`: `target`, links followed. \throws
/// std::runtime_error where it is one of the inputs under whatever name (links, case, spelling), or something
/// other than a regular file: a folder, a device, a pipe, /dev/stdout. To be called before the work.
inline std::filesystem::path output_file(const std::filesystem::path& target,
                                         const std::vector<std::filesystem::path>& inputs = {}) {
  namespace fs = std::filesystem;
  const auto fail = [&](const std::string& what) { throw std::runtime_error(target.string() + " " + what); };
  if (!target.has_filename()) fail("names no file to write");
  fs::path path;
  try {
    path = detail::resolved(target);
    const fs::file_status status = fs::status(path);
    if (fs::is_directory(status)) fail("is a folder, expected a file to write");
    if (fs::exists(status) && !fs::is_regular_file(status))
      fail("is a device, pipe or socket; only regular files are replaced");
    const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (fs::exists(folder) && !fs::is_directory(folder))
      fail("can't be written: " + folder.string() + " is no folder");
    if (fs::exists(folder) && ::access(folder.c_str(), W_OK | X_OK) != 0)
      fail("can't be written: " + std::string(std::strerror(errno)));
  } catch (const fs::filesystem_error& error) {
    fail("can't be written: " + error.code().message());
  }
  if (const fs::path input = detail::same_file(path, inputs); !input.empty())
    fail("would be overwritten, and is read: it is " + input.string() + "; name another file");
  return path;
}

/// Writes a whole file through a temporary one, so that a reader never meets half of it.
/// \throws std::runtime_error that names the file where it can't be written; nothing is left of it then.
inline void write_file(const std::filesystem::path& path, const std::string& content) {
  try {
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
    rotorlin::detail::AtomicFile file(output_file(path), "write_file");
    file.write(std::as_bytes(std::span(content)));
    file.commit();
  } catch (const std::filesystem::filesystem_error& error) {
    detail::can_not_write(path, error.code().message());
  } catch (const std::exception& error) {
    const std::string what = error.what();
    const std::size_t reason = what.rfind(": ");
    detail::can_not_write(path, reason == what.npos ? what : what.substr(reason + 2));
  }
}

/// A folder of files that appears under its name at `commit()`, whole, or not at all.
class NewFolder {
 public:
  /// \throws std::runtime_error where `target` exists and is not an empty folder, or can't be made.
  explicit NewFolder(const std::filesystem::path& target)
      : target_(check(target)),
        path_(rotorlin::detail::name_beside(target_, "." + std::to_string(::getpid()) + ".tmp")) {
    try {
      if (target_.has_parent_path()) std::filesystem::create_directories(target_.parent_path());
      if (!std::filesystem::create_directory(path_))
        throw std::runtime_error(path_.string() + " is there already");
    } catch (const std::filesystem::filesystem_error& error) {
      throw std::runtime_error(target.string() + " can't be made: " + error.code().message());
    }
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  /// Where its files are to be written.
  const std::filesystem::path& path() const { return path_; }
  void commit() {
    std::error_code error;
    std::filesystem::rename(path_, target_, error);
    if (error) throw std::runtime_error(target_.string() + " can't be written: " + error.message());
    path_.clear();
  }

  /// `target` without a slash at its end, if a folder may appear there. To be called before the work.
  static std::filesystem::path check(std::filesystem::path target) {
    if (!target.has_filename()) target = target.parent_path();
    const auto status = std::filesystem::symlink_status(target);
    if (std::filesystem::exists(status) &&
        (!std::filesystem::is_directory(status) || !std::filesystem::is_empty(target)))
      throw std::runtime_error(target.string() + " is there and not an empty folder; name a new one");
    return target;
  }

 private:
  std::filesystem::path target_, path_;
};

/// Makes a folder where it is missing, for tables (.csv) and plots (.svg). \throws std::runtime_error where
/// no file can be written into it, or where such a file is one of the inputs or no regular file: to be learnt
/// before hours of work, not after.
inline void prepare_folder(const std::filesystem::path& folder,
                           const std::vector<std::filesystem::path>& inputs = {}) {
  auto probe = folder / "rotorlin_probe";
  while (std::filesystem::exists(std::filesystem::symlink_status(probe.parent_path())) &&
         std::filesystem::exists(std::filesystem::symlink_status(probe)))
    probe += "_";
  write_file(probe, "");
  std::filesystem::remove(probe);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto ending = entry.path().extension();
    if (ending == ".csv" || ending == ".svg") output_file(entry.path(), inputs);
  }
}

/// The files of a folder of data, for a program that reads some of them: all but tables and plots.
inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const auto ending = entry.path().extension();
    if (ending != ".csv" && ending != ".svg") files.push_back(entry.path());
  }
  return files;
}

}  // namespace examples
