// SPDX-License-Identifier: MIT
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "activations.hpp"
#include "checkpoint.hpp"
#include "checkpoint_files.hpp"
#include "common/output.hpp"
#include "forward_pass.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"
#include "spool.hpp"

namespace examples {

using rotorlin::DType;
using rotorlin::SafetensorsFile;
using rotorlin::SafetensorsWriter;
using rotorlin::TensorInfo;
using rotorlin::detail::throw_runtime;

namespace {

std::string without_ending(const std::string& tensor) {
  constexpr std::string_view ending = ".weight";
  return tensor.ends_with(ending) ? tensor.substr(0, tensor.size() - ending.size()) : tensor;
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

/// Which names count, and what says how a matrix is stored.
class Names {
 public:
  Names(const Sources& sources, const CheckpointFiles& files) : given_(!sources.patterns.empty()) {
    const std::string type = sources.preset.empty() ? read_model_type(files.config()) : "";
    preset_ = &preset_named("llama");
    if (!sources.preset.empty()) {
      preset_ = &preset_named(sources.preset);
      why_ = "as told";
    } else if (!type.empty()) {
      why_ = "the default, which knows no model_type '" + type + "'";
      for (const Preset& preset : presets()) {
        const auto& known = preset.model_types;
        if (std::find(known.begin(), known.end(), type) == known.end()) continue;
        preset_ = &preset;
        why_ = "model_type '" + type + "' in " + files.config().string();
      }
    } else {
      why_ = "the default";
      if (const std::string other = preset_resembling(files.tensors());
          !other.empty() && other != preset_->name)
        hint_ = "; these are names of preset " + other + ": add --preset " + other + " if that is what it is";
    }
    patterns_ = given_ ? sources.patterns : preset_->patterns;
  }

  const std::vector<NamePattern>& patterns() const { return patterns_; }
  Orientation orientation(const NamePattern& pattern, const std::string& tensor) const {
    if (pattern.orientation != Orientation::unknown) return pattern.orientation;
    const NamePattern* known = find_pattern(preset_->patterns, tensor);
    return known == nullptr ? Orientation::unknown : known->orientation;
  }
  std::string summary() const {
    return given_ ? "patterns as told" : "preset " + preset_->name + " (" + why_ + ")";
  }
  [[noreturn]] void fail(const CheckpointFiles& files) const {
    throw_runtime(files.path().string(), ": none of its ", files.tensors().size(), " tensors (the first: '",
                  files.tensors().empty() ? "" : files.tensors().begin()->first,
                  "') matches a pattern; expected names like '", patterns_[0].name, "', ", summary(), hint_,
                  "; others are given by --preset (", preset_names(), ") or --pattern");
  }

 private:
  bool given_;
  const Preset* preset_;
  std::string why_, hint_;
  std::vector<NamePattern> patterns_;
};

class TensorCheckpoint : public Checkpoint {
 public:
  explicit TensorCheckpoint(const Sources& sources) : files_(sources.model) {
    if (sources.activations.empty() && sources.grams.empty() && sources.calibration.empty()) {
      throw_runtime(
          sources.model.string(),
          ": no activations were given; expected --calibration FILE of tokens for a model of Llama's ",
          "kind, --activations FOLDER with a .safetensors or .npy file of samples x features for each ",
          "projection, or --grams FILE");
    }
    if (!sources.calibration.empty() || !sources.evaluation.empty()) {
      forward_ = std::make_unique<ForwardPass>(files_, sources);
      for (const auto& path : {sources.calibration, sources.evaluation, sources.tokenizer}) {
        if (!path.empty()) streams_.push_back(path);
      }
    }
    inputs_ = !sources.calibration.empty() ? forward_->inputs()
              : sources.grams.empty()      ? open_activations(sources.activations)
                                           : open_grams(sources.grams);
    const Names names(sources, files_);
    struct Found {
      std::vector<long> numbers;
      std::size_t pattern;
      const TensorInfo* tensor;
      std::vector<std::string> texts;
    };
    std::vector<Found> found;
    for (const auto& [name, number] : files_.tensors()) {
      const NamePattern* pattern = find_pattern(names.patterns(), name);
      if (pattern == nullptr) continue;
      Found each{{},
                 static_cast<std::size_t>(pattern - names.patterns().data()),
                 &files_.file_of(name).info(name),
                 *match(pattern->name, name)};
      for (const std::string& text : each.texts) each.numbers.push_back(std::stol(text));
      found.push_back(std::move(each));
    }
    if (found.empty()) names.fail(files_);
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
      return std::tie(a.numbers, a.pattern) < std::tie(b.numbers, b.pattern);
    });
    for (const Found& each : found) add(*each.tensor, names.patterns()[each.pattern], each.texts, names);
    check_names();
    summarize(names);
  }

