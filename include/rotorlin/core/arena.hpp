// SPDX-License-Identifier: MIT
/// \file
/// One memory, handed out in parts. The function that lays it out also measures it: on an arena without
/// memory it only counts.
///
///     const auto lay_out = [&](Arena<S>& arena) { return Parts{arena.take(n), arena.take(m)}; };
///     auto [first, second] = reserve(buffer, lay_out);
#pragma once

#include <algorithm>

#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// Parts begin on boundaries of 16 scalars. A copy goes on from where the original is: whoever takes an arena
/// by value leaves nothing behind.
template <class S>
class Arena {
 public:
  Arena() = default;
  explicit Arena(S* memory) : memory_(memory) {}

  /// The next `count` scalars; null on an arena that counts.
  S* take(Index count) {
    S* part = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += rounded(count);
    return part;
  }
  S* take_zeros(Index count) {
    S* part = take(count);
    if (part != nullptr) std::fill(part, part + count, S(0));
    return part;
  }
  /// Scalars taken so far.
  Index used() const { return used_; }

  static Index rounded(Index count) { return (count + 15) / 16 * 16; }

 private:
  S* memory_ = nullptr;
  Index used_ = 0;
};

/// The scalars that `lay_out(arena)` takes.
template <class S, class F>
Index measure(const F& lay_out) {
  Arena<S> counting;
  lay_out(counting);
  return counting.used();
}

/// What `lay_out(arena)` returns on a buffer that is as large as it needs.
template <class S, class F>
auto reserve(PackBuffer<S>& buffer, const F& lay_out) {
  Arena<S> arena(buffer.reserve(measure<S>(lay_out)));
  return lay_out(arena);
}

}  // namespace rotorlin::detail
