// SPDX-License-Identifier: MIT
/// \file
/// What a shared dictionary stores, and how large it may be for a given ratio. The ratio is the fraction of
/// the d N weights (N = sum of the outputs n_i) that is removed; B = (1 - ratio) d N values of 32 bits
/// remain.
///
///     dense           d r + r N              r identity rows not stored: r^2 less
///     sparse          d r + k N + r N mask   k nonzeros a column, a mask of r bits for each column
#pragma once

#include <algorithm>
#include <cmath>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/files/storage_options.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"

namespace rotorlin {

/// The ratio of atoms to nonzeros a column that serves best at most ratios: r / k.
inline constexpr double default_ks_ratio = 2.5;

/// A number of atoms and of nonzeros a column (equal: dense).
struct DictionarySize {
  Index rank = 0, nonzeros = 0;
  bool operator==(const DictionarySize&) const = default;
};

namespace detail {

inline double budget(const char* who, Index d, Index outputs, double ratio) {
  if (d < 1 || outputs < 1) {
    throw_invalid(who, ": ", d, " inputs and ", outputs, " outputs, expected >= 1");
  }
  if (!(ratio >= 0 && ratio < 1)) throw_invalid(who, ": ratio = ", ratio, ", expected 0 <= ratio < 1");
  return (1 - ratio) * static_cast<double>(d) * static_cast<double>(outputs);
}

inline Index whole(double value) { return static_cast<Index>(std::floor(value)); }

}  // namespace detail

/// The largest r of a dense dictionary for the ratio, with or without identity rows; 0 where not even one
/// atom fits. \throws std::invalid_argument unless d, outputs >= 1 and 0 <= ratio < 1.
inline Index dense_rank(Index d, Index outputs, double ratio, bool identity_rows = false) {
  const double budget = detail::budget("dense_rank", d, outputs, ratio);
  const double height = static_cast<double>(d), width = static_cast<double>(outputs), sum = height + width;
  if (!identity_rows) return detail::whole(budget / sum);
  // the smaller root of r^2 - (d + N) r + B = 0, without cancellation
  const double root = std::sqrt((height - width) * (height - width) + 4 * ratio * height * width);
  return std::min({detail::whole(2 * budget / (sum + root)), d, outputs});
}

/// The r and k of a sparse dictionary for the ratio: r from r = ks k, then the largest k that fits.
/// `value_bits`: of a stored value, which a bit of the mask is counted against (32, or 16); `mask` false
/// leaves the mask out. {0, 0} where nothing fits. \throws std::invalid_argument as dense_rank, or unless ks
/// >= 1 and value_bits >= 1.
inline DictionarySize sparse_size(Index d, Index outputs, double ratio, double ks = default_ks_ratio,
                                  int value_bits = 32, bool mask = true) {
  constexpr const char* who = "sparse_size";
  const double budget = detail::budget(who, d, outputs, ratio);
  if (!(ks >= 1) || value_bits < 1) {
    detail::throw_invalid(who, ": ks = ", ks, " and ", value_bits, " bits a value, expected >= 1");
  }
  const double height = static_cast<double>(d), width = static_cast<double>(outputs);
  const double mask_values = mask ? width / value_bits : 0;
  const Index rank = detail::whole(budget / (height + width / ks + mask_values));
  const double rest = budget - static_cast<double>(rank) * (height + mask_values);
  const Index nonzeros = std::min(detail::whole(rest / width), rank);
  return nonzeros < 1 ? DictionarySize{} : DictionarySize{rank, nonzeros};
}

/// Bytes of a dictionary in a file, scales counted, row numbers of the identity not.
template <class S>
double dictionary_bytes(const SharedDictionary<S>& dictionary, const StorageOptions& storage = {}) {
  return stored_bytes(dictionary.stored().rows(), dictionary.rank(), storage);
}

/// Bytes of the coefficients of a layer in a file, mask and scales counted, without the bias.
template <class S>
double coefficient_bytes(const SharedDictionaryLinear<S>& layer, const StorageOptions& storage = {}) {
  if (layer.storage() == CoefficientStorage::sparse) {
    const ColumnPattern& pattern = layer.pattern();
    return stored_bytes(layer.nonzeros(), 1, storage) +
           std::ceil(static_cast<double>(pattern.rows) * static_cast<double>(pattern.cols()) / 8);
  }
  const bool input = layer.side() == DictionarySide::input;
  return stored_bytes(input ? layer.rank() : layer.in_features(), input ? layer.out_features() : layer.rank(),
                      storage);
}

}  // namespace rotorlin
