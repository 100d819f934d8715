// SPDX-License-Identifier: MIT
/// \file
/// A compressed group as named tensors and metadata, and back: the one form in which groups are kept in files
/// and sent between processes. Layers and dictionary stand as in every file of shared layers
/// (files/shared_dictionary_file.hpp), and beside them what is reported:
///
///     report.members   numbers of the layers, in the order of addition
///     report.group     side, rank, nonzeros, ratio, energy, objective, bytes of the dictionary, of all, of
///     the
///                      dense weights, seconds
///     report.trace     steps x 2: which half step, the objective after it
///     report.layers    layers x 5: group, relative error, eta, bytes, calibrated
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/io/safetensors.hpp"

namespace rotorlin {

/// Adds a group to a file that is being made, one group a file. \throws what write_shared_layers throws.
template <class = void>
void write_group(SafetensorsWriter& writer, const CompressedGroup& group,
                 const StorageOptions& storage = {}) {
  const GroupReport& report = group.report;
  std::vector<NamedSharedLayer<float>> layers;
  VectorX<std::int64_t> members(static_cast<Index>(group.members.size()));
  Matrix<double> of_layers(members.size(), 5);
  for (std::size_t i = 0; i < group.layers.size(); ++i) {
    const LayerReport& layer = group.layer_reports[i];
    const auto row = static_cast<Index>(i);
    layers.push_back({layer.name, group.layers[i]});
    members[row] = static_cast<std::int64_t>(group.members[i]);
    of_layers(row, 0) = static_cast<double>(layer.group);
    of_layers(row, 1) = layer.relative_error;
    of_layers(row, 2) = layer.eta;
    of_layers(row, 3) = layer.bytes;
    of_layers(row, 4) = layer.calibrated;
  }
  Matrix<double> trace(static_cast<Index>(report.trace.size()), 2);
  for (Index i = 0; i < trace.rows(); ++i) {
    const TracePoint& point = report.trace[static_cast<std::size_t>(i)];
    trace(i, 0) = static_cast<double>(point.step);
    trace(i, 1) = point.objective;
  }
  const VectorX<double> of_group{{static_cast<double>(report.side), static_cast<double>(report.size.rank),
                                  static_cast<double>(report.size.nonzeros), report.ratio, report.energy,
                                  report.objective, report.dictionary_bytes, report.bytes, report.dense_bytes,
                                  report.seconds}};
  write_shared_layers(writer, layers, storage);
  writer.add("report.members", members);
  writer.add("report.group", of_group);
  writer.add("report.trace", trace);
  writer.add("report.layers", of_layers);
}

/// The group of a file. \throws std::runtime_error, naming the file, where something does not fit together.
template <class = void>
CompressedGroup read_group(const SafetensorsFile& file) {
  CompressedGroup group;
  GroupReport& report = group.report;
  std::vector<NamedSharedLayer<float>> layers = read_shared_layers<float>(file);
  const auto members = file.vector<std::int64_t>("report.members");
  const VectorX<double> of_group = file.vector<double>("report.group");
  const Matrix<double> trace = file.matrix<double>("report.trace");
  const Matrix<double> of_layers = file.matrix<double>("report.layers");
  const auto count = static_cast<Index>(layers.size());
  if (members.size() != count || of_group.size() != 10 || trace.cols() != 2 || of_layers.rows() != count ||
      of_layers.cols() != 5) {
    detail::throw_runtime("read_group: ", file.path(), ": the reports do not belong to its ", count,
                          " layers; expected a file that write_group() made");
  }
  report.side = of_group[0] == 0 ? DictionarySide::input : DictionarySide::output;
  report.size = {static_cast<Index>(of_group[1]), static_cast<Index>(of_group[2])};
  Index next = 3;
  for (double* value : {&report.ratio, &report.energy, &report.objective, &report.dictionary_bytes,
                        &report.bytes, &report.dense_bytes, &report.seconds}) {
    *value = of_group[next++];
  }
  for (Index i = 0; i < trace.rows(); ++i)
    report.trace.push_back({static_cast<HalfStep>(static_cast<int>(trace(i, 0))), trace(i, 1)});
  for (Index i = 0; i < count; ++i) {
    NamedSharedLayer<float>& layer = layers[static_cast<std::size_t>(i)];
    group.members.push_back(static_cast<std::size_t>(members[i]));
    report.members.push_back(layer.name);
    group.layer_reports.push_back({std::move(layer.name), static_cast<std::size_t>(of_layers(i, 0)),
                                   of_layers(i, 1), of_layers(i, 2), of_layers(i, 3), of_layers(i, 4) != 0});
    group.layers.push_back(std::move(layer.layer));
  }
  return group;
}

}  // namespace rotorlin
