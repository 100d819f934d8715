// SPDX-License-Identifier: MIT
/// \file
/// Layers on shared dictionaries in a safetensors file, every dictionary once.
///
///     metadata  format                       "rotorlin"
///               shared_dictionary_layers     JSON, a list of {"name", "dictionary", "side", "storage", "in",
///                                            "out", "self_test"}: text, but for the numbers of the last
///                                            three; and "bits", a number, of values in blocks: then atoms,
///                                            coefficients and values are as in block_rounding.hpp
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
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/files/block_rounding.hpp"
#include "rotorlin/files/rounded_layers.hpp"
#include "rotorlin/files/serialization.hpp"
#include "rotorlin/files/storage_options.hpp"
#include "rotorlin/io/json.hpp"
#include "rotorlin/io/safetensors.hpp"
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
  pattern.starts.reserve(static_cast<std::size_t>(cols) + 1);
  for (Index bit = 0, j = 0; j < cols; ++j) {
    for (Index i = 0; i < rows; ++i, ++bit) {
      if ((mask[bit / 8] >> bit % 8) & 1) pattern.indices.push_back(static_cast<std::uint32_t>(i));
    }
    pattern.starts.push_back(pattern.indices.size());
  }
  return pattern;
}

/// A count in an entry of the list; std::invalid_argument where it is none, or too large for Index.
inline Index count_of(const nlohmann::json& entry, const char* key) {
  const nlohmann::json& value = entry.at(key);
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Index>::max()) ||
      value.get<std::uint64_t>() == 0) {
    throw_invalid("'", key, "' is ", value.dump(), ", expected a whole number, at least 1");
  }
  return static_cast<Index>(value.get<std::uint64_t>());
}

inline int bits_of(const nlohmann::json& entry) {
  const Index bits = count_of(entry, "bits");
  if (bits < 3 || bits > 8) throw_invalid("'bits' is ", bits, ", expected 3 ... 8");
  return static_cast<int>(bits);
}

/// The stored rows of a dictionary of so many features.
template <class S>
Matrix<S> read_atoms(const SafetensorsFile& file, const std::string& name, Index features,
                     const std::vector<Index>& identity_rows, int bits) {
  if (bits == 0) return file.matrix<S>(name);
  const std::vector<Index>& sizes = file.info(name).shape;
  const Index rows = features - static_cast<Index>(identity_rows.size());
  if (sizes.size() != 2 || rows < 0)
    throw_invalid(name, " is of ", shape(sizes), " with ", identity_rows.size(), " identity rows, expected ",
                  features, " features less these");
  return read_blocks<S>(file, name, rows, sizes[0], bits, false);
}

/// What an entry says of a layer against the shapes of its tensors: before anything of such a size is made.
inline void check_shared_shapes(const SafetensorsFile& file, const std::string& name, bool dense, int bits,
                                Index rows, Index cols, Index in, Index out) {
  const auto check = [&](const char* what, const std::vector<Index>& expected) {
    const TensorInfo& tensor = file.info(name + what);
    if (tensor.shape != expected) {
      throw_invalid("it is ", out, " x ", in, " by the description, which needs ", name, what, " of ",
                    shape(expected), ", the file has ", shape(tensor.shape));
    }
  };
  if (dense) {
    if (bits == 0) check(".coefficients", {cols, rows});
  } else {
    check(".mask", {checked_sum(checked_product(rows, cols), 7) / 8});
  }
  if (file.contains(name + ".bias")) check(".bias", {out});
}

}  // namespace detail

