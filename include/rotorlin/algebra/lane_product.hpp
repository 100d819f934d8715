// SPDX-License-Identifier: MIT
/// \file
/// Products of small algebras in vector registers. In binary order blade a times blade b is blade a xor b, so
/// that
///
///     y = sum over the blades a of x:  x_a * sign(a, .) * (z with its lanes permuted by xor a),
///
/// one fused multiplication a register of z and a factor x_a, for every signature. Signs and permutations are
/// compiled in. Even and odd elements have half the lanes: blade >> 1, whose lowest bit follows from the
/// parity.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "rotorlin/algebra/element.hpp"
#include "rotorlin/core/simd.hpp"

namespace rotorlin::detail {

/// Which blades the lanes belong to.
enum class Layout { all, even, odd };

/// Which side of the lanes the factors stand on.
enum class Side { left, right };

constexpr unsigned lane_blade(Layout layout, unsigned lane) {
  if (layout == Layout::all) return lane;
  return lane << 1 | ((static_cast<unsigned>(std::popcount(lane)) & 1u) ^ (layout == Layout::odd ? 1u : 0u));
}
constexpr unsigned blade_lane(Layout layout, unsigned blade) {
  return layout == Layout::all ? blade : blade >> 1;
}
constexpr bool layout_contains(Layout layout, unsigned blade) {
  return layout == Layout::all || (std::popcount(blade) % 2 == 0) == (layout == Layout::even);
}
/// The layout of a part times lanes of a layout.
constexpr Layout product_layout(Layout lanes, Part factors) {
  if (lanes == Layout::all || factors != Part::vector) return lanes;
  return lanes == Layout::even ? Layout::odd : Layout::even;
}

/// An element in registers, in binary order.
template <class S, int N, Layout layout_>
struct Lanes {
  static constexpr Layout layout = layout_;
  static constexpr int count = 1 << (layout == Layout::all ? N : N - 1);
  static constexpr int width = std::min(native_lanes<S>, count);
  static constexpr int blocks = count / width;
  Pack<S, width> block[static_cast<std::size_t>(blocks)];
};

/// Where each lane comes from.
template <int Count>
using LaneMap = std::array<int, static_cast<std::size_t>(Count)>;

template <class S, int W, const auto& map, int to, int from, int... K>
ROTORLIN_INLINE void take_lanes(Pack<S, W>& out, const Pack<S, W>& in, std::integer_sequence<int, K...>) {
  constexpr auto source = [](int k) { return map[static_cast<std::size_t>(to * W + k)]; };
  constexpr bool any = ((source(K) / W == from) || ...);
  constexpr bool before = ((source(K) / W < from) || ...);
  constexpr bool identity = ((source(K) == from * W + K) && ...);
  if constexpr (identity) {
    out = in;
  } else if constexpr (any && before) {
    out = __builtin_shufflevector(out, in, (source(K) / W == from ? W + source(K) % W : K)...);
  } else if constexpr (any) {
    out = __builtin_shufflevector(in, in, (source(K) % W)...);
  }
}

/// Entry i of `To` registers is entry map[i] of `From` registers.
template <class S, int W, const auto& map, int From, int To>
ROTORLIN_INLINE void permute_lanes(const Pack<S, W>* in, Pack<S, W>* out) {
  unroll<To>([&](auto to) ROTORLIN_INLINE_LAMBDA {
    unroll<From>([&](auto from) ROTORLIN_INLINE_LAMBDA {
      constexpr int t = decltype(to)::value, f = decltype(from)::value;
      take_lanes<S, W, map, t, f>(out[t], in[f], std::make_integer_sequence<int, W>{});
    });
  });
}

/// Where the coefficient of each lane stands in the graded order of a part that has all of its blades.
template <int N, Layout layout, Part part>
inline constexpr auto lane_sources = [] {
  LaneMap<Lanes<float, N, layout>::count> map{};
  for (std::size_t lane = 0; lane < map.size(); ++lane) {
    map[lane] = static_cast<int>(part_positions<N, part>[lane_blade(layout, static_cast<unsigned>(lane))]);
  }
  return map;
}();

/// The lane of each coefficient of a part, the lane behind the last one (a zero) where the layout has none.
/// Behind the coefficients come the other lanes.
template <int N, Layout layout, Part part>
inline constexpr auto lane_targets = [] {
  constexpr int count = Lanes<float, N, layout>::count;
  constexpr auto& masks = part_masks<N, part>;
  constexpr int size = static_cast<int>(masks.size());
  LaneMap<(size > count ? size : count)> map{};
  for (std::size_t i = 0; i < masks.size(); ++i) {
    map[i] = layout_contains(layout, masks[i]) ? static_cast<int>(blade_lane(layout, masks[i])) : count;
  }
  const auto end = map.begin() + static_cast<std::ptrdiff_t>(masks.size());
  for (int lane = 0, i = 0; masks.size() + static_cast<std::size_t>(i) < map.size(); ++lane) {
    if (std::find(map.begin(), end, lane) == end) end[i++] = lane;
  }
  return map;
}();

/// Orders change in registers up to this many, else in memory.
inline constexpr int most_permuted = 4;

template <int N, Layout layout, Part part, class S>
ROTORLIN_INLINE Lanes<S, N, layout> load_lanes(const S* coeffs) {
  using L = Lanes<S, N, layout>;
  constexpr int from = static_cast<int>(part_size(part, N)) / L::width;
  L lanes;
  if constexpr (from > most_permuted) {
    constexpr auto& map = lane_sources<N, layout, part>;
    alignas(64) S memory[static_cast<std::size_t>(L::count)];
    for (std::size_t i = 0; i < map.size(); ++i) memory[i] = coeffs[map[i]];
    for (int b = 0; b < L::blocks; ++b) lanes.block[b] = load<S, L::width>(memory + b * L::width);
  } else {
    Pack<S, L::width> graded[static_cast<std::size_t>(from)];
    unroll<from>([&](auto b)
                     ROTORLIN_INLINE_LAMBDA { graded[b] = load<S, L::width>(coeffs + b * L::width); });
    permute_lanes<S, L::width, lane_sources<N, layout, part>, from, L::blocks>(graded, lanes.block);
  }
  return lanes;
}

template <class S, int W, int First, int... K>
ROTORLIN_INLINE Pack<S, W / 2> half_pack(const Pack<S, W>& pack, std::integer_sequence<int, K...>) {
  if constexpr (W == 2) {
    return pack[First];
  } else {
    return __builtin_shufflevector(pack, pack, (First + K)...);
  }
}

template <class S, int W, int... K>
ROTORLIN_INLINE Pack<S, 2 * W> join_packs(const Pack<S, W>& low, const Pack<S, W>& high,
                                          std::integer_sequence<int, K...>) {
  return __builtin_shufflevector(low, high, K...);
}

template <int Count, class S, int W>
ROTORLIN_INLINE void store_first(S* to, const Pack<S, W>& pack) {
  if constexpr (Count == W) {
    store<S, W>(to, pack);
  } else if constexpr (Count > 0) {
    constexpr auto half = std::make_integer_sequence<int, W / 2>{};
    store_first<std::min(Count, W / 2), S, W / 2>(to, half_pack<S, W, 0>(pack, half));
    if constexpr (Count > W / 2) {
      store_first<Count - W / 2, S, W / 2>(to + W / 2, half_pack<S, W, W / 2>(pack, half));
    }
  }
}

/// The coefficients of a part in graded order; zero where the lanes have no such blade.
template <Part part, class S, int N, Layout layout>
ROTORLIN_INLINE void store_lanes(const Lanes<S, N, layout>& lanes, S* coeffs) {
  using L = Lanes<S, N, layout>;
  constexpr int size = static_cast<int>(part_size(part, N));
  constexpr auto& map = lane_targets<N, layout, part>;
  if constexpr (size <= most_permuted * L::width && (L::blocks <= 2 || size % L::width == 0)) {
    constexpr int to = static_cast<int>(map.size()) / L::width;
    Pack<S, L::width> source[static_cast<std::size_t>(L::blocks + 1)], graded[static_cast<std::size_t>(to)];
    unroll<L::blocks>([&](auto b) ROTORLIN_INLINE_LAMBDA { source[b] = lanes.block[b]; });
    source[L::blocks] = Pack<S, L::width>{};
    permute_lanes<S, L::width, map, L::blocks + 1, to>(source, graded);
    if constexpr (to == 2 && size == 2 * L::width &&
                  size <= native_lanes<S>) {  // in one store: it may be read so
      store<S, size>(coeffs,
                     join_packs<S, L::width>(graded[0], graded[1], std::make_integer_sequence<int, size>{}));
    } else {
      unroll<to>([&](auto b) ROTORLIN_INLINE_LAMBDA {
        constexpr int left = size - decltype(b)::value * L::width;
        store_first<std::clamp(left, 0, L::width), S, L::width>(coeffs + b * L::width, graded[b]);
      });
    }
  } else {  // a few coefficients out of many registers
    alignas(64) S memory[static_cast<std::size_t>(L::count + 1)];
    unroll<L::blocks>(
        [&](auto b) ROTORLIN_INLINE_LAMBDA { store<S, L::width>(memory + b * L::width, lanes.block[b]); });
    memory[L::count] = S(0);
    unroll<size>([&](auto i) ROTORLIN_INLINE_LAMBDA {
      coeffs[i] = memory[map[static_cast<std::size_t>(decltype(i)::value)]];
    });
  }
}

template <class S>
ROTORLIN_INLINE auto bits_of(const S& number) {
  std::conditional_t<sizeof(S) == 4, std::uint32_t, std::uint64_t> bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}
/// Whether all coefficients of a multivector in the lanes of a layout are zero, of either sign.
template <int N, Layout layout, class S, int... Lane>
ROTORLIN_INLINE bool are_zero(const S* coeffs, std::integer_sequence<int, Lane...>) {
  return ((bits_of(coeffs[lane_sources<N, layout, Part::all>[Lane]]) | ...) << 1) == 0;
}
template <int N, Layout layout, class S>
ROTORLIN_INLINE bool are_zero(const S* coeffs) {
  return are_zero<N, layout>(coeffs, std::make_integer_sequence<int, Lanes<S, N, layout>::count>{});
}

/// What the factor of one blade does to lanes: the sign of its product for every lane of the result, as a
/// pattern over the lanes of a register times a sign of each register.
template <class Algebra, Side side, Layout in, Part factors, bool reversed, int W>
struct FactorSigns {
  static constexpr int n = Algebra::static_dimension;
  static constexpr Layout out = product_layout(in, factors);
  static constexpr unsigned width = static_cast<unsigned>(W);

