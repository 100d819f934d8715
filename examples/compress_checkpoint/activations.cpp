// SPDX-License-Identifier: MIT
#include "activations.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/io/json.hpp"
#include "rotorlin/io/npy.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "rotorlin/linalg/gram_accumulator.hpp"

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

/// The samples of an .npy file, checked as those of safetensors.
template <class S>
void accumulate(const rotorlin::NpyFile& array, rotorlin::GramAccumulator& gram,
                const std::function<void(Index)>& advanced) {
  constexpr Index block = 1024;
  for (Index first = 0; first < array.samples(); first += block) {
    const Matrix<S> x = array.batch<S>(first, std::min(block, array.samples() - first));
    gram.add(x);
    advanced(x.cols());
  }
}

}  // namespace

Matrix<double> read_gram(const std::filesystem::path& file, Index features,
                         const std::function<void(double)>& advanced) {
  const std::string where = file.string();
  rotorlin::GramAccumulator gram(features);
  Index total = 0;
  Index done = 0;
  const auto count = [&](Index samples) {
    done += samples;
    if (advanced) advanced(static_cast<double>(done) / static_cast<double>(total));
  };
  try {
    if (file.extension() == ".npy") {
      const rotorlin::NpyFile array(file);
      total = samples_of(array.shape(), features, where);
      if (array.dtype().ends_with("f8")) {
        accumulate<double>(array, gram, count);
      } else {
        accumulate<float>(array, gram, count);
      }
    } else {
      const rotorlin::SafetensorsFile tensors(file);
      std::vector<Samples> parts;
      for (const rotorlin::TensorInfo& tensor : tensors.tensors()) {
        const Index samples = samples_of(tensor.shape, features, where + ": tensor '" + tensor.name + "'");
        parts.push_back({tensor.dtype, samples, features, tensors.bytes(tensor.name)});
        total += samples;
      }
      for (const Samples& part : parts) accumulate(part, gram, where, count);
    }
  } catch (const std::domain_error& error) {
    throw_runtime(where, ": samples ", done, " and following: ", error.what());
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
      shape = rotorlin::NpyFile(path).shape();
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
