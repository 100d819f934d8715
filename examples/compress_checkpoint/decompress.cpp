// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "checkpoint_files.hpp"
#include "common/output.hpp"
#include "common/progress.hpp"
#include "compress.hpp"
#include "grams.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"

namespace examples {

using namespace rotorlin;

namespace {

/// Whether the dense weights go to a folder: where the target is one, or has no ending that says otherwise.
bool to_folder(const std::filesystem::path& target, const std::string& source) {
  return source == "safetensors" &&
         (target.extension() != ".safetensors" || std::filesystem::is_directory(target));
}

/// The layers of a compressed file as patterns: each by its own name.
std::vector<NamePattern> patterns_of(const nlohmann::json& description) {
  std::vector<NamePattern> patterns;
  for (const auto& [name, layer] : description.at("layers").items()) {
    if (!layer.contains("reads")) continue;  // of version 1
    patterns.push_back({layer.at("tensor"), layer.at("type"), layer.at("reads"),
                        layer.value("transposed", false) ? Orientation::transposed : Orientation::linear});
  }
  return patterns;
}

nlohmann::json description_of(const SafetensorsFile& file) {
  nlohmann::json description = rotorlin::detail::parse_strict_json(rotorlin::detail::metadata_at(
      file, description_key, "expected a file that this program made without --decompress"));
  const nlohmann::json& version = description.at("version");
  if (version != 1 && version != 2)
    rotorlin::detail::throw_runtime("version ", version.dump(), ", expected 1 or 2");
  const std::string source = description.at("source");
  if (source != "llama2.c" && source != "safetensors")
    rotorlin::detail::throw_runtime("source '", source, "', expected llama2.c or safetensors");
  return description;
}

/// The original, as it was compressed.
Sources sources_of(const nlohmann::json& description, Sources sources) {
  if (description.contains("calibration_tokens")) sources.tokens = description["calibration_tokens"];
  if (std::vector<NamePattern> own = patterns_of(description); !own.empty())
    sources.patterns = std::move(own);
  return sources;
}

/// Errors of the dense weights against the original, held against those that the file reports.
void verify(const nlohmann::json& description, const std::filesystem::path& target, const Checkpoint& before,
            Sources sources) {
  const std::filesystem::path model = sources.model;
  if (sources.config.empty()) sources.config = CheckpointFiles::config_of(model);
  sources.model = target;
  const auto after = open_checkpoint(sources);
  Spool spool(target);
  const GramFiles grams = gather(before, spool);
  double worst = 0;
  std::size_t measured = 0;
  for (std::size_t i = 0; i < before.slots().size(); ++i) {
    const Slot& slot = before.slots()[i];
    if (!description["layers"].contains(slot.name)) continue;
    const Matrix<double> gram = grams.files.at(slot.reads)->matrix<double>("gram"), weight = before.weight(i),
                         missing = weight - after->weight(i);
    const double all = output_energy(weight, gram);
    if (!(all > 0) || description["layers"][slot.name].at("relative_error").is_null()) {
      ++measured;
      continue;
    }
    const double error = std::sqrt(output_energy(missing, gram) / all);
    const double reported = description["layers"][slot.name].at("relative_error");
    // what the rounding of every entry to 16 bits adds
    const double noise = (weight - missing).cwiseAbs2().colwise().sum().dot(gram.diagonal());
    const double rounding = rotorlin::detail::epsilon_of(slot.dtype) / 2 * std::sqrt(noise / all);
    worst = std::max(worst, std::abs(error - reported));
    ++measured;
    if (!(std::abs(error - reported) <= 1e-4 + 0.01 * reported + rounding)) {
      rotorlin::detail::throw_runtime(target.string(), ": layer '", slot.name, "' has the relative error ",
                                      error, ", reported were ", reported,
                                      "; are the model and the activations those of the compression?");
    }
  }
  if (measured != description["layers"].size()) {
    rotorlin::detail::throw_runtime(model.string(), ": ", measured, " of ", description["layers"].size(),
                                    " layers were found again");
  }
  std::printf("relative errors of %zu layers as reported, within %.1g\n", measured, worst);
  if (const auto cross_entropy = after->evaluate({}))
    std::printf("cross-entropy %.4f nats\n", *cross_entropy);
}

}  // namespace

void decompress(const std::filesystem::path& compressed, const std::filesystem::path& named,
                const Sources* original) {
  const SafetensorsFile file(compressed);
  try {
    const nlohmann::json description = description_of(file);
    const std::string source = description.at("source");
    const bool as_folder = to_folder(named, source);
    std::vector<std::filesystem::path> inputs = {compressed};
    std::unique_ptr<Checkpoint> before;
    Sources sources;
    if (original != nullptr) {
      sources = sources_of(description, *original);
      before = open_checkpoint(sources);
      for (const auto& path : before->inputs()) inputs.push_back(path);
    }
    const std::filesystem::path target = as_folder ? NewFolder::check(named) : output_file(named, inputs);
    if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
    source == "llama2.c" ? write_llama(file, description, target)
                         : write_tensors(file, description, target, as_folder);
    std::uintmax_t bytes = as_folder ? 0 : std::filesystem::file_size(target);
    if (as_folder) {
      for (const auto& entry : std::filesystem::directory_iterator(target)) bytes += entry.file_size();
    }
    std::printf("%s: dense weights, %s bytes\n", target.c_str(),
                with_commas(static_cast<long long>(bytes)).c_str());
    if (before != nullptr) verify(description, target, *before, sources);
  } catch (const nlohmann::json::exception& error) {
    rotorlin::detail::throw_runtime(compressed.string(), ": the description '", description_key,
                                    "' does not make sense: ", error.what());
  }
}

}  // namespace examples
