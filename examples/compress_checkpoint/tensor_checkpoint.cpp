// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "activations.hpp"
#include "checkpoint.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/layers/shared_dictionary_file.hpp"
#include "spool.hpp"

namespace examples {

using rotorlin::DType;
using rotorlin::SafetensorsFile;
using rotorlin::SafetensorsWriter;
using rotorlin::TensorInfo;
using rotorlin::detail::throw_runtime;

std::vector<NamePattern> llama_patterns() {
  const std::string attention = "model.layers.*.self_attn.", feed_forward = "model.layers.*.mlp.";
  const std::string q = attention + "q_proj", gate = feed_forward + "gate_proj";
  return {{q + ".weight", "q", q},
          {attention + "k_proj.weight", "k", q},
          {attention + "v_proj.weight", "v", q},
          {attention + "o_proj.weight", "o", attention + "o_proj"},
          {gate + ".weight", "gate", gate},
          {feed_forward + "up_proj.weight", "up", gate},
          {feed_forward + "down_proj.weight", "down", feed_forward + "down_proj"}};
}

namespace {

std::string without_ending(const std::string& tensor) {
  constexpr std::string_view ending = ".weight";
  return tensor.ends_with(ending) ? tensor.substr(0, tensor.size() - ending.size()) : tensor;
}

/// The number that stands for the * of a pattern, "" where there is no *; nullopt where the name is another.
std::optional<std::string> match(const std::string& pattern, const std::string& text) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == text ? std::optional<std::string>("") : std::nullopt;
  const std::string before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (text.size() <= before.size() + after.size() || !text.starts_with(before) || !text.ends_with(after))
    return std::nullopt;
  const std::string number = text.substr(before.size(), text.size() - before.size() - after.size());
  if (number.find_first_not_of("0123456789") != number.npos || number.size() > 9) return std::nullopt;
  return number;
}

std::string filled(std::string pattern, const std::string& number) {
  if (const std::size_t star = pattern.find('*'); star != pattern.npos) pattern.replace(star, 1, number);
  return pattern;
}

template <class Stored>
void add_as(SafetensorsWriter& writer, const std::string& name, const Matrix<float>& m, bool vector) {
  if (vector) {
    writer.add(name, m.col(0).template cast<Stored>());
  } else {
    writer.add(name, m.template cast<Stored>());
  }
}

/// A matrix, or a vector that is its only column, as a tensor of a type.
void add_as(DType dtype, SafetensorsWriter& writer, const std::string& name, const Matrix<float>& m,
            bool vector) {
  switch (dtype) {
    case DType::f64:
      return add_as<double>(writer, name, m, vector);
    case DType::f32:
      return add_as<float>(writer, name, m, vector);
    case DType::f16:
      return add_as<Eigen::half>(writer, name, m, vector);
    case DType::bf16:
      return add_as<Eigen::bfloat16>(writer, name, m, vector);
    default:
      throw_runtime("tensor '", name, "': weights of ", rotorlin::name_of(dtype), " can't be written");
  }
}

DType dtype_named(const std::string& name, const std::string& tensor) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    if (name == rotorlin::name_of(dtype)) return dtype;
  }
  throw_runtime("tensor '", tensor, "' has dtype '", name, "', expected F64, F32, F16 or BF16");
}

