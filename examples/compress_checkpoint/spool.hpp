// SPDX-License-Identifier: MIT
// What a program has no memory for, on the disk.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "rotorlin/io/safetensors.hpp"

namespace examples {

/// Keeps tensors on the disk, beside a file that will be written there: in files without a name, which vanish
/// with their last user, and with the process however it ends.
class Spool {
 public:
  using File = std::shared_ptr<const rotorlin::SafetensorsFile>;

  explicit Spool(std::filesystem::path target) : path_(std::move(target)) {
    path_ += rotorlin::detail::concatenate(".", ::getpid(), ".spool");
  }

  /// From any thread.
  File keep(const rotorlin::SafetensorsWriter& writer) {
    const std::lock_guard lock(mutex_);
    writer.write(path_);
    const auto file = std::make_shared<const rotorlin::SafetensorsFile>(path_);
    std::filesystem::remove(path_);
    return file;
  }

 private:
  std::filesystem::path path_;
  std::mutex mutex_;
};

}  // namespace examples
