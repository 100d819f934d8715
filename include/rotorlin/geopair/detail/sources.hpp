// SPDX-License-Identifier: MIT
/// \file
/// Where the compressor's matrices come from: memory, or functions that load them.
#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/compression.hpp"

namespace rotorlin::detail {

/// A Gram matrix, features x features, which may be on a disk.
struct GramSource {
  Index features;
  std::function<Matrix<double>()> load;
};

/// A layer whose weight, out x in, may be on a disk.
struct LayerSource {
  std::string name;
  Index out, in;
  std::size_t gram;
  LayerOptions options;
  std::function<Matrix<double>()> load;

  /// Features on the side that is shared, and on the other.
  Index shared() const { return options.side == DictionarySide::input ? in : out; }
  Index own() const { return options.side == DictionarySide::input ? out : in; }
};

inline const char* name_of_side(DictionarySide side) {
  return side == DictionarySide::input ? "input" : "output";
}

/// Calls f; exceptions of wrong or impossible numbers tell whose they are.
template <class F>
auto blame(const std::string& whom, const F& f) {
  constexpr std::string_view prefix = "GeoPairCompressor: ";
  const auto without_prefix = [&](std::string_view text) {
    return text.substr(text.starts_with(prefix) ? prefix.size() : 0);
  };
  try {
    return f();
  } catch (const std::domain_error& error) {
    throw_domain(prefix, whom, ": ", without_prefix(error.what()));
  } catch (const std::invalid_argument& error) {
    throw_invalid(prefix, whom, ": ", without_prefix(error.what()));
  }
}

/// What a source gives, with the shape and the finite entries that it promised.
template <class Source>
Matrix<double> loaded(const Source& source, Index rows, Index cols, const char* what) {
  Matrix<double> m = source.load();
  if (m.rows() != rows || m.cols() != cols) {
    throw_invalid("the ", what, " is ", shape(m), ", expected ", rows, " x ", cols);
  }
  if (!all_finite(m)) throw_domain("the ", what, " has NaN or infinite entries");
  return m;
}
inline Matrix<double> loaded_weight(const LayerSource& layer) {
  return loaded(layer, layer.out, layer.in, "weight");
}

}  // namespace rotorlin::detail
