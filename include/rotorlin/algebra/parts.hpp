// SPDX-License-Identifier: MIT
/// \file
/// The sets of blades that have a type of their own, and their tables: at compile time where n is known and
/// small, else from `blade_table`.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// The sets of blades that have a type: all (Multivector), grade 1 (Vector), grade 2 (Bivector), even
/// (Rotor).
enum class Part { all, vector, bivector, even };

namespace detail {

constexpr Index part_size(Part part, int n) {
  switch (part) {
    case Part::vector:
      return n;
    case Part::bivector:
      return n * (n - 1) / 2;
    case Part::even:
      return Index{1} << std::max(n - 1, 0);
    case Part::all:
      break;
  }
  return Index{1} << n;
}

constexpr bool part_contains(Part part, unsigned blade) {
  const int grade = std::popcount(blade);
  switch (part) {
    case Part::vector:
      return grade == 1;
    case Part::bivector:
      return grade == 2;
    case Part::even:
      return grade % 2 == 0;
    case Part::all:
      break;
  }
  return true;
}

/// Static algebras up to this n hold their coefficients inside the object and their tables in the program.
inline constexpr int max_inline_dimension = 8;

/// The blades of N basis vectors in graded order, at compile time.
template <int N>
inline constexpr auto graded_masks = [] {
  std::array<std::uint16_t, (std::size_t{1} << N)> masks{};
  std::size_t i = 0;
  for (int grade = 0; grade <= N; ++grade) {
    for (unsigned reversed = 1u << N; reversed-- > 0;) {
      if (std::popcount(reversed) != grade) continue;
      unsigned blade = 0;
      for (int k = 0; k < N; ++k) blade |= ((reversed >> k) & 1u) << (N - 1 - k);
      masks[i++] = static_cast<std::uint16_t>(blade);
    }
  }
  return masks;
}();

template <int N, Part part>
inline constexpr auto part_masks = [] {
  std::array<std::uint16_t, static_cast<std::size_t>(part_size(part, N))> masks{};
  std::size_t i = 0;
  for (const std::uint16_t blade : graded_masks<N>) {
    if (part_contains(part, blade)) masks[i++] = blade;
  }
  return masks;
}();

/// Where each blade stands within a part, or the number of blades of the part where it does not.
template <int N, Part part>
inline constexpr auto part_positions = [] {
  constexpr auto& masks = part_masks<N, part>;
  std::array<std::uint16_t, (std::size_t{1} << N)> positions{};
  for (std::uint16_t& position : positions) position = static_cast<std::uint16_t>(masks.size());
  for (std::size_t i = 0; i < masks.size(); ++i) positions[masks[i]] = static_cast<std::uint16_t>(i);
  return positions;
}();

/// The blades of a part in their public order, and back: blade mask[i], position index[blade] - first.
struct Blades {
  const std::uint16_t* mask;
  const std::uint16_t* index;
  Index first;
  Index size;
};

inline Blades blades_of(Part part, int n) {
  const BladeTable& table = blade_table(n);
  if (part == Part::even) return {table.even.data(), table.even_index.data(), 0, part_size(part, n)};
  const Index first = part == Part::all ? 0 : part == Part::vector ? 1 : 1 + n;
  return {table.mask.data() + std::min(first, Index{1} << n), table.index.data(), first, part_size(part, n)};
}

/// The same where n may be known at compile time.
template <Part part, int N>
constexpr Blades blades_of(int n) {
  if constexpr (N != Dynamic && N <= max_inline_dimension) {
    return {part_masks<N, part>.data(), part_positions<N, part>.data(), 0, part_size(part, N)};
  } else {
    return blades_of(part, n);
  }
}

}  // namespace detail
}  // namespace rotorlin
