// SPDX-License-Identifier: MIT
#include "compress.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "common/progress.hpp"
#include "rotorlin/core/workers.hpp"
#include "rotorlin/geopair/compressor.hpp"
#include "spool.hpp"

namespace examples {

using namespace rotorlin;

namespace {

/// Writes finished groups to the disk, and all of them together into one file.
class GroupFiles {
 public:
  GroupFiles(Spool& spool, std::size_t count) : spool_(spool), files_(count) {}

  void keep(std::size_t number, const CompressedGroup& group) {
    std::vector<NamedSharedLayer<float>> layers;
    for (std::size_t m = 0; m < group.layers.size(); ++m)
      layers.push_back({group.report.members[m], group.layers[m]});
    SafetensorsWriter writer;
    write_shared_layers(writer, layers);
    files_[number] = spool_.keep(writer);
  }

  void merge(SafetensorsWriter& writer) const {
    nlohmann::json all = nlohmann::json::array();
    for (std::size_t g = 0; g < files_.size(); ++g) {
      const SafetensorsFile& file = *files_[g];
      const std::string own = "dictionaries.0.", prefix = concatenate_prefix(g);
      for (const TensorInfo& tensor : file.tensors()) {
        const std::string name =
            tensor.name.starts_with(own) ? prefix + tensor.name.substr(own.size()) : tensor.name;
        writer.add_view(name, tensor.dtype, tensor.shape, file.bytes(tensor.name));
      }
      for (nlohmann::json entry : nlohmann::json::parse(file.metadata().at(detail::shared_layers_key))) {
        entry["dictionary"] = std::to_string(g);
        all.push_back(std::move(entry));
      }
    }
    writer.set_metadata("format", "rotorlin");
    writer.set_metadata(detail::shared_layers_key, all.dump());
  }

 private:
  static std::string concatenate_prefix(std::size_t number) { return detail::dictionary_prefix(number); }

