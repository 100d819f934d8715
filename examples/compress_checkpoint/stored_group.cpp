// SPDX-License-Identifier: MIT
#include "stored_group.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "rotorlin/geopair/accounting.hpp"

namespace examples {

using namespace rotorlin;

namespace {

template <class Stored>
float rounded_value(float value) {
  return static_cast<float>(static_cast<Stored>(value));
}

template <class M>
M rounded_matrix(const M& m, DType dtype) {
  M result = m;
  std::transform(m.data(), m.data() + m.size(), result.data(),
                 dtype == DType::f16 ? rounded_value<Eigen::half> : rounded_value<Eigen::bfloat16>);
  return result;
}

template <class Stored>
void add_converted(SafetensorsWriter& writer, const TensorInfo& tensor, const VectorX<float>& values,
                   DType dtype) {
  std::vector<Stored> stored;
  stored.reserve(static_cast<std::size_t>(values.size()));
  for (const float value : values) stored.push_back(static_cast<Stored>(value));
  writer.add_raw(tensor.name, dtype, tensor.shape, std::as_bytes(std::span(stored)));
}

}  // namespace

DType dtype_for(const std::vector<Slot>& slots, const std::vector<std::size_t>& members) {
  const DType first = slots.at(members.at(0)).dtype;
  const bool alike =
      std::all_of(members.begin(), members.end(), [&](std::size_t i) { return slots.at(i).dtype == first; });
  return alike && (first == DType::f16 || first == DType::bf16) ? first : DType(DType::f32);
}

double ratio_from_floats(double ratio, Index shared, Index own, double ks_ratio) {
  const DictionarySize size = sparse_size(shared, own, ratio, ks_ratio, 16);
  if (ratio == 0 || size.rank == 0) return ratio;
  const auto d = static_cast<double>(shared), n = static_cast<double>(own),
             r = static_cast<double>(size.rank), k = static_cast<double>(size.nonzeros);
  return std::max(ratio, 1 - (r * (d + n / 32) + k * n) / (d * n) - 1e-9);
}

std::vector<SharedDictionaryLinear<float>> rounded(const std::vector<SharedDictionaryLinear<float>>& layers,
                                                   DType dtype) {
  std::map<const SharedDictionary<float>*, std::shared_ptr<const SharedDictionary<float>>> dictionaries;
  std::vector<SharedDictionaryLinear<float>> result;
  for (const SharedDictionaryLinear<float>& layer : layers) {
    auto& dictionary = dictionaries[layer.dictionary().get()];
    if (dictionary == nullptr) {
      dictionary = std::make_shared<const SharedDictionary<float>>(
          rounded_matrix(layer.dictionary()->stored(), dtype), layer.dictionary()->identity_rows());
    }
    const VectorX<float> bias = layer.has_bias() ? VectorX<float>(layer.bias()) : VectorX<float>();
    if (layer.storage() == CoefficientStorage::dense) {
      result.emplace_back(dictionary, rounded_matrix(layer.coefficients(), dtype), CoefficientStorage::dense,
                          layer.side(), bias);
    } else {
      const VectorX<float> values = layer.parameters().head(layer.nonzeros());
      result.emplace_back(dictionary, layer.pattern(), rounded_matrix(values, dtype), layer.side(), bias);
    }
  }
  return result;
}

void write_group(SafetensorsWriter& writer, const std::vector<NamedSharedLayer<float>>& layers, DType dtype) {
  if (dtype == DType::f32) {
    write_shared_layers(writer, layers);
    return;
  }
  SafetensorsWriter floats;
  write_shared_layers(floats, layers);
  const SafetensorsFile file(floats.bytes());
  for (const auto& [key, value] : file.metadata()) writer.set_metadata(key, value);
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.dtype != DType::f32 || tensor.name.ends_with(".bias")) {
      writer.add_raw(tensor.name, tensor.dtype, tensor.shape, file.bytes(tensor.name));
    } else if (dtype == DType::f16) {
      add_converted<Eigen::half>(writer, tensor, file.vector<float>(tensor.name), dtype);
    } else {
      add_converted<Eigen::bfloat16>(writer, tensor, file.vector<float>(tensor.name), dtype);
    }
  }
}

}  // namespace examples
