// SPDX-License-Identifier: MIT
// What a program has no memory for, on the disk.
#pragma once

#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/io/safetensors.hpp"

namespace examples {

/// Runs `write`, whose errors speak of files that the user never named; what is thrown names the file that
/// `target` is, and the reason.
template <class F>
void blame_target(const std::filesystem::path& target, const F& write) {
  try {
    write();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    const std::size_t reason = what.rfind(": ");
    rotorlin::detail::throw_runtime(target.string(), " can't be written: what waits beside it on the disk: ",
                                    reason == what.npos ? what : what.substr(reason + 2));
  }
}

/// Keeps tensors on the disk, beside a file that will be written there: in files without a name, which vanish
/// with their last user, and with the process however it ends.
class Spool {
 public:
  using File = std::shared_ptr<const rotorlin::SafetensorsFile>;

  explicit Spool(std::filesystem::path target)
      : target_(std::move(target)),
        path_(rotorlin::detail::name_beside(
            target_, rotorlin::detail::concatenate(".", rotorlin::detail::process_number(), ".spool"))) {}

  /// From any thread. \throws std::runtime_error, naming the target.
  File keep(const rotorlin::SafetensorsWriter& writer) {
    const std::lock_guard lock(mutex_);
    File file;
    blame_target(target_, [&] {
      writer.write(path_);
      file = std::make_shared<const rotorlin::SafetensorsFile>(path_);
      std::filesystem::remove(path_);
    });
    return file;
  }

 private:
  std::filesystem::path target_, path_;
  std::mutex mutex_;
};

}  // namespace examples