class TensorCheckpoint : public Checkpoint {
 public:
  explicit TensorCheckpoint(const Sources& sources) : folder_(sources.activations) {
    open(sources.model);
    if (folder_.empty()) {
      throw_runtime(sources.model.string(),
                    ": no activations were given; expected --activations FOLDER with a ",
                    ".safetensors or .npy file of samples x features for each projection");
    }
    struct Found {
      long number;
      std::size_t pattern;
      const TensorInfo* tensor;
      std::string text;
    };
    std::vector<Found> found;
    for (const auto& [name, file] : files_of_) {
      for (std::size_t p = 0; p < sources.patterns.size(); ++p) {
        const auto number = match(sources.patterns[p].name, name);
        if (!number) continue;
        found.push_back({number->empty() ? 0 : std::stol(*number), p, &file->info(name), *number});
        break;
      }
    }
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
      return std::pair(a.number, a.pattern) < std::pair(b.number, b.pattern);
    });
    for (const Found& each : found) {
      const TensorInfo& tensor = *each.tensor;
      if (tensor.shape.size() != 2 || tensor.size() == 0) {
        throw_runtime(sources.model.string(), ": tensor '", tensor.name, "' has shape ",
                      rotorlin::detail::shape(tensor.shape), ", expected a matrix, out x in");
      }
      const NamePattern& pattern = sources.patterns[each.pattern];
      std::string own = without_ending(tensor.name), reads = own;
      if (find_activations(folder_, reads).empty() && !pattern.reads.empty())
        reads = filled(pattern.reads, each.text);
      if (find_activations(folder_, reads).empty()) {
        throw_runtime(folder_.string(), " has no activations for '", tensor.name, "': expected ", own,
                      ".safetensors or ", own, ".npy", reads == own ? "" : ", or the same of " + reads,
                      ", samples x ", tensor.shape[1]);
      }
      dtype_named(rotorlin::name_of(tensor.dtype), tensor.name);
      slots_.push_back({own, pattern.type, tensor.shape[0], tensor.shape[1], reads, tensor.dtype});
      tensors_.push_back(tensor.name);
    }
    if (slots_.empty()) {
      throw_runtime(sources.model.string(), ": none of its ", files_of_.size(), " tensors (the first: '",
                    files_of_.empty() ? "" : files_of_.begin()->first,
                    "') matches a pattern; expected names like '", sources.patterns[0].name,
                    "', or others by --pattern");
    }
  }

  Matrix<double> weight(std::size_t slot) const override {
    return files_of_.at(tensors_.at(slot))->matrix<double>(tensors_[slot]);
  }
  rotorlin::VectorX<float> bias(std::size_t slot) const override {
    const std::string name = slots_.at(slot).name + ".bias";
    const auto found = files_of_.find(name);
    return found == files_of_.end() ? rotorlin::VectorX<float>() : found->second->vector<float>(name);
  }

  void for_each_gram(const std::function<void(const std::string&, Matrix<double>)>& found,
                     const Advance& advanced) const override {
    std::map<std::string, Index> features;  // of what is read
    std::vector<std::string> order;
    for (const Slot& slot : slots_) {
      const auto [place, is_new] = features.emplace(slot.reads, slot.in);
      if (is_new) order.push_back(slot.reads);
      if (place->second != slot.in) {
        throw_runtime("'", slot.name, "' has ", slot.in, " inputs, but others that read '", slot.reads,
                      "' have ", place->second);
      }
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      found(order[i], read_gram(find_activations(folder_, order[i]), features[order[i]], [&](double part) {
              advanced((static_cast<double>(i) + part) / static_cast<double>(order.size()));
            }));
    }
  }

  void carry_over(SafetensorsWriter& writer, nlohmann::json& description) const override {
    std::set<std::string> done(tensors_.begin(), tensors_.end());
    nlohmann::json& layers = description["layers"];
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      layers[slots_[i].name]["tensor"] = tensors_[i];
      layers[slots_[i].name]["dtype"] = rotorlin::name_of(slots_[i].dtype);
      const std::string bias = slots_[i].name + ".bias";
      if (const auto found = files_of_.find(bias); found != files_of_.end()) {
        layers[slots_[i].name]["bias_dtype"] = rotorlin::name_of(found->second->info(bias).dtype);
        done.insert(bias);
      }
    }
    for (const auto& [name, file] : files_of_) {
      if (done.contains(name)) continue;
      const TensorInfo& tensor = file->info(name);
      writer.add_view(name, tensor.dtype, tensor.shape, file->bytes(name));
    }
    description["source"] = "safetensors";
    description["metadata"] = nlohmann::json::object();
    for (const auto& file : files_) description["metadata"].update(file.metadata());
  }

  std::optional<double> evaluate(const std::function<Matrix<float>(std::size_t)>&) const override {
    return std::nullopt;
  }

 private:
  void open(const std::filesystem::path& path) {
    std::vector<std::filesystem::path> paths{path};
    if (std::filesystem::is_directory(path)) {
      paths.clear();
      for (const auto& entry : std::filesystem::directory_iterator(path)) {
        if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
      }
      std::sort(paths.begin(), paths.end());
      if (paths.empty()) throw_runtime(path.string(), " has no file ending in .safetensors");
    }
    for (const auto& each : paths) files_.emplace_back(each);
    for (const SafetensorsFile& file : files_) {
      for (const TensorInfo& tensor : file.tensors()) {
        if (const auto [place, is_new] = files_of_.emplace(tensor.name, &file); !is_new) {
          throw_runtime(file.path().string(), ": tensor '", tensor.name, "' stands in ",
                        place->second->path().string(), " too");
        }
      }
    }
  }

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const SafetensorsFile*> files_of_;  // by tensor
  std::vector<std::string> tensors_;                        // of the slots
};

}  // namespace