  std::string summary() const override { return summary_; }
  std::string remarks() const override {
    return forward_ ? std::to_string(forward_->calibration_tokens()) + " tokens" : std::string();
  }
  std::vector<std::filesystem::path> inputs() const override {
    std::vector<std::filesystem::path> all = files_.read_paths();
    all.push_back(files_.config());
    all.insert(all.end(), streams_.begin(), streams_.end());
    for (const Slot& slot : slots_) all.push_back(inputs_->file(slot.reads));
    return all;
  }
  double bytes() const override { return files_.bytes(); }

  Matrix<double> weight(std::size_t slot) const override {
    const std::string& name = tensors_.at(slot);
    const Matrix<double> stored = files_.file_of(name).matrix<double>(name);
    return slots_[slot].transposed ? stored.transpose() : stored;
  }
  rotorlin::VectorX<float> bias(std::size_t slot) const override {
    const std::string name = slots_.at(slot).name + ".bias";
    return files_.contains(name) ? files_.file_of(name).vector<float>(name) : rotorlin::VectorX<float>();
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
    if (forward_ && forward_->calibrates()) {
      forward_->for_each_gram(
          [&](const std::string& reads, Matrix<double> gram) {
            if (features.contains(reads)) found(reads, std::move(gram));
          },
          advanced);
      return;
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      found(order[i], inputs_->gram(order[i], [&](double part) {
        advanced((static_cast<double>(i) + part) / static_cast<double>(order.size()));
      }));
      advanced(static_cast<double>(i + 1) / static_cast<double>(order.size()));
    }
  }

  void carry_over(SafetensorsWriter& writer, nlohmann::json& description) const override {
    nlohmann::json& layers = description["layers"];
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      nlohmann::json& layer = layers[slots_[i].name];
      layer["tensor"] = tensors_[i];
      layer["dtype"] = rotorlin::name_of(slots_[i].dtype);
      layer["type"] = slots_[i].type;
      layer["reads"] = slots_[i].reads;
      if (slots_[i].transposed) layer["transposed"] = true;
      const std::string bias = slots_[i].name + ".bias";
      if (files_.contains(bias))
        layer["bias_dtype"] = rotorlin::name_of(files_.file_of(bias).info(bias).dtype);
    }
    for (const std::string& name : carried()) {
      const SafetensorsFile& file = files_.file_of(name);
      const TensorInfo& tensor = file.info(name);
      writer.add_view(name, tensor.dtype, tensor.shape, file.bytes(name));
    }
    description["source"] = "safetensors";
    if (forward_ && forward_->calibrates())
      description["calibration_tokens"] = forward_->calibration_tokens();
    description["files"] = files_.names();
    description["file_metadata"] = nlohmann::json::object();
    description["metadata"] = nlohmann::json::object();
    for (std::size_t f = 0; f < files_.files().size(); ++f) {
      const auto& metadata = files_.files()[f].metadata();
      description["metadata"].update(metadata);
      description["file_metadata"][files_.names()[f]] = metadata;
    }
    if (files_.names().size() > 1) description["file_of"] = files_.tensors();
    std::ifstream config(files_.config(), std::ios::binary);
    if (config && (std::filesystem::is_directory(files_.path()) || !files_.index().empty())) {
      const std::string text{std::istreambuf_iterator<char>(config), std::istreambuf_iterator<char>()};
      if (nlohmann::json::accept(text)) description["config_json"] = text;
    }
    if (!files_.index().empty()) {
      description["index_name"] = files_.index().filename().string();
      description["index"] = files_.index_text();
    }
  }

  std::optional<double> evaluate(const std::function<Matrix<float>(std::size_t)>& replaced) const override {
    if (!forward_) return std::nullopt;
    if (!replaced) return forward_->evaluate({});
    std::map<std::string, std::size_t> numbers;
    for (std::size_t i = 0; i < slots_.size(); ++i) numbers[slots_[i].name] = i;
    return forward_->evaluate([&](const std::string& layer) {
      const auto slot = numbers.find(layer);
      return slot == numbers.end() ? Matrix<float>() : replaced(slot->second);
    });
  }

