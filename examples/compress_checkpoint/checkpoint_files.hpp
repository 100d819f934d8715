// SPDX-License-Identifier: MIT
/// \file
/// Which safetensors files, and which of their tensors, make up a checkpoint.
///
/// Hugging Face stores a large model as model-00001-of-0000N.safetensors and so on, with an index
/// model.safetensors.index.json: {"metadata": {...}, "weight_map": {tensor: file}}. Where there is an index,
/// it and nothing else says what belongs. Without one, a checkpoint is one file or a complete set of
/// NAME-0000i-of- 0000N.safetensors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/io/json.hpp"
#include "rotorlin/io/safetensors.hpp"

namespace examples {

namespace detail {

/// "'a', 'b', 'c' and 4 more".
template <class Names>
std::string listed(const Names& names, std::size_t most = 8) {
  std::string text;
  std::size_t count = 0;
  for (const auto& name : names) {
    if (count == most) break;
    text += (count++ > 0 ? ", '" : "'") + std::string(name) + "'";
  }
  if (names.size() > count) text += " and " + std::to_string(names.size() - count) + " more";
  return text;
}

/// What NAME-00002-of-00005.safetensors says of itself.
struct ShardName {
  std::string stem;
  unsigned long number, count;
};

inline std::optional<ShardName> shard_name(const std::string& file) {
  constexpr std::string_view ending = ".safetensors", middle = "-of-";
  if (!file.ends_with(ending)) return std::nullopt;
  const std::string name = file.substr(0, file.size() - ending.size());
  const std::size_t of = name.rfind(middle);
  if (of == name.npos || of == 0) return std::nullopt;
  const std::size_t dash = name.rfind('-', of - 1);
  if (dash == name.npos || dash == 0) return std::nullopt;
  const std::string number = name.substr(dash + 1, of - dash - 1), count = name.substr(of + middle.size());
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == text.npos;
  };
  if (!is_number(number) || !is_number(count)) return std::nullopt;
  return ShardName{name.substr(0, dash), std::stoul(number), std::stoul(count)};
}

}  // namespace detail

/// The weight map of an index file: the name of a file for every tensor. \throws std::runtime_error for text
/// that is not JSON of that form, for a key that stands twice, and for files that are not plain names ending
/// in .safetensors: an index speaks of its own folder and of nothing outside.
inline std::map<std::string, std::string> parse_checkpoint_index(std::string_view text) {
  using rotorlin::detail::throw_runtime;
  nlohmann::json index;
  try {
    index = rotorlin::detail::parse_strict_json(text);
  } catch (const std::exception& error) {
    throw_runtime("is not valid JSON: ", error.what());
  }
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw_runtime(
        "has no object 'weight_map'; expected an index as Hugging Face's, {\"weight_map\": {TENSOR: FILE}}");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, value] : index["weight_map"].items()) {
    if (!value.is_string())
      throw_runtime("weight_map of '", tensor, "' is ", value.type_name(), ", expected the name of a file");
    const std::string file = value.template get<std::string>();
    if (file.find_first_of(std::string_view("/\\\0", 3)) != file.npos)
      throw_runtime("tensor '", tensor, "' is placed in ", value.dump(),
                    ", expected the name of a file beside the index");
    if (!file.ends_with(".safetensors"))
      throw_runtime("tensor '", tensor, "' is placed in ", value.dump(),
                    ", expected a file ending in .safetensors");
    files.emplace(tensor, file);
  }
  if (files.empty()) throw_runtime("has an empty weight_map: no tensor belongs to the checkpoint");
  return files;
}

