// SPDX-License-Identifier: MIT
/// \file
/// Layers on shared dictionaries as a file of other values than theirs gives them back.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/files/block_rounding.hpp"
#include "rotorlin/files/storage_options.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"

namespace rotorlin {

namespace detail {

/// visit(type of the values), as std::type_identity. std::invalid_argument for types that are no floating
/// point.
template <class Visit>
decltype(auto) visit_real_dtype(const DType& dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f64:
      return visit(std::type_identity<double>{});
    case DType::f32:
      return visit(std::type_identity<float>{});
    case DType::f16:
      return visit(std::type_identity<Eigen::half>{});
    case DType::bf16:
      return visit(std::type_identity<Eigen::bfloat16>{});
    default:
      throw_invalid("StorageOptions: dtype = ", dtype.name(), ", expected F64, F32, F16 or BF16");
  }
}

/// Finite values rounded to what is stored; std::domain_error where one is beyond its range.
template <class S>
Matrix<S> rounded_as(const ConstMatrixRef<S>& values, const StorageOptions& storage,
                     const std::string& what) {
  if (storage.bits != 0) return dense_of<S>(round_blocks<S>(values, storage.bits, what));
  return visit_real_dtype(storage.dtype.value_or(dtype_of<S>()),
                          [&]<class Stored>(std::type_identity<Stored>) -> Matrix<S> {
                            Matrix<S> result = values.template cast<Stored>().template cast<S>();
                            if (all_finite(values) && !all_finite(result))
                              throw_domain("write_shared_layers: ", what, " is beyond the range of ",
                                           name_of(dtype_of<Stored>()));
                            return result;
                          });
}

/// Values that are rounded already, as they are stored.
template <class S>
void add_values(SafetensorsWriter& writer, const std::string& name, const ConstMatrixRef<S>& values,
                bool as_vector, const StorageOptions& storage) {
  if (storage.bits != 0)
    return add_blocks(writer, name, round_blocks<S>(values, storage.bits, name), as_vector);
  visit_real_dtype(storage.dtype.value_or(dtype_of<S>()), [&]<class Stored>(std::type_identity<Stored>) {
    const Matrix<Stored> stored = values.template cast<Stored>();
    if (as_vector) {
      writer.add(name, Eigen::Map<const VectorX<Stored>>(stored.data(), stored.size()));
    } else {
      writer.add(name, stored);
    }
  });
}

/// A layer of the same pattern, storage, side and bias on another dictionary.
template <class S>
SharedDictionaryLinear<S> with_values(const SharedDictionaryLinear<S>& layer,
                                      std::shared_ptr<const SharedDictionary<S>> dictionary,
                                      const VectorX<S>& values) {
  const VectorX<S> bias = layer.bias();
  if (layer.storage() == CoefficientStorage::sparse)
    return {std::move(dictionary), layer.pattern(), values, layer.side(), bias};
  const Index rows = layer.side() == DictionarySide::input ? layer.rank() : layer.in_features();
  const Eigen::Map<const Matrix<S>> c(values.data(), rows, values.size() / rows);
  return {std::move(dictionary), c, CoefficientStorage::dense, layer.side(), bias};
}

/// The atom of every coefficient, in the order of the parameters.
template <class S>
std::vector<Index> atoms_of(const SharedDictionaryLinear<S>& layer) {
  const bool input = layer.side() == DictionarySide::input;
  const Index rows = input ? layer.rank() : layer.in_features();
  std::vector<Index> atoms;
  if (layer.storage() == CoefficientStorage::dense) {
    for (Index p = 0; p < layer.nonzeros(); ++p) atoms.push_back(input ? p % rows : p / rows);
    return atoms;
  }
  const ColumnPattern& pattern = layer.pattern();
  for (std::size_t j = 0; j + 1 < pattern.starts.size(); ++j) {
    for (std::size_t p = pattern.starts[j]; p < pattern.starts[j + 1]; ++p)
      atoms.push_back(input ? Index{pattern.indices[p]} : static_cast<Index>(j));
  }
  return atoms;
}

/// Atoms of norm 1 and the norms; zero atoms stay.
template <class S>
std::pair<Matrix<S>, VectorX<S>> unit_atoms(const Matrix<S>& atoms) {
  VectorX<S> norms = atoms.colwise().stableNorm().transpose();
  Matrix<S> result = atoms;
  for (Index j = 0; j < atoms.cols(); ++j) {
    if (!(norms[j] > 0) || !is_finite(norms[j])) norms[j] = 1;
    result.col(j) /= norms[j];
  }
  return {std::move(result), std::move(norms)};
}

}  // namespace detail

/// The layers with every atom and coefficient rounded to what is stored, on rounded dictionaries that they
/// share as before: what a file of these options gives back. Atoms are scaled to norm 1 first, and the
/// coefficients accordingly, unless rows of theirs are those of the identity or they are of the stored kind
/// as they stand: what was rounded stays as it is. \throws std::invalid_argument for a type that is no
/// floating point or for other bits than StorageOptions allows, std::domain_error for a value beyond the
/// range.
template <class S>
std::vector<NamedSharedLayer<S>> rounded_layers(const std::vector<NamedSharedLayer<S>>& layers,
                                                const StorageOptions& storage) {
  check_storage(storage);
  if (storage.bits == 0 && (!storage.dtype || *storage.dtype == dtype_of<S>())) return layers;
  struct Rounded {
    std::shared_ptr<const SharedDictionary<S>> dictionary;
    VectorX<S> norms;
  };
  std::map<const SharedDictionary<S>*, Rounded> dictionaries;
  std::vector<NamedSharedLayer<S>> result;
  for (const auto& [name, layer] : layers) {
    Rounded& rounded = dictionaries[layer.dictionary().get()];
    if (rounded.dictionary == nullptr) {
      const Matrix<S>& given = layer.dictionary()->stored();
      const std::string what = "an atom of layer '" + name + "'";
      rounded.norms = VectorX<S>::Ones(given.cols());
      Matrix<S> atoms = given;
      if (layer.dictionary()->identity_rows().empty() && detail::rounded_as<S>(given, storage, what) != given)
        std::tie(atoms, rounded.norms) = detail::unit_atoms(given);
      rounded.dictionary = std::make_shared<const SharedDictionary<S>>(
          detail::rounded_as<S>(atoms, storage, what), layer.dictionary()->identity_rows());
    }
    VectorX<S> values = layer.parameters().head(layer.nonzeros());
    const std::vector<Index> atoms = detail::atoms_of(layer);
    for (Index p = 0; p < values.size(); ++p) values[p] *= rounded.norms[atoms[static_cast<std::size_t>(p)]];
    const bool dense = layer.storage() == CoefficientStorage::dense;
    const Index rows = !dense                                  ? values.size()
                       : layer.side() == DictionarySide::input ? layer.rank()
                                                               : layer.in_features();
    const Eigen::Map<const Matrix<S>> columns(values.data(), rows, values.size() / rows);
    const Matrix<S> stored = detail::rounded_as<S>(columns, storage, "a coefficient of layer '" + name + "'");
    const VectorX<S> flat = Eigen::Map<const VectorX<S>>(stored.data(), stored.size());
    result.push_back({name, detail::with_values(layer, rounded.dictionary, flat)});
  }
  return result;
}

}  // namespace rotorlin
