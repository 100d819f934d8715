// SPDX-License-Identifier: MIT
/// \file
/// How a rotor layer reads its features as multivectors and where its parameters lie.
///
/// Input chunk i covers the features floor(i in / in_chunks) + 0 .. 2^n - 1 modulo in, output chunks
/// likewise. An output feature is the sum of all that lands on it, divided by in_chunks times the number of
/// output chunks that cover it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/rotor/options.hpp"
#include "rotorlin/sandwich/kernel.hpp"

namespace rotorlin::detail {

/// The shape of a rotor layer. Its parameters, flat: left bivectors, right bivectors unless single, alphas.
template <class S>
struct RotorChunking {
  Index in, out;                              ///< features
  int n;                                      ///< of Cl(n)
  Index chunk, in_chunks, out_chunks, width;  ///< as in RotorLinearOptions
  bool single_rotor, bias_inside_alpha;
  Kernel kernel;         ///< never `automatic`
  Kernel sample_kernel;  ///< for samples that go through one by one
  VectorX<S> scale;      ///< one over the divisor of each output feature

  /// Of options that `complete` made.
  RotorChunking(Index in_features, Index out_features, const RotorLinearOptions& options)
      : in(in_features),
        out(out_features),
        n(std::countr_zero(static_cast<std::size_t>(options.chunk))),
        chunk(options.chunk),
        in_chunks(options.in_chunks),
        out_chunks(options.out_chunks),
        width(options.width),
        single_rotor(options.single_rotor),
        bias_inside_alpha(options.bias_inside_alpha),
        kernel(choose(options)),
        sample_kernel(choose_for_samples(options)),
        scale(VectorX<S>::Zero(out_features)) {
    for (Index o = 0; o < out_chunks; ++o) {
      for (Index k = 0; k < chunk; ++k) scale[(out_start(o) + k) % out] += S(1);
    }
    for (Index f = 0; f < out; ++f) scale[f] = S(1) / (scale[f] * static_cast<S>(in_chunks));
  }

  /// Rotor pair (i * out_chunks + o) * width + w is branch w from input chunk i to output chunk o.
  Index pairs() const { return in_chunks * out_chunks * width; }
  Index pair(Index i, Index o, Index w) const { return (i * out_chunks + o) * width + w; }
  Index bivector_size() const { return Index{n} * (n - 1) / 2; }
  Index right_offset() const { return single_rotor ? 0 : bivector_size() * pairs(); }
  Index alpha_offset() const { return (single_rotor ? 1 : 2) * bivector_size() * pairs(); }
  Index parameters() const { return alpha_offset() + pairs(); }
  Index in_start(Index i) const { return i * in / in_chunks; }
  Index out_start(Index o) const { return o * out / out_chunks; }

  /// body(input chunk, output chunk, pair).
  template <class F>
  void for_each_pair(const F& body) const {
    for (Index i = 0; i < in_chunks; ++i) {
      for (Index o = 0; o < out_chunks; ++o) {
        for (Index w = 0; w < width; ++w) body(i, o, pair(i, o, w));
      }
    }
  }
  /// body(row, column, output feature, input feature) for the entries of the parity blocks (chunk / 2 x
  /// chunk) from input chunk i to output chunk o.
  template <class F>
  void for_each_entry(Index i, Index o, const F& body) const {
    const std::vector<std::uint16_t>& order = parity_order(n);
    const Index block = chunk / 2;
    for (Index column = 0; column < chunk; ++column) {
      const Index in_feature = (in_start(i) + order[static_cast<std::size_t>(column)]) % in;
      const Index first = column < block ? 0 : block;
      for (Index row = 0; row < block; ++row) {
        body(row, column, (out_start(o) + order[static_cast<std::size_t>(first + row)]) % out, in_feature);
      }
    }
  }

  /// Input chunk i of a tile, contiguous: where it lies, or copied to `copy`.
  template <int W>
  const S* gather(const S* x_tile, Index i, S* copy) const {
    const Index start = in_start(i);
    if (start + chunk <= in) return x_tile + start * W;
    const Index first = in - start;
    std::copy(x_tile + start * W, x_tile + in * W, copy);
    std::copy(x_tile, x_tile + (chunk - first) * W, copy + first * W);
    return copy;
  }
  /// The adjoint of `gather`: x_tile += chunk i.
  template <int W>
  void scatter(const S* values, Index i, S* x_tile) const {
    Index f = in_start(i);
    for (Index k = 0; k < chunk; ++k) {
      store<S, W>(x_tile + f * W, load<S, W>(x_tile + f * W) + load<S, W>(values + k * W));
      if (++f == in) f = 0;
    }
  }
  /// y_tile += output chunk o, each feature divided by its divisor.
  template <int W>
  void scatter_scaled(const S* values, Index o, S* y_tile) const {
    Index f = out_start(o);
    for (Index k = 0; k < chunk; ++k) {
      store<S, W>(y_tile + f * W, load<S, W>(y_tile + f * W) + load<S, W>(values + k * W) * scale[f]);
      if (++f == out) f = 0;
    }
  }
  /// The adjoint of `scatter_scaled`.
  template <int W>
  void gather_scaled(const S* y_tile, Index o, S* values) const {
    Index f = out_start(o);
    for (Index k = 0; k < chunk; ++k) {
      store<S, W>(values + k * W, load<S, W>(y_tile + f * W) * scale[f]);
      if (++f == out) f = 0;
    }
  }

 private:
  /// The sandwich kernel that suits n, or, of small algebras, the whole layer as a matrix where that is less
  /// work in every pass: then parity blocks are the way to the matrix as well.
  Kernel choose(const RotorLinearOptions& options) const {
    if (options.kernel != Kernel::automatic) return options.kernel;
    const Kernel best = choose_kernel(n, single_rotor, width);
    const bool blocks = best == Kernel::parity_blocks;
    return blocks && pairs() * chunk * chunk >= in * out ? Kernel::dense : best;
  }
  /// One sample has too few lanes for shears, until n is large and there is one rotor alone.
  Kernel choose_for_samples(const RotorLinearOptions& options) const {
    const bool shears = options.kernel == Kernel::automatic && kernel == Kernel::shears;
    return shears && (n < 11 || width > 1) ? Kernel::spinor : kernel;
  }
};

}  // namespace rotorlin::detail