  Spool& spool_;
  std::vector<Spool::File> files_;
};

/// Gram matrices on the disk, by what is read.
using GramFiles = std::map<std::string, Spool::File>;

GramFiles gather(const Checkpoint& checkpoint, Spool& spool) {
  Progress progress("Gram matrices");
  GramFiles files;
  checkpoint.for_each_gram(
      [&](const std::string& reads, Matrix<double> gram) {
        SafetensorsWriter writer;
        writer.add("gram", gram);
        files[reads] = spool.keep(writer);
      },
      [&](double fraction) { progress.update(fraction, ""); });
  progress.finish(format("%zu of them", files.size()));
  return files;
}

/// Features of the residual stream: the inputs that most matrices have.
Index residual_width(const std::vector<Slot>& slots) {
  std::map<Index, int> count;
  for (const Slot& slot : slots) ++count[slot.in];
  return std::max_element(count.begin(), count.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

void print(const std::vector<GroupReport>& groups, const std::map<std::string, LayerReport>& layers) {
  Table table({{"group", "group", true},
               {"layers", "layers"},
               {"rank", "rank"},
               {"nonzeros", "nonzeros"},
               {"kept", "kept"},
               {"relative error", "relative_error"},
               {"seconds", "seconds"}});
  for (const GroupReport& group : groups) {
    double squares = 0;
    for (const std::string& member : group.members)
      squares += std::pow(layers.at(member).relative_error, 2) / static_cast<double>(group.members.size());
    const std::string more =
        group.members.size() > 1 ? format(" and %zu more", group.members.size() - 1) : std::string();
    table.add_row({group.members[0] + more, std::to_string(group.members.size()),
                   std::to_string(group.size.rank),
                   group.size.nonzeros > 0 ? std::to_string(group.size.nonzeros) : "dense",
                   format("%.1f %%", 100 * group.bytes / group.dense_bytes),
                   format("%.4f", std::sqrt(squares)), format("%.1f", group.seconds)});
  }
  std::printf("\n%s\n", table.text().c_str());
}

}  // namespace

void compress(const Checkpoint& checkpoint, CompressorOptions options, const std::string& method,
              bool share_outputs, const std::filesystem::path& target) {
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
  Spool spool(target);
  const GramFiles grams = gather(checkpoint, spool);

  GeoPairCompressor compressor;
  std::map<std::string, GeoPairCompressor::GramHandle> handles;
  const std::vector<Slot>& slots = checkpoint.slots();
  const Index residual = residual_width(slots);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    if (!handles.contains(slot.reads)) {
      handles.emplace(slot.reads, compressor.add_gram(slot.in, [file = grams.at(slot.reads)] {
        return file->matrix<double>("gram");
      }));
    }
    LayerOptions layer{.type = slot.type, .bias = checkpoint.bias(i)};
    // down projections write the residual stream and read more: their outputs are what they share best
    if (share_outputs && options.method == CompressionMethod::geopair_sparse && slot.out == residual &&
        slot.in > slot.out)
      layer.side = DictionarySide::output;
    compressor.add_layer(
        slot.name, slot.out, slot.in, [&checkpoint, i] { return checkpoint.weight(i); },
        handles.at(slot.reads), layer);
  }

  std::unique_ptr<Progress> stage;
  std::string running;
  options.progress = [&](const CompressionProgress& now) {
    if (now.stage != running) {
      if (stage) stage->finish("done");
      stage = std::make_unique<Progress>(running = now.stage);
    }
    stage->update(now.fraction, "");
  };
  const std::vector<PlannedGroup> plan = compressor.plan(options);
  if (stage) stage->finish("done");
  stage.reset();

  // as GeoPairCompressor::compress, but what is finished leaves the memory
  Progress progress("compression");
  GroupFiles files(spool, plan.size());
  std::vector<GroupReport> groups(plan.size());
  std::map<std::string, LayerReport> layers;
  std::mutex mutex;
  std::vector<std::size_t> order(plan.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> done(plan.size(), 0), costs;
  for (const PlannedGroup& group : plan) costs.push_back(compressor.cost(group));
  const double all_costs = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  detail::run_tasks(order, options.threads, [&](std::size_t g) {
    const CompressedGroup group = compressor.compress_group(plan[g], options, [&](double fraction) {
      const std::lock_guard lock(mutex);
      done[g] = fraction;
      progress.update(std::inner_product(costs.begin(), costs.end(), done.begin(), 0.0) / all_costs, "");
    });
    files.keep(g, group);
    const std::lock_guard lock(mutex);
    done[g] = 1;
    groups[g] = group.report;
    for (const LayerReport& layer : group.layer_reports) layers[layer.name] = layer;
  });
  progress.finish(format("%zu layers in %zu groups", layers.size(), groups.size()));
  print(groups, layers);

  Progress writing("writing");
  SafetensorsWriter writer;
  files.merge(writer);
  nlohmann::json description{{"version", 1}, {"method", method}, {"ratio", options.ratio}};
  double squares = 0, bytes = 0, dense = 0;
  for (const auto& [name, layer] : layers) {
    description["layers"][name] = {{"relative_error", layer.relative_error}};
    squares += layer.relative_error * layer.relative_error / static_cast<double>(layers.size());
  }
  for (const GroupReport& group : groups) {
    bytes += group.bytes;
    dense += group.dense_bytes;
  }
  checkpoint.carry_over(writer, description);
  writer.set_metadata(description_key, description.dump());
  writer.write(target);
  writing.finish(target.string());

  std::printf("%s bytes of weights instead of %s: %.2f %% kept; %s bytes in the file\n",
              with_commas(std::llround(bytes)).c_str(), with_commas(std::llround(dense)).c_str(),
              100 * bytes / dense,
              with_commas(static_cast<long long>(std::filesystem::file_size(target))).c_str());
  std::printf("relative error %.6f (root mean square over the layers)\n", std::sqrt(squares));
  if (const auto original = checkpoint.evaluate({})) {
    Progress evaluation("evaluation");
    std::map<std::string, Matrix<float>> restored;  // of what was written
    for (const auto& [name, layer] : load_shared_layers<float>(target)) restored[name] = layer.to_dense();
    const auto compressed = checkpoint.evaluate([&](std::size_t i) { return restored.at(slots[i].name); });
    evaluation.finish(format("cross-entropy %.4f nats, of the original %.4f", *compressed, *original));
  }
}

void decompress(const std::filesystem::path& compressed, const std::filesystem::path& target,
                const Sources* original) {
  const SafetensorsFile file(compressed);
  nlohmann::json description;
  try {
    description = detail::parse_strict_json(detail::metadata_at(
        file, description_key, "expected a file that this program made without --decompress"));
    if (description.at("version") != 1)
      detail::throw_runtime("version ", description.at("version").dump(), ", expected 1");
    if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
    const std::string source = description.at("source");
    if (source != "llama2.c" && source != "safetensors")
      detail::throw_runtime("source '", source, "', expected llama2.c or safetensors");
    source == "llama2.c" ? write_llama(file, description, target) : write_tensors(file, description, target);
  } catch (const nlohmann::json::exception& error) {
    detail::throw_runtime(compressed.string(), ": the description '", description_key,
                          "' does not make sense: ", error.what());
  }
  std::printf("%s: dense weights, %s bytes\n", target.c_str(),
              with_commas(static_cast<long long>(std::filesystem::file_size(target))).c_str());
  if (original == nullptr) return;

  Sources sources = *original;
  if (description.contains("calibration_tokens")) sources.tokens = description["calibration_tokens"];
  const auto before = open_checkpoint(sources);
  sources.model = target;
  const auto after = open_checkpoint(sources);
  Spool spool(target);
  const GramFiles grams = gather(*before, spool);
  double worst = 0;
  std::size_t measured = 0;
  for (std::size_t i = 0; i < before->slots().size(); ++i) {
    const Slot& slot = before->slots()[i];
    if (!description["layers"].contains(slot.name)) continue;
    const Matrix<double> gram = grams.at(slot.reads)->matrix<double>("gram"), weight = before->weight(i),
                         missing = weight - after->weight(i);
    const auto energy = [&](const Matrix<double>& m) {
      return std::max(0.0, (m * gram).cwiseProduct(m).sum());
    };
    if (!(energy(weight) > 0) || description["layers"][slot.name].at("relative_error").is_null()) {
      ++measured;
      continue;
    }
    const double error = std::sqrt(energy(missing) / energy(weight));
    const double reported = description["layers"][slot.name].at("relative_error");
    // what the rounding of every entry to 16 bits adds
    const double noise = (weight - missing).cwiseAbs2().colwise().sum().dot(gram.diagonal());
    const double rounding = detail::epsilon_of(slot.dtype) / 2 * std::sqrt(noise / energy(weight));
    worst = std::max(worst, std::abs(error - reported));
    ++measured;
    if (!(std::abs(error - reported) <= 1e-4 + 0.01 * reported + rounding)) {
      detail::throw_runtime(target.string(), ": layer '", slot.name, "' has the relative error ", error,
                            ", reported were ", reported, "; are the model and the activations those of the ",
                            "compression?");
    }
  }
  if (measured != description["layers"].size()) {
    detail::throw_runtime(sources.model.string(), ": ", measured, " of ", description["layers"].size(),
                          " layers were found again");
  }
  std::printf("relative errors of %zu layers as reported, within %.1g\n", measured, worst);
  if (const auto cross_entropy = after->evaluate({}))
    std::printf("cross-entropy %.4f nats\n", *cross_entropy);
}

}  // namespace examples
