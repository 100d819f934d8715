// SPDX-License-Identifier: MIT
// Finished groups of a compression on the disk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint.hpp"
#include "common/output.hpp"
#include "common/table.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "spool.hpp"

namespace examples {

/// JSON has no infinity: null stands for it.
inline double number_or_infinity(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

/// Finished groups on the disk: each as soon as it is done, in a folder beside the target that a run which is
/// interrupted leaves, and the same run, started again, goes on from.
class GroupFiles {
 public:
  /// `run` says what is compressed and how: the folder belongs to it alone.
  GroupFiles(const std::filesystem::path& target, const nlohmann::json& run,
             const std::vector<rotorlin::PlannedGroup>& plan, const std::vector<Slot>& slots)
      : target_(target), folder_(target), run_(run.dump()), files_(plan.size()) {
    folder_ += format(".%016llx.groups", fingerprint(run_));
    for (std::size_t g = 0; g < plan.size(); ++g) {
      std::vector<std::string> members;
      for (const std::size_t i : plan[g].members) members.push_back(slots[i].name);
      try {  // what can't be read, or is another group, is made again
        if (!std::filesystem::exists(path(g))) continue;
        auto file = std::make_shared<const rotorlin::SafetensorsFile>(path(g));
        if (nlohmann::json::parse(file->metadata().at(report_key)).at("members") == members)
          files_[g] = std::move(file);
      } catch (const std::exception&) {
      }
    }
  }

  bool has(std::size_t number) const { return files_[number] != nullptr; }
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::count_if(files_.begin(), files_.end(), [](const auto& f) { return f != nullptr; }));
  }

  /// From any thread, one call for each number. \throws std::runtime_error, naming the target.
  void keep(std::size_t number, const rotorlin::CompressedGroup& group,
            const rotorlin::StorageOptions& storage) {
    std::vector<rotorlin::NamedSharedLayer<float>> layers;
    nlohmann::json reports = nlohmann::json::array();
    for (std::size_t m = 0; m < group.layers.size(); ++m) {
      layers.push_back({group.report.members[m], group.layers[m]});
      reports.push_back(
          {{"name", group.layer_reports[m].name}, {"relative_error", group.layer_reports[m].relative_error}});
    }
    const rotorlin::GroupReport& report = group.report;
    rotorlin::SafetensorsWriter writer;
    rotorlin::write_shared_layers(writer, layers, storage);
    writer.set_metadata(report_key, nlohmann::json({{"members", report.members},
                                                    {"rank", report.size.rank},
                                                    {"nonzeros", report.size.nonzeros},
                                                    {"seconds", report.seconds},
                                                    {"layers", reports}})
                                        .dump());
    blame_target(target_, [&] {
      std::filesystem::create_directories(folder_);
      if (!std::filesystem::exists(folder_ / "run.json")) write_file(folder_ / "run.json", run_);
      writer.write(path(number));
      files_[number] = std::make_shared<const rotorlin::SafetensorsFile>(path(number));
    });
  }

  /// What was reported of a group, by the layers too; bytes as stored, without biases.
  rotorlin::GroupReport report(std::size_t number, std::map<std::string, double>& relative_errors) const {
    const nlohmann::json stored = nlohmann::json::parse(files_[number]->metadata().at(report_key));
    rotorlin::GroupReport report;
    report.members = stored.at("members").get<std::vector<std::string>>();
    report.size = {stored.at("rank"), stored.at("nonzeros")};
    report.bytes = bytes(*files_[number]);
    report.seconds = stored.at("seconds");
    for (const auto& layer : stored.at("layers"))
      relative_errors[layer.at("name")] = number_or_infinity(layer.at("relative_error"));
    return report;
  }

  /// All of them into one file.
  void merge(rotorlin::SafetensorsWriter& writer) const {
    nlohmann::json all = nlohmann::json::array();
    for (std::size_t g = 0; g < files_.size(); ++g) {
      const rotorlin::SafetensorsFile& file = *files_[g];
      const std::string own = "dictionaries.0.", prefix = rotorlin::detail::dictionary_prefix(g);
      for (const rotorlin::TensorInfo& tensor : file.tensors()) {
        const std::string name =
            tensor.name.starts_with(own) ? prefix + tensor.name.substr(own.size()) : tensor.name;
        writer.add_view(name, tensor.dtype, tensor.shape, file.bytes(tensor.name));
      }
      for (nlohmann::json entry :
           nlohmann::json::parse(file.metadata().at(rotorlin::detail::shared_layers_key))) {
        entry["dictionary"] = std::to_string(g);
        all.push_back(std::move(entry));
      }
    }
    writer.set_metadata("format", "rotorlin");
    writer.set_metadata(rotorlin::detail::shared_layers_key, all.dump());
  }

  /// When the target is whole.
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  static constexpr const char* report_key = "group_report";

  static double bytes(const rotorlin::SafetensorsFile& file) {
    double sum = 0;
    for (const rotorlin::TensorInfo& tensor : file.tensors()) {
      if (!tensor.name.ends_with(".bias")) sum += static_cast<double>(tensor.end - tensor.begin);
    }
    return sum;
  }
  /// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/).
  static unsigned long long fingerprint(const std::string& text) {
    unsigned long long hash = 14695981039346656037ULL;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return hash;
  }
  std::filesystem::path path(std::size_t number) const {
    return folder_ / (std::to_string(number) + ".safetensors");
  }

  std::filesystem::path target_, folder_;
  std::string run_;
  std::vector<Spool::File> files_;
};

}  // namespace examples
