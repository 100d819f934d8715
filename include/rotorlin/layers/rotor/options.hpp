// SPDX-License-Identifier: MIT
/// \file
/// What a RotorLinear looks like, and what follows from that before one is made.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tuple>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/options.hpp"
#include "rotorlin/sandwich/kernel.hpp"

namespace rotorlin {

/// What a RotorLinear looks like. Zero means "choose".
struct RotorLinearOptions {
  Index chunk = 0;       ///< 2^n features; default: the largest power of two <= min(in, out), at most 2^14
  Index in_chunks = 0;   ///< default: ceil(in / chunk)
  Index out_chunks = 0;  ///< default: ceil(out / chunk)
  Index width = 1;       ///< rotor pairs in parallel for each pair of chunks
  bool single_rotor = false;  ///< r x r~ instead of r x s~
  bool bias = true;           ///< add a bias to every output feature
  bool bias_inside_alpha =
      false;  ///< y = alpha (M x + bias), one chunk and width 1: the authors' checkpoints
  Kernel kernel = Kernel::automatic;
  std::uint64_t seed = 0;  ///< of the initial bivectors, normal with variance 1
  /// Bytes that `forward` may take for the layer's matrix, where that is faster than its sandwiches
  /// (RotorLinear::forward_kernel); 0 forbids it. Belongs to the machine and is not saved.
  Index matrix_bytes = Index{64} << 20;

  static constexpr auto fields() {
    using O = RotorLinearOptions;
    return std::tuple(option_field("chunk", &O::chunk), option_field("in_chunks", &O::in_chunks),
                      option_field("out_chunks", &O::out_chunks), option_field("width", &O::width),
                      option_field("single_rotor", &O::single_rotor), option_field("bias", &O::bias),
                      option_field("bias_inside_alpha", &O::bias_inside_alpha));
  }
};

namespace detail {

/// The same with everything chosen. \throws std::invalid_argument for what cannot be.
inline RotorLinearOptions complete(Index in, Index out, RotorLinearOptions options) {
  constexpr Index most = max_features;
  if (in < 2 || out < 2 || in > most || out > most) {
    throw_invalid("RotorLinear: in = ", in, ", out = ", out, "; both must be at least 2 and at most ", most);
  }
  constexpr Index largest = Index{1} << max_dimension;
  const Index smaller = std::min(in, out);
  if (options.chunk == 0) {
    options.chunk = static_cast<Index>(std::bit_floor(static_cast<std::size_t>(std::min(smaller, largest))));
  }
  if (options.chunk < 2 || options.chunk > largest ||
      !std::has_single_bit(static_cast<std::size_t>(options.chunk))) {
    throw_invalid("RotorLinear: chunk = ", options.chunk, " for a layer ", in, " -> ", out,
                  "; a chunk is a power of two from 2 to ", largest);
  }
  if (options.chunk > smaller) {
    throw_invalid("RotorLinear: chunk = ", options.chunk, " is larger than a side of the layer ", in, " -> ",
                  out, "; take a power of two, at most ", std::bit_floor(static_cast<std::size_t>(smaller)));
  }
  const auto check = [&](const char* name, Index& chunks, Index features) {
    const Index needed = (features + options.chunk - 1) / options.chunk;
    if (chunks == 0) chunks = needed;
    if (chunks < needed || chunks > features) {
      throw_invalid("RotorLinear: ", name, " = ", chunks, " chunks of ", options.chunk, " for ", features,
                    " features; expected ", needed, " to ", features, ", so that every feature is covered");
    }
  };
  check("in_chunks", options.in_chunks, in);
  check("out_chunks", options.out_chunks, out);
  if (options.width < 1) throw_invalid("RotorLinear: width = ", options.width, "; expected at least 1");
  if (options.bias_inside_alpha &&
      (options.in_chunks != 1 || options.out_chunks != 1 || options.width != 1)) {
    throw_invalid("RotorLinear: bias_inside_alpha with ", options.in_chunks, " x ", options.out_chunks,
                  " chunks and width ", options.width, "; it is defined for one chunk and width 1");
  }
  if (options.matrix_bytes < 0)
    throw_invalid("RotorLinear: matrix_bytes = ", options.matrix_bytes, "; expected 0 (never) or more");
  if (!is_kernel(options.kernel)) {
    throw_invalid("RotorLinear: kernel = ", static_cast<int>(options.kernel),
                  "; expected one of the enumeration Kernel");
  }
  if (!options.single_rotor && needs_single_rotor(options.kernel)) {
    throw_invalid("RotorLinear: the kernel ", to_string(options.kernel),
                  " needs single_rotor = true (r x r~)");
  }
  return options;
}

/// Parameters of the rotors, without the bias, for options that `complete` made.
inline Index count_rotor_parameters(const RotorLinearOptions& options) {
  const Index n = std::countr_zero(static_cast<std::size_t>(options.chunk));
  const Index pairs = checked_product(checked_product(options.in_chunks, options.out_chunks), options.width);
  return checked_product(pairs, (options.single_rotor ? 1 : 2) * n * (n - 1) / 2 + 1);
}

}  // namespace detail

}  // namespace rotorlin
