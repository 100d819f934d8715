// SPDX-License-Identifier: MIT
/// \file
/// Layers on shared dictionaries in a safetensors file, every dictionary once.
///
///     metadata  format                       "rotorlin"
///               shared_dictionary_layers     JSON, a list of {"name", "dictionary", "side", "storage", "in",
///                                            "out", "self_test"}: text, but for the numbers of the last
///                                            three
///     tensors   dictionaries.<d>.atoms          rows x rank, the stored rows of D
///               dictionaries.<d>.identity_rows  rank row numbers, where those of the identity are not stored
///               <name>.coefficients             C^T, one output of C a row: dense
///               <name>.values                   the nonzeros of C, column after column: sparse
///               <name>.mask                     and where they are, a bit an entry of C in the same order,
///               the
///                                               lowest bit of a byte first
///               <name>.bias                     out, or absent
///
/// D and C are as in SharedDictionaryLinear, so the matrix of a layer is C^T D^T (side "input") or D C^T
/// (side "output"): out x in. The file may hold other tensors. "self_test" is u^T y for fixed x and u, which
/// reading replays.
#pragma once

#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "rotorlin/layers/serialization.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"

namespace rotorlin {

namespace detail {

inline constexpr const char* shared_layers_key = "shared_dictionary_layers";

/// u^T y and the rounding that its size forgives.
template <class S>
std::pair<double, double> self_test(const SharedDictionaryLinear<S>& layer, double epsilon) {
  Random random(0);
  VectorX<S> x(layer.in_features()), u(layer.out_features());
  random.fill_uniform(x, -1, 1);
  random.fill_uniform(u, -1, 1);
  const VectorX<double> y = layer.forward(x).col(0).template cast<double>();
  return {u.template cast<double>().dot(y), std::sqrt(epsilon) * u.template cast<double>().norm() * y.norm()};
}

inline std::string dictionary_prefix(std::size_t number) { return concatenate("dictionaries.", number, "."); }

inline std::vector<std::uint8_t> mask_of(const ColumnPattern& pattern) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>((pattern.rows * pattern.cols() + 7) / 8), 0);
  for (std::size_t j = 0; j + 1 < pattern.starts.size(); ++j) {
    for (std::size_t p = pattern.starts[j]; p < pattern.starts[j + 1]; ++p) {
      const std::size_t bit = j * static_cast<std::size_t>(pattern.rows) + pattern.indices[p];
      mask[bit / 8] = static_cast<std::uint8_t>(mask[bit / 8] | (1 << bit % 8));
    }
  }
  return mask;
}

inline ColumnPattern pattern_of(const VectorX<std::uint8_t>& mask, Index rows, Index cols) {
  const Index bytes = checked_sum(checked_product(rows, cols), 7) / 8;
  if (mask.size() != bytes) throw_invalid("the mask has ", mask.size(), " bytes, expected ", bytes);
  ColumnPattern pattern;
  pattern.rows = rows;
  for (Index bit = 0, j = 0; j < cols; ++j) {
    for (Index i = 0; i < rows; ++i, ++bit) {
      if ((mask[bit / 8] >> bit % 8) & 1) pattern.indices.push_back(static_cast<std::uint32_t>(i));
    }
    pattern.starts.push_back(pattern.indices.size());
  }
  return pattern;
}

}  // namespace detail

/// Adds the layers, and each of their dictionaries once, to a file that is being made. \throws
/// std::invalid_argument when a name is taken, what `forward` throws for layers that are not finite, and
/// std::domain_error when an output overflows.
template <class S>
void write_shared_layers(SafetensorsWriter& writer, const std::vector<NamedSharedLayer<S>>& layers) {
  std::map<const SharedDictionary<S>*, std::size_t> numbers;
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, layer] : layers) {
    const SharedDictionary<S>& dictionary = *layer.dictionary();
    const auto [place, is_new] = numbers.emplace(&dictionary, numbers.size());
    if (is_new) {
      const std::string prefix = detail::dictionary_prefix(place->second);
      writer.add(prefix + "atoms", dictionary.stored());
      if (const auto& rows = dictionary.identity_rows(); !rows.empty()) {
        writer.add(prefix + "identity_rows",
                   Eigen::Map<const VectorX<Index>>(rows.data(), static_cast<Index>(rows.size()))
                       .template cast<std::int32_t>());
      }
    }
    const double test = detail::self_test(layer, 0).first;
    if (!detail::is_finite(test)) {
      detail::throw_domain("write_shared_layers: the output of layer '", name, "' overflows");
    }
    list.push_back({{"name", name},
                    {"dictionary", std::to_string(place->second)},
                    {"side", layer.describe().at("side")},
                    {"storage", layer.describe().at("storage")},
                    {"in", layer.in_features()},
                    {"out", layer.out_features()},
                    {"self_test", test}});
    if (layer.storage() == CoefficientStorage::dense) {
      writer.add(name + ".coefficients", layer.coefficients().transpose());
    } else {
      const std::vector<std::uint8_t> mask = detail::mask_of(layer.pattern());
      writer.add(name + ".values", layer.parameters().head(layer.nonzeros()));
      writer.add_raw(name + ".mask", DType::u8, {static_cast<Index>(mask.size())},
                     std::as_bytes(std::span(mask)));
    }
    if (layer.has_bias()) writer.add(name + ".bias", layer.bias());
  }
  writer.set_metadata("format", "rotorlin");
  writer.set_metadata(detail::shared_layers_key, list.dump());
}

