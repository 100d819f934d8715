// SPDX-License-Identifier: MIT
/// \file
/// Basis blades of a Clifford algebra on n vectors: their two orders and the signs of their products.
///
/// A blade is a bit mask, bit k-1 set where it holds the factor e_k. Public coefficient vectors are in graded
/// order (grade by grade, lexicographic within a grade: 1, e1, e2, e3, e12, e13, e23, e123); algorithms that
/// pair blades work on masks (binary order). `blade_table(n)` translates between the two.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rotorlin/core/error.hpp"

namespace rotorlin {

/// Largest number of basis vectors of any algebra in this library: 2^14 blades.
inline constexpr int max_dimension = 14;

/// The blades of n basis vectors in graded order.
struct BladeTable {
  int n = 0;
  std::vector<std::uint16_t> mask;        ///< 2^n: mask of the i-th blade in graded order
  std::vector<std::uint16_t> index;       ///< 2^n: the inverse, position of a mask in graded order
  std::vector<std::uint16_t> even;        ///< 2^(n-1): masks of the blades of even grade, in graded order
  std::vector<std::uint16_t> even_index;  ///< 2^n: position of an even mask in `even` (0 for odd masks)

  /// "1", "e2", "e13"; from ten basis vectors on the indices are separated: "e1_12".
  std::string name(std::size_t i) const {
    const unsigned blade = mask.at(i);
    if (blade == 0) return "1";
    std::string text = "e";
    for (int k = 0; k < n; ++k) {
      if (!((blade >> k) & 1u)) continue;
      if (n > 9 && text.size() > 1) text += '_';
      text += std::to_string(k + 1);
    }
    return text;
  }
};

/// Sign (+1 or -1) that reordering the factors of blade `a` times blade `b` costs, metric left out.
constexpr int reorder_sign(unsigned a, unsigned b) {
  int swaps = 0;
  for (a >>= 1; a != 0; a >>= 1) swaps += std::popcount(a & b);
  return (swaps & 1) ? -1 : 1;
}

namespace detail {

inline std::unique_ptr<const BladeTable> make_blade_table(int n) {
  auto table = std::make_unique<BladeTable>();
  const unsigned size = 1u << n;
  table->n = n;
  table->index.resize(size);
  table->even_index.resize(size);
  // Lexicographic order of the factors within a grade is the descending order of the bit-reversed masks.
  std::vector<std::vector<unsigned>> grades(static_cast<std::size_t>(n) + 1);
  for (unsigned reversed = size; reversed-- > 0;) {
    unsigned blade = 0;
    for (int k = 0; k < n; ++k) blade |= ((reversed >> k) & 1u) << (n - 1 - k);
    grades[static_cast<std::size_t>(std::popcount(blade))].push_back(blade);
  }
  for (std::size_t grade = 0; grade < grades.size(); ++grade) {
    for (unsigned blade : grades[grade]) {
      table->index[blade] = static_cast<std::uint16_t>(table->mask.size());
      table->mask.push_back(static_cast<std::uint16_t>(blade));
      if (grade % 2 == 0) {
        table->even_index[blade] = static_cast<std::uint16_t>(table->even.size());
        table->even.push_back(static_cast<std::uint16_t>(blade));
      }
    }
  }
  return table;
}

/// make(n) for 0 <= n <= max_dimension, called once a process for each n.
template <class Table, std::unique_ptr<const Table> make(int)>
const Table& once_per_dimension(int n) {
  static std::array<std::once_flag, max_dimension + 1> once;
  static std::array<std::unique_ptr<const Table>, max_dimension + 1> tables;
  const auto slot = static_cast<std::size_t>(n);
  std::call_once(once[slot], [&] { tables[slot] = make(n); });
  return *tables[slot];
}

}  // namespace detail

/// The table for n basis vectors, built once a process (thread-safe).
/// \throws std::invalid_argument unless 0 <= n <= max_dimension.
inline const BladeTable& blade_table(int n) {
  if (n < 0 || n > max_dimension) {
    detail::throw_invalid("blade_table: n = ", n, ", expected 0 <= n <= ", max_dimension);
  }
  return detail::once_per_dimension<BladeTable, detail::make_blade_table>(n);
}

}  // namespace rotorlin