NamePattern parse_pattern(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const bool empty =
      std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
  if (parts.size() < 2 || parts.size() > 3 || empty ||
      std::count(parts[0].begin(), parts[0].end(), '*') > 1) {
    rotorlin::detail::throw_invalid(
        "--pattern '", text, "': expected NAME:TYPE or NAME:TYPE:READS with at most one * for the number ",
        "of the layer");
  }
  return {parts[0], parts[1], parts.size() == 3 ? parts[2] : ""};
}

std::unique_ptr<Checkpoint> open_tensors(const Sources& sources) {
  return std::make_unique<TensorCheckpoint>(sources);
}

std::unique_ptr<Checkpoint> open_checkpoint(const Sources& sources) {
  if (!std::filesystem::exists(sources.model)) throw_runtime(sources.model.string(), " does not exist");
  const bool tensors =
      std::filesystem::is_directory(sources.model) || sources.model.extension() == ".safetensors";
  return tensors ? open_tensors(sources) : open_llama(sources);
}

void write_tensors(const SafetensorsFile& compressed, const nlohmann::json& description,
                   const std::filesystem::path& target) {
  Spool spool(target);
  SafetensorsWriter writer;
  std::vector<Spool::File> parts;
  std::set<std::string> done;
  const nlohmann::json& layers = description.at("layers");
  for (std::size_t d = 0; d < layers.size(); ++d) {
    for (const char* ending : {"atoms", "identity_rows"})
      done.insert(rotorlin::detail::dictionary_prefix(d) + ending);
  }
  for (const auto& [name, layer] : rotorlin::read_shared_layers<float>(compressed)) {
    for (const char* ending : {".coefficients", ".values", ".mask", ".bias"}) done.insert(name + ending);
    const nlohmann::json& entry = layers.at(name);
    SafetensorsWriter part;
    add_as(dtype_named(entry.at("dtype"), name), part, entry.at("tensor"), layer.to_dense(), false);
    if (layer.has_bias()) {
      const std::string bias = name + ".bias";
      add_as(dtype_named(entry.at("bias_dtype"), bias), part, bias, Matrix<float>(layer.bias()), true);
    }
    parts.push_back(spool.keep(part));
    for (const TensorInfo& tensor : parts.back()->tensors())
      writer.add_view(tensor.name, tensor.dtype, tensor.shape, parts.back()->bytes(tensor.name));
  }
  for (const TensorInfo& tensor : compressed.tensors()) {
    if (done.contains(tensor.name)) continue;
    writer.add_view(tensor.name, tensor.dtype, tensor.shape, compressed.bytes(tensor.name));
  }
  for (const auto& [key, value] : description.at("metadata").items()) writer.set_metadata(key, value);
  writer.write(target);
}

}  // namespace examples
