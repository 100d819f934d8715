// SPDX-License-Identifier: MIT
#include "activations.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/linalg/gram_accumulator.hpp"
#include "rotorlin/io/safetensors.hpp"

namespace examples {

using rotorlin::DType;
using rotorlin::detail::throw_runtime;

namespace {

/// Samples x features in row-major order, somewhere in a mapped file.
struct Samples {
  DType dtype;
  Index count, features;
  std::span<const std::byte> bytes;
};

/// The number of samples, for a shape whose last dimension are the features.
Index samples_of(const std::vector<Index>& shape, Index features, const std::string& where) {
  if (shape.size() < 2 || shape.back() != features) {
    throw_runtime(where, " has shape ", rotorlin::detail::shape(shape), ", expected samples x ", features,
                  ": the features that the projection reads come last");
  }
  Index count = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) {
    if (__builtin_mul_overflow(count, shape[i], &count)) throw_runtime(where, ": the shape overflows");
  }
  return count;
}

template <class Stored>
void accumulate(const Samples& samples, rotorlin::GramAccumulator& gram,
                const std::function<void(Index)>& advanced) {
  constexpr Index block = 1024;
  using Block = Eigen::Matrix<Stored, Eigen::Dynamic, Eigen::Dynamic>;
  for (Index first = 0; first < samples.count; first += block) {
    Block x(samples.features, std::min(block, samples.count - first));  // one sample a column
    const std::size_t size = static_cast<std::size_t>(x.size()) * sizeof(Stored);
    const auto offset = static_cast<std::size_t>(first * samples.features) * sizeof(Stored);
    std::memcpy(static_cast<void*>(x.data()), samples.bytes.data() + offset, size);
    if constexpr (sizeof(Stored) == 2) {
      gram.add(x.template cast<float>().eval());
    } else {
      gram.add(x);
    }
    advanced(x.cols());
  }
}

void accumulate(const Samples& samples, rotorlin::GramAccumulator& gram, const std::string& where,
                const std::function<void(Index)>& advanced) {
  switch (samples.dtype) {
    case DType::f64:
      return accumulate<double>(samples, gram, advanced);
    case DType::f32:
      return accumulate<float>(samples, gram, advanced);
    case DType::f16:
      return accumulate<Eigen::half>(samples, gram, advanced);
    case DType::bf16:
      return accumulate<Eigen::bfloat16>(samples, gram, advanced);
    default:
      throw_runtime(where, " holds ", rotorlin::name_of(samples.dtype),
                    ", expected floating point of 16, 32 or 64 bits");
  }
}

/// What stands behind 'key': in the header of an .npy file, up to the end of the header.
std::string_view npy_entry(std::string_view header, const char* key, const std::string& where) {
  const std::string quoted = std::string("'") + key + "':";
  const std::size_t at = header.find(quoted);
  if (at == header.npos) throw_runtime(where, ": the header has no ", quoted, " entry");
  header.remove_prefix(at + quoted.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

/// The array of an .npy file, versions 1 to 3
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
struct Array {
  DType dtype;
  std::vector<Index> shape;
  std::span<const std::byte> bytes;
};
Array parse_npy(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with("\x93NUMPY") || text.size() < 12) throw_runtime(where, " is not an .npy file");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(text[i]));
  };
  const bool wide = byte(6) >= 2;
  const std::size_t begin = wide ? 12 : 10;
  const std::size_t length = byte(8) + (byte(9) << 8) + (wide ? (byte(10) << 16) + (byte(11) << 24) : 0);
  if (length > text.size() - begin) throw_runtime(where, " ends within its header of ", length, " bytes");
  const std::string_view header = text.substr(begin, length);

  Array samples{DType::f32, {}, bytes.subspan(begin + length)};
  const std::string_view descr = npy_entry(header, "descr", where);
  if (descr.starts_with("'<f8'")) {
    samples.dtype = DType::f64;
  } else if (descr.starts_with("'<f2'")) {
    samples.dtype = DType::f16;
  } else if (!descr.starts_with("'<f4'")) {
    throw_runtime(where, " holds ", std::string(descr.substr(0, descr.find(','))),
                  ", expected '<f4', '<f8' or '<f2'");
  }
  if (!npy_entry(header, "fortran_order", where).starts_with("False"))
    throw_runtime(where, " is in Fortran's order; save numpy.ascontiguousarray(x)");

