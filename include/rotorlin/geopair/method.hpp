// SPDX-License-Identifier: MIT
/// \file
/// The methods of compression, and in one table what distinguishes them: everything that depends on the
/// method reads it here. A new method is an entry of the enumeration and a row of the table.
#pragma once

#include <string>
#include <string_view>

#include "rotorlin/core/error.hpp"

namespace rotorlin {

/// The first four are baselines as they were published:
/// - plain_svd: each weight by itself, no activations;
/// - svd_llm: each by itself, whitened (Wang et al. 2024, SVD-LLM);
/// - basis_sharing: groups with the mean whitening (Wang et al. 2024, Basis Sharing);
/// - sparse_single: a dictionary with sparse coefficients a layer (as CoSpaDi, Shopkhoev et al. 2025);
/// - geopair_dense, geopair_sparse: a dictionary a group, every layer whitened by its own activations.
enum class CompressionMethod {
  plain_svd,
  svd_llm,
  basis_sharing,
  sparse_single,
  geopair_dense,
  geopair_sparse
};

/// How groups are found; see pairing.hpp.
/// - adjacent: neighbours in the order of addition;
/// - distance, gain: by those measures between layers, an optimal matching for pairs;
/// - automatic: geopair_sparse makes wide groups of neighbours, up to 64 outputs for every feature shared;
///   geopair_dense pairs by gain across types; basis_sharing takes neighbours of a type.
enum class Pairing { automatic, adjacent, distance, gain };

/// plain: by output energy, as published; relative: every layer counts by its relative error, so that no loud
/// layer starves a quiet one.
enum class LayerWeighting { plain, relative };

/// uniform: every group keeps the same part of its bytes. global: bytes go to where they lower the sum of
/// weighted errors most, see allocation.hpp; every group is compressed briefly at several sizes to learn
/// that.
enum class BudgetAllocation { uniform, global };

/// What a method is made of.
struct MethodTraits {
  CompressionMethod method;
  std::string_view name;
  bool grouped;      ///< layers share a dictionary; otherwise each has its own
  bool whitened;     ///< measures outputs on the activations; otherwise weights
  bool weighted;     ///< LayerWeighting and importance count
  bool sparse;       ///< coefficients are
  bool closed_form;  ///< one decomposition with the mean whitening is all
  Pairing pairing;   ///< what `automatic` is
  bool mixes_types;  ///< `automatic` lets layers of different types meet
  bool wide;         ///< `automatic` makes groups as large as is worth it
};

inline constexpr MethodTraits compression_methods[] = {
    // method                           name             grouped whitened weighted sparse closed pairing mixes
    // wide
    {CompressionMethod::plain_svd, "plain_svd", false, false, true, false, true, Pairing::adjacent, true,
     false},
    {CompressionMethod::svd_llm, "svd_llm", false, true, true, false, true, Pairing::adjacent, true, false},
    {CompressionMethod::basis_sharing, "basis_sharing", true, true, false, false, true, Pairing::adjacent,
     false, false},
    {CompressionMethod::sparse_single, "sparse_single", false, true, true, true, false, Pairing::gain, true,
     false},
    {CompressionMethod::geopair_dense, "geopair_dense", true, true, true, false, false, Pairing::gain, true,
     false},
    {CompressionMethod::geopair_sparse, "geopair_sparse", true, true, true, true, false, Pairing::gain, true,
     true},
};

/// The row of a method. \throws std::invalid_argument for a value outside of the enumeration.
inline const MethodTraits& traits_of(CompressionMethod method) {
  for (const MethodTraits& traits : compression_methods) {
    if (traits.method == method) return traits;
  }
  detail::throw_invalid("CompressionMethod: ", static_cast<int>(method),
                        " is no method, expected one of the enumeration");
}

/// The name of a method, as the programs take it.
inline std::string_view to_string(CompressionMethod method) { return traits_of(method).name; }

/// \throws std::invalid_argument that lists the methods, for any other name.
inline CompressionMethod compression_method(std::string_view name) {
  std::string names;
  for (const MethodTraits& traits : compression_methods) {
    if (traits.name == name) return traits.method;
    names += (names.empty() ? "" : ", ") + std::string(traits.name);
  }
  detail::throw_invalid("compression_method: '", name, "', expected one of ", names);
}

}  // namespace rotorlin