  /// The blade of the factor that permutes lane 0 to `lane`.
  static constexpr unsigned blade(unsigned lane) {
    const Layout parity = in == Layout::all         ? Layout::all
                          : factors == Part::vector ? Layout::odd
                                                    : Layout::even;
    return lane_blade(parity, lane);
  }
  static constexpr bool present(unsigned lane) { return part_contains(factors, blade(lane)); }
  static constexpr std::size_t position(unsigned lane) { return part_positions<n, factors>[blade(lane)]; }

  /// -1, 0 or 1 for the lane `to` of the result.
  static constexpr int sign(unsigned lane, unsigned to) {
    const unsigned a = blade(lane), b = lane_blade(out, to) ^ a;
    const int order = reversed && (std::popcount(a) & 2) != 0 ? -1 : 1;
    return order * (side == Side::left ? Algebra{}.product_sign(a, b) : Algebra{}.product_sign(b, a));
  }
  /// A register of the result that the factor adds to, and the sign there of lane k against that of the first
  /// lane that is not zero.
  static constexpr unsigned first_nonzero(unsigned lane, unsigned block) {
    for (unsigned k = 0; k < width; ++k) {
      if (sign(lane, block * width + k) != 0) return k;
    }
    return width;
  }
  static constexpr int block_sign(unsigned lane, unsigned block) {
    const unsigned k = first_nonzero(lane, block);
    return !present(lane) || k == width ? 0 : sign(lane, block * width + k);
  }
  static constexpr unsigned any_block(unsigned lane, unsigned blocks) {
    unsigned block = 0;
    while (block + 1 < blocks && first_nonzero(lane, block) == width) ++block;
    return block;
  }
  static constexpr int pattern(unsigned lane, unsigned blocks, unsigned k) {
    const unsigned block = any_block(lane, blocks);
    return sign(lane, block * width + k) * block_sign(lane, block);
  }