/// Adds the layers, and each of their dictionaries once, to a file that is being made. \throws
/// std::invalid_argument when a name is taken or not UTF-8, what `forward` throws for layers that are not
/// finite, std::domain_error when an output overflows, and for another type of values what rounded_layers
/// throws. Self-tests are those of the rounded layers.
template <class S>
void write_shared_layers(SafetensorsWriter& writer, const std::vector<NamedSharedLayer<S>>& given,
                         const StorageOptions& storage = {}) {
  const std::vector<NamedSharedLayer<S>> layers = rounded_layers(given, storage);
  std::map<const SharedDictionary<S>*, std::size_t> numbers;
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, layer] : layers) {
    detail::json_text(name, "write_shared_layers");  // that it can be written
    const SharedDictionary<S>& dictionary = *layer.dictionary();
    const auto [place, is_new] = numbers.emplace(&dictionary, numbers.size());
    if (is_new) {
      const std::string prefix = detail::dictionary_prefix(place->second);
      detail::add_values<S>(writer, prefix + "atoms", dictionary.stored(), false, storage);
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
    if (storage.bits != 0) list.back()["bits"] = storage.bits;
    if (layer.storage() == CoefficientStorage::dense) {
      const Matrix<S> c = layer.coefficients();
      if (storage.bits != 0) {
        detail::add_values<S>(writer, name + ".coefficients", c, false, storage);
      } else {
        detail::add_values<S>(writer, name + ".coefficients", c.transpose(), false, storage);
      }
    } else {
      const std::vector<std::uint8_t> mask = detail::mask_of(layer.pattern());
      detail::add_values<S>(writer, name + ".values", layer.parameters().head(layer.nonzeros()), true,
                            storage);
      writer.add_raw(name + ".mask", DType::u8, {static_cast<Index>(mask.size())},
                     std::as_bytes(std::span(mask)));
    }
    if (layer.has_bias()) writer.add(name + ".bias", layer.bias());
  }
  writer.set_metadata("format", "rotorlin");
  writer.set_metadata(detail::shared_layers_key, detail::json_text(list, "write_shared_layers"));
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
  std::set<std::string> names;
  std::string name;
  try {
    for (const nlohmann::json& entry : detail::parse_strict_json(text)) {
      name = entry.at("name").get<std::string>();
      const std::string number = entry.at("dictionary"), side_name = entry.at("side"),
                        storage = entry.at("storage");
      const Index in = detail::count_of(entry, "in"), out = detail::count_of(entry, "out");
      const int bits = entry.contains("bits") ? detail::bits_of(entry) : 0;
      // Otherwise a short list could ask for the same tensors any number of times.
      if (!names.insert(name).second) detail::throw_invalid("the name stands twice");
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
        dictionary = std::make_shared<SharedDictionary<S>>(
            detail::read_atoms<S>(file, prefix + "atoms", (side_name == "input" ? in : out), rows, bits),
            std::move(rows));
      }
      const DictionarySide side = side_name == "input" ? DictionarySide::input : DictionarySide::output;
      const bool input = side == DictionarySide::input, dense = storage == "dense";
      const Index rows = input ? dictionary->rank() : in, cols = input ? out : dictionary->rank();
      detail::check_shared_shapes(file, name, dense, bits, rows, cols, in, out);
      const VectorX<S> bias = file.contains(name + ".bias") ? file.vector<S>(name + ".bias") : VectorX<S>();
      const auto make = [&] {
        if (dense) {
          const Matrix<S> c =
              bits != 0 ? detail::read_blocks<S>(file, name + ".coefficients", rows, cols, bits, false)
                        : Matrix<S>(file.matrix<S>(name + ".coefficients").transpose());
          return SharedDictionaryLinear<S>(dictionary, c, CoefficientStorage::dense, side, bias);
        }
        const auto pattern = detail::pattern_of(file.vector<std::uint8_t>(name + ".mask"), rows, cols);
        const VectorX<S> values = bits != 0 ? VectorX<S>(detail::read_blocks<S>(
                                                  file, name + ".values", pattern.nonzeros(), 1, bits, true))
                                            : file.vector<S>(name + ".values");
        return SharedDictionaryLinear<S>(dictionary, pattern, values, side, bias);
      };
      SharedDictionaryLinear<S> layer = make();
      if (layer.in_features() != in || layer.out_features() != out) {
        detail::throw_invalid("it is ", out, " x ", in, " by the description, ", layer.out_features(), " x ",
                              layer.in_features(), " by its tensors");
      }
      const DType stored =
          bits != 0 ? DType(DType::f32) : file.info(name + (dense ? ".coefficients" : ".values")).dtype;
      const double stored_epsilon = detail::epsilon_of(stored);
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
    detail::throw_runtime("read_shared_layers: ", file.path(), ", layer '", name,
                          "': ", detail::json_message(error));
  }
  return layers;
}

/// A file of nothing but these layers: written beside and renamed, so that it is whole or not there.
template <class S>
void save_shared_layers(const std::vector<NamedSharedLayer<S>>& layers, const std::filesystem::path& path,
                        const StorageOptions& storage = {}) {
  SafetensorsWriter writer;
  write_shared_layers(writer, layers, storage);
  writer.write(path);
}

/// All layers of such a file, in its order. \throws as `read_shared_layers`.
template <class S>
std::vector<NamedSharedLayer<S>> load_shared_layers(const std::filesystem::path& path) {
  return read_shared_layers<S>(SafetensorsFile(path));
}

}  // namespace rotorlin