/// The files of a checkpoint, open, and the file that counts for each tensor.
class CheckpointFiles {
 public:
  /// `path` is a safetensors file, an index (.json), or a folder. \throws std::runtime_error naming what is
  /// missing, damaged or contradictory: a file or a tensor of the index that is not there, an incomplete set
  /// of shards, several files that form no checkpoint, a tensor that stands in two of them.
  explicit CheckpointFiles(const std::filesystem::path& path) : path_(path) {
    namespace fs = std::filesystem;
    if (!fs::exists(path)) fail(path, "does not exist");
    if (fs::is_directory(path)) {
      if (const fs::path index = find_index(path); !index.empty()) {
        open_indexed(index);
      } else {
        open_set(path);
      }
    } else if (path.extension() == ".json") {
      open_indexed(path);
    } else {
      const auto shard = detail::shard_name(path.filename().string());
      if (shard && shard->count > 1) {
        fail(path, "is one of ", shard->count, " files of a checkpoint; name their folder or their index, ",
             "or rename the file if it is whole by itself");
      }
      open(path);
      take_all();
    }
  }

  const std::filesystem::path& path() const { return path_; }
  /// Of the files that belong, one after another: what they are called, and what they are.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<rotorlin::SafetensorsFile>& files() const { return files_; }
  /// Which of the files counts, by tensor.
  const std::map<std::string, std::size_t>& tensors() const { return tensors_; }
  bool contains(const std::string& tensor) const { return tensors_.contains(tensor); }
  /// The file in which a tensor counts. \throws std::out_of_range where there is none.
  const rotorlin::SafetensorsFile& file_of(const std::string& tensor) const {
    return files_[tensors_.at(tensor)];
  }

  /// The index file, empty where there is none, and its text.
  const std::filesystem::path& index() const { return index_; }
  const std::string& index_text() const { return index_text_; }
  /// Beside the checkpoint, whether it is there or not.
  std::filesystem::path config() const { return config_of(path_); }
  static std::filesystem::path config_of(const std::filesystem::path& path) {
    return (std::filesystem::is_directory(path) ? path : path.parent_path()) / "config.json";
  }
  /// .safetensors files of the folder that don't belong.
  const std::vector<std::string>& ignored() const { return ignored_; }
  /// Everything that was read.
  std::vector<std::filesystem::path> read_paths() const {
    std::vector<std::filesystem::path> all;
    if (!index_.empty()) all.push_back(index_);
    for (const auto& file : files_) all.push_back(file.path());
    return all;
  }
  /// Bytes of the tensors that belong, and of what describes them.
  double bytes() const {
    double sum = 0;
    for (const auto& file : files_) sum += static_cast<double>(std::filesystem::file_size(file.path()));
    for (std::size_t f = 0; f < files_.size(); ++f) {
      for (const auto& tensor : files_[f].tensors()) {
        const auto place = tensors_.find(tensor.name);
        if (place == tensors_.end() || place->second != f)
          sum -= static_cast<double>(tensor.end - tensor.begin);
      }
    }
    return sum;
  }

 private:
  using Path = std::filesystem::path;

  template <class... Parts>
  [[noreturn]] static void fail(const Path& path, const Parts&... parts) {
    rotorlin::detail::throw_runtime(path.string(), " ", parts...);
  }