  std::vector<Index>& shape = samples.shape;
  std::string_view list = npy_entry(header, "shape", where);
  if (!list.starts_with('(')) throw_runtime(where, ": the shape is not a tuple");
  list = list.substr(1, list.find(')') - 1);
  while (!list.empty()) {
    if (list.front() == ' ' || list.front() == ',') {
      list.remove_prefix(1);
      continue;
    }
    Index value = 0;
    const auto [rest, error] = std::from_chars(list.data(), list.data() + list.size(), value);
    if (error != std::errc() || value < 0)
      throw_runtime(where, ": the shape holds '", std::string(list), "'");
    shape.push_back(value);
    list.remove_prefix(static_cast<std::size_t>(rest - list.data()));
  }
  std::size_t expected = rotorlin::size_of(samples.dtype);
  for (const Index dimension : shape) {
    if (__builtin_mul_overflow(expected, static_cast<std::size_t>(dimension), &expected))
      throw_runtime(where, ": the shape overflows");
  }
  if (expected != samples.bytes.size()) {
    throw_runtime(where, " has ", samples.bytes.size(), " bytes of values, shape ",
                  rotorlin::detail::shape(shape), " needs ", expected, "; is the file truncated?");
  }
  return samples;
}

}  // namespace

Matrix<double> read_gram(const std::filesystem::path& file, Index features,
                         const std::function<void(double)>& advanced) {
  const std::string where = file.string();
  rotorlin::GramAccumulator gram(features);
  Index total = 0;
  const auto add_all = [&](const std::vector<Samples>& parts) {
    Index done = 0;
    for (const Samples& part : parts) total += part.count;
    try {
      for (const Samples& part : parts) {
        accumulate(part, gram, where, [&](Index count) {
          done += count;
          if (advanced) advanced(static_cast<double>(done) / static_cast<double>(total));
        });
      }
    } catch (const std::domain_error& error) {
      throw_runtime(where, ": samples ", done, " and following: ", error.what());
    }
  };
  if (file.extension() == ".npy") {
    const rotorlin::detail::MappedFile mapped(file);
    const Array array = parse_npy(mapped.bytes(), where);
    add_all({{array.dtype, samples_of(array.shape, features, where), features, array.bytes}});
  } else {
    const rotorlin::SafetensorsFile tensors(file);
    std::vector<Samples> parts;
    for (const rotorlin::TensorInfo& tensor : tensors.tensors()) {
      const Index count = samples_of(tensor.shape, features, where + ": tensor '" + tensor.name + "'");
      parts.push_back({tensor.dtype, count, features, tensors.bytes(tensor.name)});
    }
    add_all(parts);
  }
  return total == 0 ? Matrix<double>() : gram.gram();
}

namespace {

class ActivationFolder : public LayerInputs {
 public:
  explicit ActivationFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
    if (!std::filesystem::is_directory(folder_))
      throw_runtime(folder_.string(), " is no folder of activations");
  }
  bool contains(const std::string& layer) const override { return !file(layer).empty(); }
  Index features(const std::string& layer) const override {
    const std::filesystem::path path = file(layer);
    std::vector<Index> shape;
    if (path.extension() == ".npy") {
      const rotorlin::detail::MappedFile mapped(path);
      shape = parse_npy(mapped.bytes(), path.string()).shape;
    } else {
      const rotorlin::SafetensorsFile tensors(path);
      if (tensors.tensors().empty()) throw_runtime(path.string(), " holds no tensor");
      shape = tensors.tensors().front().shape;
    }
    if (shape.size() < 2)
      throw_runtime(path.string(), " has shape ", rotorlin::detail::shape(shape),
                    ", expected samples x features");
    return shape.back();
  }
  Matrix<double> gram(const std::string& layer, const std::function<void(double)>& advanced) const override {
    return read_gram(file(layer), features(layer), advanced);
  }
  /// Empty where there is none.
  std::filesystem::path file(const std::string& layer) const override {
    for (const char* ending : {".safetensors", ".npy"}) {
      const std::filesystem::path file = folder_ / (layer + ending);
      if (std::filesystem::exists(file)) return file;
    }
    return {};
  }
  std::string lacks() const override { return folder_.string() + " has no activations for"; }
  std::string expected(const std::string& layer) const override {
    return layer + ".safetensors or " + layer + ".npy";
  }

