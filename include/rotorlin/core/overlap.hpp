// SPDX-License-Identifier: MIT
/// \file
/// Whether two matrices have memory in common: what is written must not be what is still to be read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// The bytes of a column-major matrix: `columns` pieces of `height` bytes, `stride` apart.
struct MemoryColumns {
  std::uintptr_t begin;
  Index height, columns, stride;

  bool empty() const { return height == 0 || columns == 0; }
  /// Behind the last column.
  std::uintptr_t end() const { return begin + static_cast<std::uintptr_t>((columns - 1) * stride + height); }
};

/// Of an Eigen matrix, map or reference whose inner stride is 1.
template <class M>
MemoryColumns memory_columns(const M& m) {
  constexpr auto scalar = static_cast<Index>(sizeof(typename M::Scalar));
  MemoryColumns memory{reinterpret_cast<std::uintptr_t>(m.data()), m.rows() * scalar, m.cols(),
                       m.outerStride() * scalar};
  if (memory.columns > 1 && memory.stride < 0) {  // the same columns from the other end
    memory.begin -= static_cast<std::uintptr_t>((memory.columns - 1) * -memory.stride);
    memory.stride = -memory.stride;
  }
  if (memory.columns == 1 || memory.stride == 0) {
    memory.columns = std::min<Index>(memory.columns, 1);
    memory.stride = memory.height;
  }
  return memory;
}

/// Exact, so that two row blocks of one matrix are told apart, in time of the order of the columns; at once
/// where the two lie one behind the other.
inline bool overlap(const MemoryColumns& a, const MemoryColumns& b) {
  if (a.empty() || b.empty() || a.end() <= b.begin || b.end() <= a.begin) return false;
  for (Index j = 0; j < b.columns; ++j) {
    // where column j of b begins, seen from a
    const Index first = static_cast<Index>(b.begin - a.begin) + j * b.stride;
    // the last column of a that begins before the end of it, and before its own end
    const Index last = first + b.height - 1;
    if (last < 0) continue;
    const Index i = std::min(last / a.stride, a.columns - 1);
    if (i * a.stride + a.height > first) return true;
  }
  return false;
}

/// Whether two matrices have an entry in common.
template <class A, class B>
bool share_memory(const A& a, const B& b) {
  return overlap(memory_columns(a), memory_columns(b));
}

/// Whether some entry of `m` is another one of its entries too, as a map with a short stride has it.
template <class M>
bool overlaps_itself(const M& m) {
  return m.cols() > 1 && m.rows() > 0 && std::abs(m.outerStride()) < m.rows();
}

}  // namespace rotorlin::detail
