// SPDX-License-Identifier: MIT
/// \file
/// Batches in tiles: packs of as many samples as a vector register has lanes, feature after feature. A pass
/// over a batch is a function of one tile; here are the loops around it, on threads where there are any.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "rotorlin/core/arena.hpp"
#include "rotorlin/core/parallel.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// Sums over a batch are taken in double precision also for a float layer.
template <class S>
using Wide = std::conditional_t<std::is_same_v<S, float>, double, S>;

/// Memory of one call: for every thread its own, and for the sums.
template <class S>
struct BatchScratch {
  std::vector<PackBuffer<S>> tiles;
  std::vector<PackBuffer<Wide<S>>> wide;
  std::vector<Wide<S>> sums;

  /// Makes room for as many threads as `parts` of work are worth, and says how many.
  int threads_for(Index parts) {
    const int threads = static_cast<int>(std::min<Index>(parts, num_threads()));
    const auto needed = static_cast<std::size_t>(threads);
    if (tiles.size() < needed) {
      tiles.resize(needed);
      wide.resize(needed);
    }
    return threads;
  }
};

template <class S>
const S* column(const ConstMatrixRef<S>& m, Index j) {
  return m.data() + j * m.outerStride();
}
template <class S>
S* column(MatrixRef<S>& m, Index j) {
  return m.data() + j * m.outerStride();
}

/// y = f(x) for every sample: body(integral_constant<int, W>, x_tile, y_tile, arena) for tiles of W =
/// native_lanes<S> samples; what is left over becomes one more tile, or, up to `singles_per_tile` samples,
/// single ones where they lie (W = 1). `memory(W)` are the scalars that the body takes from the arena.
template <class S, class Memory, class Body>
void map_batch(const ConstMatrixRef<S>& x, MatrixRef<S>& y, Index singles_per_tile, BatchScratch<S>& scratch,
               const Memory& memory, const Body& body) {
  constexpr int lanes = native_lanes<S>;
  const Index batch = x.cols();
  const Index in = x.rows(), out = y.rows();
  Index tiles = batch / lanes;
  if (batch % lanes > singles_per_tile) ++tiles;
  const Index parts = tiles + std::max<Index>(0, batch - tiles * lanes);
  parallel_for(parts, scratch.threads_for(parts), [&](Index part, int thread) {
    PackBuffer<S>& buffer = scratch.tiles[static_cast<std::size_t>(thread)];
    if (part >= tiles) {
      const Index sample = tiles * lanes + (part - tiles);
      body(std::integral_constant<int, 1>{}, column<S>(x, sample), column<S>(y, sample),
           Arena<S>(buffer.reserve(memory(1))));
      return;
    }
    const Index sample = part * lanes;
    const Index count = std::min<Index>(lanes, batch - sample);
    Arena<S> arena(
        buffer.reserve(Arena<S>::rounded(in * lanes) + Arena<S>::rounded(out * lanes) + memory(lanes)));
    S* x_tile = arena.take(in * lanes);
    S* y_tile = arena.take(out * lanes);
    load_tile<S, lanes>(column<S>(x, sample), x.outerStride(), in, count, x_tile);
    body(std::integral_constant<int, lanes>{}, x_tile, y_tile, arena);
    store_tile<S, lanes>(y_tile, out, column<S>(y, sample), y.outerStride(), count);
  });
}

/// A backward pass: `size` sums over the batch, and grad_x. The batch is cut into groups of four tiles, each
/// summed by itself in float and then added to the others, in their order: results don't depend on the number
/// of threads. For every group state = lay_out(arena); then, tile by tile,
/// tile(width, state, sums, x_tile, grad_y_tile) returns where the tile of grad_x lies, which may be that of
/// x, missing samples being zero; up to `singles` samples that are left over go one by one, with width 1. In
/// the end finish(state, sums, wide), with `wide` as scratch. Returns the
/// sums.
template <class S, class Layout, class Tile, class Finish>
const Wide<S>* reduce_batch(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S>& grad_x,
                            Index size, Index singles, BatchScratch<S>& scratch, const Layout& lay_out,
                            const Tile& tile, const Finish& finish) {
  constexpr int lanes = native_lanes<S>;
  constexpr Index group = 4 * lanes;
  const Index batch = x.cols();
  const Index in = x.rows(), out = grad_y.rows();
  const Index groups = (batch + group - 1) / group;
  scratch.sums.assign(static_cast<std::size_t>(groups * size), Wide<S>(0));
  parallel_for(groups, scratch.threads_for(groups), [&](Index part, int thread) {
    const auto number = static_cast<std::size_t>(thread);
    const Index memory = Arena<S>::rounded(in * lanes) + Arena<S>::rounded(out * lanes) + measure<S>(lay_out);
    Arena<S> arena(scratch.tiles[number].reserve(memory));
    S* x_tile = arena.take(in * lanes);
    S* grad_y_tile = arena.take(out * lanes);
    auto state = lay_out(arena);
    Wide<S>* sums = scratch.sums.data() + part * size;
    const Index end = std::min(batch, (part + 1) * group);
    const auto take = [&](auto width, Index sample, Index count) {
      constexpr int W = decltype(width)::value;
      load_tile<S, W>(column<S>(x, sample), x.outerStride(), in, count, x_tile);
      load_tile<S, W>(column<S>(grad_y, sample), grad_y.outerStride(), out, count, grad_y_tile);
      const S* grad_x_tile = tile(width, state, sums, x_tile, static_cast<const S*>(grad_y_tile));
      store_tile<S, W>(grad_x_tile, in, column<S>(grad_x, sample), grad_x.outerStride(), count);
    };
    Index sample = part * group;
    for (; end - sample > singles; sample += lanes)
      take(std::integral_constant<int, lanes>{}, sample, std::min<Index>(lanes, end - sample));
    for (; sample < end; ++sample) take(std::integral_constant<int, 1>{}, sample, 1);
    finish(state, sums, scratch.wide[number]);
  });
  Wide<S>* sums = scratch.sums.data();
  for (Index part = 1; part < groups; ++part) {
    for (Index i = 0; i < size; ++i) sums[i] += sums[part * size + i];
  }
  return sums;
}

}  // namespace rotorlin::detail