 private:
  std::filesystem::path folder_;
};

class GramFile : public LayerInputs {
 public:
  explicit GramFile(const std::filesystem::path& path) : file_(path) {
    tokens_ = metadata("tokens");
    same_ = metadata("same_inputs");
    for (const auto& [layer, count] : tokens_.items()) {
      if (!count.is_number_unsigned())
        throw_runtime(path.string(), ": the tokens of '", layer, "' are ", count.dump(),
                      ", expected a count");
    }
    for (const auto& [layer, other] : same_.items()) {
      if (!other.is_string())
        throw_runtime(path.string(), ": same_inputs of '", layer, "' is ", other.dump(), ", expected a name");
    }
  }
  bool contains(const std::string& layer) const override { return file_.contains(tensor(layer)); }
  Index features(const std::string& layer) const override {
    const std::vector<Index>& shape = file_.info(tensor(layer)).shape;
    if (shape.size() != 2 || shape[0] != shape[1] || shape[0] == 0) {
      throw_runtime(file_.path().string(), ": '", tensor(layer), "' has shape ",
                    rotorlin::detail::shape(shape), ", expected a Gram matrix, features x features");
    }
    return shape[0];
  }
  Matrix<double> gram(const std::string& layer, const std::function<void(double)>&) const override {
    const std::string name = tensor(layer), where = file_.path().string() + ": '" + name + "'";
    features(layer);
    const auto count = tokens_.find(name);
    if (count != tokens_.end() && *count == 0) return {};
    const Matrix<double> stored = file_.matrix<double>(name);
    Matrix<double> gram = 0.5 * (stored + stored.transpose());
    if (!rotorlin::detail::all_finite(gram)) throw_runtime(where, " has NaN or infinite entries");
    const double scale = gram.diagonal().cwiseAbs().maxCoeff();
    if ((stored - gram).cwiseAbs().maxCoeff() > 1e-3 * scale || gram.diagonal().minCoeff() < 0)
      throw_runtime(where, " is no Gram matrix: it is not symmetric, or negative on its diagonal");
    if (count != tokens_.end()) gram /= count->get<double>();
    return gram;
  }
  std::filesystem::path file(const std::string&) const override { return file_.path(); }
  std::string lacks() const override { return file_.path().string() + " has no Gram matrix for"; }
  std::string expected(const std::string& layer) const override { return "a tensor '" + layer + "'"; }

 private:
  /// JSON {LAYER: value}, empty where there is none.
  nlohmann::json metadata(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end()) return nlohmann::json::object();
    try {
      nlohmann::json values = rotorlin::detail::parse_strict_json(found->second);
      if (!values.is_object()) throw_runtime("it is no object");
      return values;
    } catch (const std::exception& error) {
      throw_runtime(file_.path().string(), ": the metadata '", key,
                    "' is not JSON {LAYER: value}: ", error.what());
    }
  }
  std::string tensor(const std::string& layer) const {
    const auto found = same_.find(layer);
    return file_.contains(layer) || found == same_.end() ? layer : found->get<std::string>();
  }

  rotorlin::SafetensorsFile file_;
  nlohmann::json tokens_, same_;
};

}  // namespace

std::unique_ptr<LayerInputs> open_activations(const std::filesystem::path& folder) {
  return std::make_unique<ActivationFolder>(folder);
}

std::unique_ptr<LayerInputs> open_grams(const std::filesystem::path& file) {
  return std::make_unique<GramFile>(file);
}

}  // namespace examples
