// SPDX-License-Identifier: MIT
#include "compress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "checkpoint_files.hpp"
#include "common/output.hpp"
#include "common/progress.hpp"
#include "compressor.hpp"
#include "grams.hpp"
#include "group_files.hpp"
#include "rotorlin/core/workers.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/geopair/method.hpp"
#include "rotorlin/geopair/rounding.hpp"
#include "size_report.hpp"
#include "stored_group.hpp"

namespace examples {

using namespace rotorlin;

namespace {

/// What decides about the result of a compression.
nlohmann::json run_of(const Checkpoint& checkpoint, const CompressorOptions& options,
                      const std::string& method, bool share_outputs, int bits) {
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
                     {"bits", bits},
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

/// Rounds a finished group to `bits`, or to the type that its weights came in, and measures the errors again.
/// Where such a type costs more than it should, which only factors of very different size can make happen, it
/// stays as it is: F32. Bits that were asked for are what is stored.
StorageOptions store_as(DType dtype, int bits, CompressedGroup& group, const Checkpoint& checkpoint,
                        const GramFiles& grams) {
  const StorageOptions floats{.dtype = DType::f32};
  if (bits == 0 && dtype == DType::f32) return floats;
  const StorageOptions storage = bits != 0 ? StorageOptions{.bits = bits} : StorageOptions{.dtype = dtype};
  const auto target = [&](std::size_t m) -> RoundingTarget {
    const std::size_t slot = group.members[m];
    return {checkpoint.weight(slot), grams.files.at(checkpoint.slots()[slot].reads)->matrix<double>("gram")};
  };
  std::vector<NamedSharedLayer<float>> layers;
  for (std::size_t m = 0; m < group.layers.size(); ++m)
    layers.push_back({group.layer_reports[m].name, group.layers[m]});
  try {
    layers = bits != 0 ? refitted_layers(layers, storage, target) : rounded_layers(layers, storage);
  } catch (const std::domain_error&) {  // a value beyond the range of F16
    if (bits != 0) throw;
    return floats;
  }
  std::vector<double> errors;
  for (std::size_t m = 0; m < layers.size(); ++m) {
    const RoundingTarget made_from = target(m);
    const Matrix<double> missing = made_from.weight - layers[m].layer.to_dense().cast<double>();
    const double all = output_energy(made_from.weight, made_from.gram),
                 before = group.layer_reports[m].relative_error;
    errors.push_back(all > 0 ? std::sqrt(output_energy(missing, made_from.gram) / all) : before);
    if (bits == 0 && !(errors[m] <= std::hypot(1.02 * before, 0.005))) return floats;
  }
  for (std::size_t m = 0; m < errors.size(); ++m) {
    group.layers[m] = std::move(layers[m].layer);
    group.layer_reports[m].relative_error = errors[m];
  }
  return storage;
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

void compress(const Checkpoint& checkpoint, CompressorOptions options, bool share_outputs, int bits,
              const std::filesystem::path& named) {
  const std::filesystem::path target = output_file(named, checkpoint.inputs());
  const std::string method(to_string(options.method));
  std::fputs(checkpoint.summary().c_str(), stdout);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
  Spool spool(target);
  const GramFiles grams = gather(checkpoint, spool);

  Compressor compressor;
  std::map<std::string, std::size_t> handles;
  const std::vector<Slot>& slots = checkpoint.slots();
  const Index residual = residual_width(slots);
  std::vector<std::string> unseen;
  std::vector<bool> by_outputs;  // by slot
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
    by_outputs.push_back(layer.side == DictionarySide::output);
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
  std::vector<PlannedGroup> plan = compressor.plan(options);
  if (stage) stage->finish("done");
  stage.reset();

  // ratios count from the checkpoint's own types
  for (PlannedGroup& group : plan) {
    if (bits != 0 || dtype_for(slots, group.members) == DType::f32 || !traits_of(options.method).sparse)
      continue;
    Index own = 0;
    for (const std::size_t i : group.members) own += by_outputs[i] ? slots[i].in : slots[i].out;
    const Slot& first = slots[group.members[0]];
    group.ratio = ratio_from_floats(group.ratio, by_outputs[group.members[0]] ? first.out : first.in, own,
                                    options.ks_ratio);
  }

  // as GeoPairCompressor::compress, but what is finished leaves the memory
  GroupFiles files(target, run_of(checkpoint, options, method, share_outputs, bits), plan, slots);
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
    CompressedGroup group = compressor.compress_group(plan[g], options, [&](double fraction) {
      const std::lock_guard lock(mutex);
      done[g] = fraction;
      progress.update(std::inner_product(costs.begin(), costs.end(), done.begin(), 0.0) / all_costs, "");
    });
    files.keep(g, group, store_as(dtype_for(slots, plan[g].members), bits, group, checkpoint, grams));
    const std::lock_guard lock(mutex);
    done[g] = 1;
  });
  std::vector<GroupReport> groups;
  std::map<std::string, double> relative_errors;
  double kept = 0, dense = 0;
  for (std::size_t g = 0; g < plan.size(); ++g) {
    groups.push_back(files.report(g, relative_errors));
    for (const std::size_t i : plan[g].members)
      groups[g].dense_bytes += static_cast<double>(slots[i].out) * static_cast<double>(slots[i].in) *
                               static_cast<double>(size_of(slots[i].dtype));
    kept += groups[g].bytes;
    dense += groups[g].dense_bytes;
  }
  progress.finish(format("%zu layers in %zu groups", relative_errors.size(), groups.size()));
  print(groups, relative_errors);
  if (!unseen.empty()) {
    std::printf("no calibration tokens reached %s: compressed in the metric of plain SVD\n",
                detail::listed(unseen, unseen.size()).c_str());
  }

  Progress writing("writing");
  SafetensorsWriter writer;
  files.merge(writer);
  nlohmann::json description{{"version", 2}, {"method", method}, {"ratio", options.ratio}};
  double squares = 0;
  for (const auto& [name, error] : relative_errors) {
    description["layers"][name] = {{"relative_error", error}};
    squares += error * error / static_cast<double>(relative_errors.size());
  }
  for (const std::string& name : unseen) description["layers"][name]["calibrated"] = false;
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
    const auto written = load_shared_layers<float>(target);
    std::map<std::string, const SharedDictionaryLinear<float>*> layers;
    for (const auto& named_layer : written) layers[named_layer.name] = &named_layer.layer;
    const auto compressed =
        checkpoint.evaluate([&](std::size_t i) { return layers.at(slots[i].name)->to_dense(); });
    evaluation.finish(format("cross-entropy %.4f nats, of the original %.4f", *compressed, *original));
  }
  if (const std::string warning = size_warning({kept, dense, size, checkpoint.bytes()}); !warning.empty()) {
    std::fputs(warning.c_str(), stdout);
    std::fflush(stdout);
    std::fputs(warning.c_str(), stderr);
  }
}

}  // namespace examples