  /// Not hidden; also links that lead nowhere, which are to be named and not passed over.
  template <class Wanted>
  static std::vector<std::string> names_in(const Path& folder, const Wanted& wanted) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with('.') && wanted(name) && !entry.is_directory()) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  static std::vector<std::string> safetensors_in(const Path& folder) {
    return names_in(folder, [](const std::string& name) { return name.ends_with(".safetensors"); });
  }

  /// model.safetensors.index.json, or else the only index of the folder; empty where there is none.
  static Path find_index(const Path& folder) {
    constexpr const char* usual = "model.safetensors.index.json";
    const auto names =
        names_in(folder, [](const std::string& name) { return name.ends_with(".safetensors.index.json"); });
    if (names.empty()) return {};
    if (std::find(names.begin(), names.end(), usual) != names.end()) return folder / usual;
    if (names.size() > 1)
      fail(folder, "has several indices, ", detail::listed(names), "; name the one that is meant");
    return folder / names[0];
  }

  void open(const Path& path) {
    names_.push_back(path.filename().string());
    files_.emplace_back(path);
  }

  /// All tensors of all files.
  void take_all() {
    for (std::size_t f = 0; f < files_.size(); ++f) {
      for (const auto& tensor : files_[f].tensors()) {
        if (const auto [place, is_new] = tensors_.emplace(tensor.name, f); !is_new) {
          fail(files_[f].path(), "holds tensor '", tensor.name, "', which stands in '", names_[place->second],
               "' too, and there is no index that says which of them counts");
        }
      }
    }
  }

  void open_indexed(const Path& index) {
    index_ = index;
    try {
      const rotorlin::detail::MappedFile mapped(index);
      index_text_.assign(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
    } catch (const std::exception& error) {
      fail(index, "can't be read: ", error.what());
    }
    std::map<std::string, std::string> file_of;
    try {
      file_of = parse_checkpoint_index(index_text_);
    } catch (const std::exception& error) {
      fail(index, error.what());
    }
    std::map<std::string, std::size_t> numbers;  // of files
    for (const auto& [tensor, file] : file_of) numbers.emplace(file, 0);
    const Path folder = index.parent_path();
    std::vector<std::string> missing;
    for (auto& [file, number] : numbers) {
      number = files_.size();
      if (!std::filesystem::exists(folder / file)) {
        missing.push_back(file);
      } else if (missing.empty()) {
        open(folder / file);
      }
    }
    if (!missing.empty()) {
      fail(index, "names ", detail::listed(missing), ", of which there ", missing.size() == 1 ? "is" : "are",
           " none in its folder; fetch the whole checkpoint");
    }
    for (const auto& [tensor, file] : file_of) {
      const std::size_t number = numbers.at(file);
      if (!files_[number].contains(tensor)) {
        std::string elsewhere;
        for (std::size_t f = 0; f < files_.size(); ++f) {
          if (files_[f].contains(tensor)) elsewhere = "; it stands in '" + names_[f] + "'";
        }
        fail(index, "places tensor '", tensor, "' in '", file, "', which does not hold it", elsewhere);
      }
      tensors_.emplace(tensor, number);
    }
    for (const std::string& name : safetensors_in(folder.empty() ? "." : folder)) {
      if (!numbers.contains(name)) ignored_.push_back(name);
    }
  }

  /// Without an index: one file, or a whole set of shards.
  void open_set(const Path& folder) {
    const std::vector<std::string> names = safetensors_in(folder);
    if (names.empty()) fail(folder, "has no file ending in .safetensors");
    const auto first = detail::shard_name(names[0]);
    std::set<unsigned long> present;
    bool one_set = true;
    for (const std::string& name : names) {
      const auto shard = detail::shard_name(name);
      one_set = one_set && shard && first && shard->stem == first->stem && shard->count == first->count &&
                shard->number >= 1 && shard->number <= shard->count && present.insert(shard->number).second;
    }
    if (!one_set && (names.size() > 1 || first)) {
      fail(folder, "holds ", detail::listed(names), ", which don't form one checkpoint, and no ",
           "model.safetensors.index.json that says what belongs; name the file or the index that is meant");
    }
    if (first && present.size() != first->count) {
      std::vector<std::string> missing;
      for (unsigned long i = 1; i <= first->count && missing.size() < 1000; ++i) {
        std::string number = std::to_string(i);
        if (number.size() < 5) number.insert(0, 5 - number.size(), '0');
        if (!present.contains(i)) missing.push_back(number);
      }
      fail(folder, "holds ", detail::listed(names), ", ", present.size(), " of ", first->count,
           " files of a checkpoint; missing are the numbers ", detail::listed(missing));
    }
    for (const std::string& name : names) open(folder / name);
    take_all();
  }

  std::filesystem::path path_, index_;
  std::string index_text_;
  std::vector<std::string> names_, ignored_;
  std::vector<rotorlin::SafetensorsFile> files_;
  std::map<std::string, std::size_t> tensors_;
};

}  // namespace examples