 private:
  void add(const TensorInfo& tensor, const NamePattern& pattern, const std::vector<std::string>& numbers,
           const Names& names) {
    if (tensor.shape.size() != 2 || tensor.size() == 0) {
      throw_runtime(files_.path().string(), ": tensor '", tensor.name, "' has shape ",
                    rotorlin::detail::shape(tensor.shape), ", expected a matrix, out x in");
    }
    const std::string own = without_ending(tensor.name);
    std::string reads = own;
    if (!inputs_->contains(own) && !pattern.reads.empty()) reads = filled(pattern.reads, numbers);
    if (!inputs_->contains(reads)) {
      throw_runtime(inputs_->lacks(), " '", tensor.name, "': expected ", inputs_->expected(own),
                    reads == own ? "" : ", or the same of " + reads, ", for ",
                    rotorlin::detail::shape(tensor.shape), " weights");
    }
    dtype_named(rotorlin::name_of(tensor.dtype), tensor.name);
    const bool transposed = is_transposed(tensor.name, tensor.shape[0], tensor.shape[1],
                                          inputs_->features(reads), names.orientation(pattern, tensor.name));
    slots_.push_back({own, pattern.type, tensor.shape[transposed ? 1 : 0], tensor.shape[transposed ? 0 : 1],
                      reads, tensor.dtype, transposed});
    tensors_.push_back(tensor.name);
  }

  /// Names of tensors that are neither compressed nor the bias of what is.
  std::vector<std::string> carried() const {
    std::set<std::string> done(tensors_.begin(), tensors_.end());
    for (const Slot& slot : slots_) done.insert(slot.name + ".bias");
    std::vector<std::string> names;
    for (const auto& [name, file] : files_.tensors()) {
      if (!done.contains(name)) names.push_back(name);
    }
    return names;
  }
  /// That what is carried over has no name that compressed layers take: to be learnt before the work.
  void check_names() const {
    std::set<std::string> taken;
    for (const Slot& slot : slots_) {
      for (const char* ending : {".coefficients", ".values", ".mask"}) taken.insert(slot.name + ending);
    }
    for (const std::string& name : carried()) {
      if (taken.contains(name) || match("dictionaries.*.atoms", name) ||
          match("dictionaries.*.identity_rows", name))
        throw_runtime(files_.path().string(), ": tensor '", name,
                      "' has a name that the compressed file needs itself");
    }
  }

  void summarize(const Names& names) {
    std::ostringstream text;
    text << files_.path().string() << ": " << files_.tensors().size() << " tensors in "
         << files_.names().size() << (files_.names().size() == 1 ? " file" : " files");
    if (!files_.index().empty()) text << ", by " << files_.index().filename().string();
    if (!files_.ignored().empty()) text << "; not in it and ignored: " << detail::listed(files_.ignored());
    text << "\n" << names.summary() << ":\n";
    std::map<std::tuple<std::string, Index, Index, bool, std::string>, int> kinds;
    for (const Slot& slot : slots_)
      ++kinds[{slot.type, slot.out, slot.in, slot.transposed, rotorlin::name_of(slot.dtype)}];
    for (const auto& [kind, count] : kinds) {
      const auto& [type, out, in, transposed, dtype] = kind;
      text << "  " << type << ": " << count << " of " << out << " x " << in << ", " << dtype
           << (transposed ? ", stored transposed (in x out)" : ", stored out x in") << "\n";
    }
    summary_ = text.str();
  }