  /// The order in which factors are taken: those with the same permutation within a register after another.
  static constexpr unsigned taken(unsigned i, unsigned blocks) { return i % blocks * width + i / blocks; }
  /// Whether factor `i` of that order is the first that adds to a register.
  static constexpr bool is_first(unsigned i, unsigned block, unsigned blocks) {
    for (unsigned earlier = 0; earlier < i; ++earlier) {
      if (block_sign(taken(earlier, blocks), block) != 0) return false;
    }
    return true;
  }
};

template <class Signs, class S, int W, unsigned lane, unsigned blocks, int... K>
ROTORLIN_INLINE Pack<S, W> signed_factor(const S& factor, std::integer_sequence<int, K...>) {
  const Pack<S, W> all = factor - Pack<S, W>{};
  constexpr bool plain = ((Signs::pattern(lane, blocks, K) == 1) && ...);
  if constexpr (plain) {
    return all;
  } else {
    return all * Pack<S, W>{static_cast<S>(Signs::pattern(lane, blocks, K))...};
  }
}

/// y[to] += factor i times its register of x.
template <class Signs, class S, int W, unsigned i, unsigned blocks, unsigned to>
ROTORLIN_INLINE void add_factor_to(const Pack<S, W>& factor, const Pack<S, W>* x, Pack<S, W>* y) {
  constexpr unsigned lane = Signs::taken(i, blocks);
  constexpr int sign = Signs::block_sign(lane, to);
  if constexpr (sign != 0) {
    const Pack<S, W> term = factor * xor_lanes<S, W, static_cast<int>(lane % W)>(x[to ^ (lane / W)]);
    if constexpr (Signs::is_first(i, to, blocks)) {
      y[to] = sign > 0 ? term : -term;
    } else if constexpr (sign > 0) {
      y[to] += term;
    } else {
      y[to] -= term;
    }
  }
}

template <class Signs, class S, int W, unsigned i, unsigned... To>
ROTORLIN_INLINE void add_factor(const S* f, const Pack<S, W>* x, Pack<S, W>* y,
                                std::integer_sequence<unsigned, To...>) {
  constexpr unsigned blocks = sizeof...(To), lane = Signs::taken(i, blocks);
  if constexpr (Signs::present(lane)) {
    const Pack<S, W> factor = signed_factor<Signs, S, W, lane, blocks>(f[Signs::position(lane)],
                                                                       std::make_integer_sequence<int, W>{});
    (add_factor_to<Signs, S, W, i, blocks, To>(factor, x, y), ...);
  }
}

template <class Signs, class S, int W, unsigned blocks, unsigned... I>
ROTORLIN_INLINE void add_factors(const S* f, const Pack<S, W>* x, Pack<S, W>* y,
                                 std::integer_sequence<unsigned, I...>) {
  (add_factor<Signs, S, W, I>(f, x, y, std::make_integer_sequence<unsigned, blocks>{}), ...);
}

/// The product of the factors, coefficients of a part in graded order, and of the lanes, on the given side;
/// `reversed`: of the reverse of the factors.
template <class Algebra, Side side, Part factors, bool reversed, class S, int N, Layout in>
ROTORLIN_INLINE auto multiply_lanes(const Lanes<S, N, in>& x, const S* f) {
  using L = Lanes<S, N, in>;
  constexpr int W = L::width;
  using Signs = FactorSigns<Algebra, side, in, factors, reversed, W>;
  Lanes<S, N, Signs::out> y;
  constexpr auto blocks = static_cast<unsigned>(L::blocks);
  for (unsigned to = 0; to < blocks; ++to) {
    if (Signs::is_first(blocks * W, to, blocks)) y.block[to] = Pack<S, W>{};  // no factor adds to it
  }
  add_factors<Signs, S, W, blocks>(f, x.block, y.block, std::make_integer_sequence<unsigned, blocks * W>{});
  return y;
}

/// Whether the product of two parts is made in registers: one of them is all or the even ones of 4 to 64
/// blades, and the terms are not too many to be written out.
template <class S, class Algebra, Part A, Part B>
inline constexpr bool multiplies_lanes = [] {
  constexpr int n = Algebra::static_dimension;
  if constexpr (!has_vectors<S> || n < 2 || n > 6) {
    return false;
  } else {
    constexpr bool full = A == Part::all || B == Part::all || A == Part::even || B == Part::even;
    constexpr Index size = std::max(part_size(A, n), part_size(B, n));
    return full && size >= 4 && part_size(A, n) * part_size(B, n) <= 1024;
  }
}();

/// c = the part C of a b.
template <class Algebra, Part A, Part B, Part C, class S>
ROTORLIN_INLINE void lane_product(const S* a, const S* b, S* c) {
  constexpr int n = Algebra::static_dimension;
  constexpr bool lanes_left =
      (A == Part::all && B != Part::all) || (A == Part::even && B != Part::even && B != Part::all);
  constexpr Part full = lanes_left ? A : B;
  constexpr Layout layout = full == Part::all ? Layout::all : Layout::even;
  if constexpr (lanes_left) {
    store_lanes<C>(multiply_lanes<Algebra, Side::right, B, false>(load_lanes<n, layout, A>(a), b), c);
  } else {
    store_lanes<C>(multiply_lanes<Algebra, Side::left, A, false>(load_lanes<n, layout, B>(b), a), c);
  }
}

/// Whether r x r~ is.
template <class S, class Algebra, Part X>
inline constexpr bool turns_in_lanes =
    multiplies_lanes<S, Algebra, Part::even, X>&& multiplies_lanes<S, Algebra, Part::even, Part::even>;

/// y = the part X of r x r~ for even r.
template <class Algebra, Part X, class S>
ROTORLIN_INLINE void lane_sandwich(const S* r, const S* x, S* y) {
  constexpr int n = Algebra::static_dimension;
  constexpr auto turn = [](const auto& rx, const S* rotor) ROTORLIN_INLINE_LAMBDA {
    return multiply_lanes<Algebra, Side::right, Part::even, true>(rx, rotor);
  };
  const auto turn_full = [&](auto layout) ROTORLIN_INLINE_LAMBDA {
    constexpr Layout in = decltype(layout)::value;
    store_lanes<X>(
        turn(multiply_lanes<Algebra, Side::left, Part::even, false>(load_lanes<n, in, X>(x), r), r), y);
  };
  if constexpr (X == Part::even) {
    turn_full(std::integral_constant<Layout, Layout::even>{});
  } else if constexpr (X == Part::all) {
    if (are_zero<n, Layout::even>(
            x)) {  // half the lanes for odd and even multivectors: points, planes, motors
      turn_full(std::integral_constant<Layout, Layout::odd>{});
    } else if (are_zero<n, Layout::odd>(x)) {
      turn_full(std::integral_constant<Layout, Layout::even>{});
    } else {
      turn_full(std::integral_constant<Layout, Layout::all>{});
    }
  } else {
    store_lanes<X>(
        turn(multiply_lanes<Algebra, Side::right, X, false>(load_lanes<n, Layout::even, Part::even>(r), x),
             r),
        y);
  }
}

}  // namespace rotorlin::detail