/// The layers of a file, in the order in which they were written; those that shared a dictionary share it
/// again. Stored scalars are converted to S, as in read_layer. \throws std::runtime_error, naming file and
/// layer, when something does not fit together or the self-test fails.
template <class S>
std::vector<NamedSharedLayer<S>> read_shared_layers(const SafetensorsFile& file) {
  const std::string text =
      detail::metadata_at(file, detail::shared_layers_key, "expected a file that save_shared_layers() made");
  std::map<std::string, std::shared_ptr<const SharedDictionary<S>>> dictionaries;
  std::vector<NamedSharedLayer<S>> layers;
  std::string name;
  try {
    for (const nlohmann::json& entry : detail::parse_strict_json(text)) {
      name = entry.at("name").get<std::string>();
      const std::string number = entry.at("dictionary"), side_name = entry.at("side"),
                        storage = entry.at("storage");
      const Index in = entry.at("in"), out = entry.at("out");
      if ((side_name != "input" && side_name != "output") || (storage != "dense" && storage != "sparse")) {
        detail::throw_invalid("side '", side_name, "', storage '", storage,
                              "', expected input or output, dense or sparse");
      }
      auto& dictionary = dictionaries[number];
      if (dictionary == nullptr) {
        const std::string prefix = "dictionaries." + number + ".";
        std::vector<Index> rows;
        if (file.contains(prefix + "identity_rows")) {
          const auto stored = file.vector<std::int32_t>(prefix + "identity_rows");
          rows.assign(stored.begin(), stored.end());
        }
        dictionary = std::make_shared<SharedDictionary<S>>(file.matrix<S>(prefix + "atoms"), std::move(rows));
      }
      const DictionarySide side = side_name == "input" ? DictionarySide::input : DictionarySide::output;
      const VectorX<S> bias = file.contains(name + ".bias") ? file.vector<S>(name + ".bias") : VectorX<S>();
      const auto make = [&] {
        if (storage == "dense") {
          const Matrix<S> c = file.matrix<S>(name + ".coefficients").transpose();
          return SharedDictionaryLinear<S>(dictionary, c, CoefficientStorage::dense, side, bias);
        }
        const bool input = side == DictionarySide::input;
        const auto pattern =
            detail::pattern_of(file.vector<std::uint8_t>(name + ".mask"), input ? dictionary->rank() : in,
                               input ? out : dictionary->rank());
        return SharedDictionaryLinear<S>(dictionary, pattern, file.vector<S>(name + ".values"), side, bias);
      };
      SharedDictionaryLinear<S> layer = make();
      if (layer.in_features() != in || layer.out_features() != out) {
        detail::throw_invalid("it is ", out, " x ", in, " by the description, ", layer.out_features(), " x ",
                              layer.in_features(), " by its tensors");
      }
      const double stored_epsilon =
          detail::epsilon_of(file.info(name + (storage == "dense" ? ".coefficients" : ".values")).dtype);
      const auto [test, tolerance] =
          detail::self_test(layer, std::max(stored_epsilon, detail::epsilon_of(dtype_of<S>())));
      const double expected = entry.at("self_test");
      if (!(std::abs(test - expected) <= tolerance)) {
        detail::throw_invalid("the self-test fails: ", test, ", expected ", expected, ", tolerance ",
                              tolerance);
      }
      layers.push_back({name, std::move(layer)});
    }
  } catch (const std::exception& error) {
    detail::throw_runtime("read_shared_layers: ", file.path(), ", layer '", name, "': ", error.what());
  }
  return layers;
}

/// A file of nothing but these layers: written beside and renamed, so that it is whole or not there.
template <class S>
void save_shared_layers(const std::vector<NamedSharedLayer<S>>& layers, const std::filesystem::path& path) {
  SafetensorsWriter writer;
  write_shared_layers(writer, layers);
  writer.write(path);
}

template <class S>
std::vector<NamedSharedLayer<S>> load_shared_layers(const std::filesystem::path& path) {
  return read_shared_layers<S>(SafetensorsFile(path));
}

}  // namespace rotorlin
