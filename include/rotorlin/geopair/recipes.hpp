// SPDX-License-Identifier: MIT
/// \file
/// Ways to compress a model, by the names that docs/geopair.md gives the rows of its tables.
///
///     Recipe recipe = rotorlin::recipe("geopair_groups", 0.3);
///     // for every layer: LayerOptions{.side = recipe.side_of(in, out, writes_residual)}
///     compressor.compress(recipe.options);
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/geopair/method.hpp"

namespace rotorlin {

struct Recipe {
  CompressorOptions options;
  /// Layers that write the residual stream and read more than it (a Llama's down, w2) share their outputs.
  bool share_outputs = false;

  /// The side on which a layer of out x in should share its dictionary.
  DictionarySide side_of(Index in, Index out, bool writes_residual) const {
    return share_outputs && writes_residual && in > out ? DictionarySide::output : DictionarySide::input;
  }
};

/// The names that `recipe` knows: the methods, with pairs by gain for the geopair ones, and
/// - geopair_dense_identity: rows of the identity not stored, a larger ridge;
/// - geopair_groups: wide groups; geopair_groups_inputs: all of them on the input side.
inline std::vector<std::string> recipe_names() {
  return {"plain_svd",      "svd_llm",
          "basis_sharing",  "sparse_single",
          "geopair_dense",  "geopair_dense_identity",
          "geopair_sparse", "geopair_groups_inputs",
          "geopair_groups"};
}

/// The recipe of that name at a ratio. \throws std::invalid_argument that lists the names, for any other.
inline Recipe recipe(std::string_view name, double ratio = 0.3) {
  Recipe result;
  CompressorOptions& options = result.options;
  options.ratio = ratio;
  const bool groups = name == "geopair_groups" || name == "geopair_groups_inputs";
  const bool identity = name == "geopair_dense_identity";
  const std::vector<std::string> names = recipe_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    std::string all;
    for (const std::string& each : names) all += (all.empty() ? "" : ", ") + each;
    detail::throw_invalid("recipe: '", name, "', expected one of ", all);
  }
  options.method = groups     ? CompressionMethod::geopair_sparse
                   : identity ? CompressionMethod::geopair_dense
                              : compression_method(name);
  const MethodTraits& traits = traits_of(options.method);
  if (traits.pairing == Pairing::gain && traits.grouped && !groups) {
    options.pairing = Pairing::gain;
    options.across_types = true;
    options.group_size = 2;
  }
  options.identity_gauge = identity;
  if (identity) options.eta = 0.1;
  result.share_outputs = name == "geopair_sparse" || name == "geopair_groups";
  return result;
}

}  // namespace rotorlin
