// SPDX-License-Identifier: MIT
#include "compress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>

#include "checkpoint_files.hpp"
#include "common/output.hpp"
#include "common/progress.hpp"
#include "grams.hpp"
#include "rotorlin/core/workers.hpp"
#include "rotorlin/geopair/compressor.hpp"
#include "rotorlin/layers/shared_dictionary_file.hpp"
#include "size_report.hpp"

namespace examples {

using namespace rotorlin;

namespace {

/// JSON has no infinity: null stands for it.
double number_or_infinity(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

/// Finished groups on the disk: each as soon as it is done, in a folder beside the target that a run which is
/// interrupted leaves, and the same run, started again, goes on from.
class GroupFiles {
 public:
  /// `run` says what is compressed and how: the folder belongs to it alone.
  GroupFiles(const std::filesystem::path& target, const nlohmann::json& run,
             const std::vector<PlannedGroup>& plan, const std::vector<Slot>& slots)
      : target_(target), folder_(target), files_(plan.size()) {
    const std::string text = run.dump();
    folder_ += format(".%016llx.groups", fingerprint(text));
    blame_target(target_, [&] {
      std::filesystem::create_directories(folder_);
      const std::filesystem::path note = folder_ / "run.json";
      if (!std::filesystem::exists(note)) write_file(note, text);
    });
    for (std::size_t g = 0; g < plan.size(); ++g) {
      std::vector<std::string> members;
      for (const std::size_t i : plan[g].members) members.push_back(slots[i].name);
      try {  // what can't be read, or is another group, is made again
        if (!std::filesystem::exists(path(g))) continue;
        auto file = std::make_shared<const SafetensorsFile>(path(g));
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
  void keep(std::size_t number, const CompressedGroup& group) {
    std::vector<NamedSharedLayer<float>> layers;
    nlohmann::json reports = nlohmann::json::array();
    for (std::size_t m = 0; m < group.layers.size(); ++m) {
      layers.push_back({group.report.members[m], group.layers[m]});
      reports.push_back(
          {{"name", group.layer_reports[m].name}, {"relative_error", group.layer_reports[m].relative_error}});
    }
    const GroupReport& report = group.report;
    SafetensorsWriter writer;
    write_shared_layers(writer, layers);
    writer.set_metadata(report_key, nlohmann::json({{"members", report.members},
                                                    {"rank", report.size.rank},
                                                    {"nonzeros", report.size.nonzeros},
                                                    {"bytes", report.bytes},
                                                    {"dense_bytes", report.dense_bytes},
                                                    {"seconds", report.seconds},
                                                    {"layers", reports}})
                                        .dump());
    blame_target(target_, [&] {
      writer.write(path(number));
      files_[number] = std::make_shared<const SafetensorsFile>(path(number));
    });
  }

  /// What was reported of a group, by the layers too.
  GroupReport report(std::size_t number, std::map<std::string, double>& relative_errors) const {
    const nlohmann::json stored = nlohmann::json::parse(files_[number]->metadata().at(report_key));
    GroupReport report;
    report.members = stored.at("members").get<std::vector<std::string>>();
    report.size = {stored.at("rank"), stored.at("nonzeros")};
    report.bytes = stored.at("bytes");
    report.dense_bytes = stored.at("dense_bytes");
    report.seconds = stored.at("seconds");
    for (const auto& layer : stored.at("layers"))
      relative_errors[layer.at("name")] = number_or_infinity(layer.at("relative_error"));
    return report;
  }

  /// All of them into one file; the bytes of what they store, without biases.
  double merge(SafetensorsWriter& writer) const {
    nlohmann::json all = nlohmann::json::array();
    double bytes = 0;
    for (std::size_t g = 0; g < files_.size(); ++g) {
      const SafetensorsFile& file = *files_[g];
      const std::string own = "dictionaries.0.", prefix = rotorlin::detail::dictionary_prefix(g);
      for (const TensorInfo& tensor : file.tensors()) {
        const std::string name =
            tensor.name.starts_with(own) ? prefix + tensor.name.substr(own.size()) : tensor.name;
        writer.add_view(name, tensor.dtype, tensor.shape, file.bytes(tensor.name));
        if (!tensor.name.ends_with(".bias")) bytes += static_cast<double>(tensor.end - tensor.begin);
      }
      for (nlohmann::json entry :
           nlohmann::json::parse(file.metadata().at(rotorlin::detail::shared_layers_key))) {
        entry["dictionary"] = std::to_string(g);
        all.push_back(std::move(entry));
      }
    }
    writer.set_metadata("format", "rotorlin");
    writer.set_metadata(rotorlin::detail::shared_layers_key, all.dump());
    return bytes;
  }

  /// When the target is whole.
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  static constexpr const char* report_key = "group_report";

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
  std::vector<Spool::File> files_;
};

/// What decides about the result of a compression.
nlohmann::json run_of(const Checkpoint& checkpoint, const CompressorOptions& options,
                      const std::string& method, bool share_outputs) {
  nlohmann::json run{{"method", method},
                     {"ratio", options.ratio},
                     {"ks_ratio", options.ks_ratio},
                     {"identity_gauge", options.identity_gauge},
                     {"pairing", static_cast<int>(options.pairing)},
                     {"across_types", options.across_types},
                     {"group_size", options.group_size},
                     {"budget", static_cast<int>(options.budget)},
                     {"eta", options.eta},
                     {"iterations", options.iterations},
                     {"share_outputs", share_outputs},
                     {"slots", nlohmann::json::array()},
                     {"inputs", nlohmann::json::object()}};
  for (const Slot& slot : checkpoint.slots())
    run["slots"].push_back({slot.name, slot.type, slot.out, slot.in, slot.reads, slot.transposed});
  for (const std::filesystem::path& path : checkpoint.inputs()) {
    std::error_code absent;
    const auto size = std::filesystem::file_size(path, absent);
    const auto changed = std::filesystem::last_write_time(path, absent);
    if (!absent)
      run["inputs"][std::filesystem::absolute(path).string()] = {size, changed.time_since_epoch().count()};
  }
  run["remarks"] = checkpoint.remarks();
  return run;
}

/// Features of the residual stream: the inputs that most matrices have.
Index residual_width(const std::vector<Slot>& slots) {
  std::map<Index, int> count;
  for (const Slot& slot : slots) ++count[slot.in];
  return std::max_element(count.begin(), count.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

void print(const std::vector<GroupReport>& groups, const std::map<std::string, double>& relative_errors) {
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
      squares += std::pow(relative_errors.at(member), 2) / static_cast<double>(group.members.size());
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
              bool share_outputs, const std::filesystem::path& named) {
  const std::filesystem::path target = output_file(named, checkpoint.inputs());
  std::fputs(checkpoint.summary().c_str(), stdout);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
  Spool spool(target);
  const GramFiles grams = gather(checkpoint, spool);

  GeoPairCompressor compressor;
  std::map<std::string, GeoPairCompressor::GramHandle> handles;
  const std::vector<Slot>& slots = checkpoint.slots();
  const Index residual = residual_width(slots);
  std::vector<std::string> unseen;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    if (grams.unseen.contains(slot.reads)) unseen.push_back(slot.name);
    if (!handles.contains(slot.reads)) {
      handles.emplace(slot.reads, compressor.add_gram(slot.in, [file = grams.files.at(slot.reads)] {
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
  GroupFiles files(target, run_of(checkpoint, options, method, share_outputs), plan, slots);
  if (files.count() > 0)
    std::printf("%zu of %zu groups are there from a run that was interrupted\n", files.count(), plan.size());
  Progress progress("compression");
  std::mutex mutex;
  std::vector<std::size_t> order;
  std::vector<double> done(plan.size(), 0), costs;
  for (std::size_t g = 0; g < plan.size(); ++g) {
    costs.push_back(compressor.cost(plan[g]));
    if (files.has(g)) {
      done[g] = 1;
    } else {
      order.push_back(g);
    }
  }
  const double all_costs = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  rotorlin::detail::run_tasks(order, options.threads, [&](std::size_t g) {
    const CompressedGroup group = compressor.compress_group(plan[g], options, [&](double fraction) {
      const std::lock_guard lock(mutex);
      done[g] = fraction;
      progress.update(std::inner_product(costs.begin(), costs.end(), done.begin(), 0.0) / all_costs, "");
    });
    files.keep(g, group);
    const std::lock_guard lock(mutex);
    done[g] = 1;
  });
  std::vector<GroupReport> groups;
  std::map<std::string, double> relative_errors;
  for (std::size_t g = 0; g < plan.size(); ++g) groups.push_back(files.report(g, relative_errors));
  progress.finish(format("%zu layers in %zu groups", relative_errors.size(), groups.size()));
  print(groups, relative_errors);
  if (!unseen.empty()) {
    std::printf("no calibration tokens reached %s: compressed in the metric of plain SVD\n",
                detail::listed(unseen, unseen.size()).c_str());
  }

  Progress writing("writing");
  SafetensorsWriter writer;
  const double kept = files.merge(writer);
  nlohmann::json description{{"version", 2}, {"method", method}, {"ratio", options.ratio}};
  double squares = 0, dense = 0;
  for (const auto& [name, error] : relative_errors) {
    description["layers"][name] = {{"relative_error", error}};
    squares += error * error / static_cast<double>(relative_errors.size());
  }
  for (const std::string& name : unseen) description["layers"][name]["calibrated"] = false;
  for (const Slot& slot : slots)
    dense += static_cast<double>(slot.out) * static_cast<double>(slot.in) *
             static_cast<double>(size_of(slot.dtype));
  checkpoint.carry_over(writer, description);
  writer.set_metadata(description_key, description.dump());
  writer.write(target);
  files.remove();
  writing.finish(target.string());

  const auto size = static_cast<double>(std::filesystem::file_size(target));
  std::fputs(size_report({kept, dense, size, checkpoint.bytes()}).c_str(), stdout);
  std::printf("relative error %.6f (root mean square over the layers)\n", std::sqrt(squares));
  if (const auto original = checkpoint.evaluate({})) {
    Progress evaluation("evaluation");
    std::map<std::string, Matrix<float>> restored;  // of what was written
    for (const auto& [name, layer] : load_shared_layers<float>(target)) restored[name] = layer.to_dense();
    const auto compressed = checkpoint.evaluate([&](std::size_t i) { return restored.at(slots[i].name); });
    evaluation.finish(format("cross-entropy %.4f nats, of the original %.4f", *compressed, *original));
  }
  if (const std::string warning = size_warning({kept, dense, size, checkpoint.bytes()}); !warning.empty()) {
    std::fputs(warning.c_str(), stdout);
    std::fflush(stdout);
    std::fputs(warning.c_str(), stderr);
  }
}

}  // namespace examples