  CheckpointFiles files_;
  std::unique_ptr<ForwardPass> forward_;  // where there are tokens
  std::vector<std::filesystem::path> streams_;
  std::unique_ptr<LayerInputs> inputs_;
  std::vector<std::string> tensors_;  // of the slots
  std::string summary_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_tensors(const Sources& sources) {
  return std::make_unique<TensorCheckpoint>(sources);
}

std::unique_ptr<Checkpoint> open_checkpoint(const Sources& sources) {
  if (!std::filesystem::exists(sources.model)) throw_runtime(sources.model.string(), " does not exist");
  const bool tensors = std::filesystem::is_directory(sources.model) ||
                       sources.model.extension() == ".safetensors" || sources.model.extension() == ".json";
  // what would have no effect is a mistake
  const auto refuse = [&](bool given, const char* option) {
    if (!given) return;
    throw_runtime(sources.model.string(), " is ",
                  tensors ? "a checkpoint in safetensors" : "taken for a file of llama2.c", ", for which ",
                  option, " has no meaning");
  };
  refuse(tensors && sources.calibration.empty() && sources.evaluation.empty() && !sources.tokenizer.empty(),
         "--tokenizer without --calibration");
  if (tensors && !sources.calibration.empty() && !(sources.activations.empty() && sources.grams.empty()))
    throw_runtime("--calibration, --activations and --grams: choose one");
  refuse(!tensors && !sources.activations.empty(), "--activations");
  refuse(!tensors && !sources.grams.empty(), "--grams");
  refuse(!tensors && !sources.preset.empty(), "--preset");
  refuse(!tensors && !sources.patterns.empty(), "--pattern");
  return tensors ? open_tensors(sources) : open_llama(sources);
}

namespace {

/// The tensors of a checkpoint again, by name, of which some wait on the disk.
class Restored {
 public:
  Restored(const SafetensorsFile& compressed, const nlohmann::json& description, Spool& spool)
      : compressed_(compressed) {
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
      Matrix<float> weight = layer.to_dense();
      if (entry.value("transposed", false)) weight.transposeInPlace();
      add_as(dtype_named(entry.at("dtype"), name), part, entry.at("tensor"), weight, false);
      if (layer.has_bias()) {
        const std::string bias = name + ".bias";
        add_as(dtype_named(entry.at("bias_dtype"), bias), part, bias, Matrix<float>(layer.bias()), true);
      }
      parts_.push_back(spool.keep(part));
      for (const TensorInfo& tensor : parts_.back()->tensors()) places_[tensor.name] = parts_.back().get();
    }
    for (const TensorInfo& tensor : compressed.tensors()) {
      if (!done.contains(tensor.name)) places_[tensor.name] = &compressed_;
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, file] : places_) all.push_back(name);
    return all;
  }
  void add(SafetensorsWriter& writer, const std::string& name) const {
    const auto place = places_.find(name);
    if (place == places_.end()) throw_runtime(compressed_.path().string(), " has no tensor '", name, "'");
    const TensorInfo& tensor = place->second->info(name);
    writer.add_view(name, tensor.dtype, tensor.shape, place->second->bytes(name));
  }

 private:
  const SafetensorsFile& compressed_;
  std::vector<Spool::File> parts_;
  std::map<std::string, const SafetensorsFile*> places_;
};

void set_metadata(SafetensorsWriter& writer, const nlohmann::json& metadata) {
  for (const auto& [key, value] : metadata.items()) writer.set_metadata(key, value);
}

/// The name of a file that is to be written into a folder, and nowhere else.
std::string plain_name(const nlohmann::json& value) {
  const std::string name = value;
  if (name.empty() || name.starts_with('.') || name.find_first_of(std::string_view("/\\\0", 3)) != name.npos)
    throw_runtime("the description names a file ", value.dump(), ", expected a plain name");
  return name;
}

}  // namespace

void write_tensors(const SafetensorsFile& compressed, const nlohmann::json& description,
                   const std::filesystem::path& target, bool as_folder) {
  Spool spool(target);
  const Restored restored(compressed, description, spool);
  if (!as_folder) {
    SafetensorsWriter writer;
    for (const std::string& name : restored.names()) restored.add(writer, name);
    set_metadata(writer, description.at("metadata"));
    writer.write(target);
    return;
  }
  std::vector<std::string> files;
  for (const auto& name : description.value("files", nlohmann::json::array({"model.safetensors"})))
    files.push_back(plain_name(name));
  std::vector<std::vector<std::string>> tensors(files.size());
  for (const std::string& name : restored.names()) {
    const std::size_t file =
        description.contains("file_of") ? description["file_of"].at(name).get<std::size_t>() : 0;
    if (file >= files.size())
      throw_runtime("the description puts tensor '", name, "' into file number ", file, " of ", files.size());
    tensors[file].push_back(name);
  }
  NewFolder folder(target);
  for (std::size_t f = 0; f < files.size(); ++f) {
    SafetensorsWriter writer;
    for (const std::string& name : tensors[f]) restored.add(writer, name);
    const auto& own = description.contains("file_metadata") ? description["file_metadata"].at(files[f])
                                                            : description.at("metadata");
    set_metadata(writer, own);
    writer.write(folder.path() / files[f]);
  }
  if (description.contains("index"))
    write_file(folder.path() / plain_name(description.at("index_name")),
               description["index"].get<std::string>());
  if (description.contains("config_json"))
    write_file(folder.path() / "config.json", description["config_json"].get<std::string>());
  folder.commit();
}

}  // namespace examples
