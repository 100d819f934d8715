// SPDX-License-Identifier: MIT
/// \file
/// Packs of W scalars that the compiler maps to the vector registers it was told about (SSE2, AVX2, AVX-512,
/// or none at all), the transposition between a batch and packs, and the small matrix product on packs that
/// all sandwich kernels share. Only the vector extensions of gcc and clang are used: no intrinsics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "rotorlin/core/types.hpp"

/// For what must end up in its caller's registers; a compiler's own budget for inlining runs out in large
/// programs.
#define ROTORLIN_INLINE [[gnu::always_inline]] inline
#define ROTORLIN_INLINE_LAMBDA __attribute__((always_inline))

/// Before a loop with a constant number of turns: unroll it, so that small arrays of packs stay in registers.
#if defined(__clang__)
#define ROTORLIN_UNROLL _Pragma("unroll")
#else
#define ROTORLIN_UNROLL _Pragma("GCC unroll 64")
#endif

namespace rotorlin::detail {

#if defined(__AVX512F__)
inline constexpr std::size_t register_bytes = 64;
inline constexpr int register_count = 32;
#elif defined(__AVX__)
inline constexpr std::size_t register_bytes = 32;
inline constexpr int register_count = 16;
#elif defined(__aarch64__) || defined(_M_ARM64)
inline constexpr std::size_t register_bytes = 16;
inline constexpr int register_count = 32;
#else
inline constexpr std::size_t register_bytes = 16;
inline constexpr int register_count = 16;
#endif

template <class S>
inline constexpr bool has_vectors = std::is_same_v<S, float> || std::is_same_v<S, double>;

/// Scalars in one vector register; 1 for types that have none (long double).
template <class S>
inline constexpr int native_lanes = has_vectors<S> ? static_cast<int>(register_bytes / sizeof(S)) : 1;

template <class S, int W>
struct PackOf {
  typedef S type __attribute__((vector_size(sizeof(S) * W)));
};
template <class S>
struct PackOf<S, 1> {
  typedef S type;
};

/// W scalars of type S, added and multiplied lane by lane.
template <class S, int W>
using Pack = typename PackOf<S, W>::type;

template <class S, int W>
ROTORLIN_INLINE Pack<S, W> load(const S* from) {
  Pack<S, W> pack;
  std::memcpy(&pack, from, sizeof(pack));
  return pack;
}

template <class S, int W>
ROTORLIN_INLINE void store(S* to, const Pack<S, W>& pack) {
  std::memcpy(to, &pack, sizeof(pack));
}

/// Memory for packs: aligned to 64 bytes, grows on demand and never shrinks, contents lost on growth.
template <class S>
class PackBuffer {
 public:
  PackBuffer() = default;
  PackBuffer(const PackBuffer&) {}                            // scratch memory is not worth a copy
  PackBuffer& operator=(const PackBuffer&) { return *this; }  // NOLINT(bugprone-unhandled-self-assignment)
  PackBuffer(PackBuffer&& other) noexcept { swap(other); }
  PackBuffer& operator=(PackBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PackBuffer() { release(); }

  /// At least `count` scalars; the same memory as before where it was large enough.
  S* reserve(Index count) {
    if (count > size_) {
      release();
      data_ = static_cast<S*>(
          ::operator new (static_cast<std::size_t>(count) * sizeof(S), std::align_val_t{alignment}));
      size_ = count;
    }
    return data_;
  }
  S* data() { return data_; }
  const S* data() const { return data_; }

 private:
  static constexpr std::size_t alignment = 64;
  void swap(PackBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  void release() {
    if (data_ != nullptr) ::operator delete (data_, std::align_val_t{alignment});
    data_ = nullptr;
    size_ = 0;
  }
  S* data_ = nullptr;
  Index size_ = 0;
};

// Not I: <complex.h>, which LAPACKE includes, defines that.
template <class F, int... Number>
ROTORLIN_INLINE void unroll(std::integer_sequence<int, Number...>, F&& body) {
  (body(std::integral_constant<int, Number>{}), ...);
}

/// body(integral_constant<int, 0>) ... body(integral_constant<int, Count - 1>).
template <int Count, class F>
ROTORLIN_INLINE void unroll(F&& body) {
  unroll(std::make_integer_sequence<int, Count>{}, body);
}

template <class S, int W, int Mask, int... Lane>
ROTORLIN_INLINE Pack<S, W> xor_lanes(const Pack<S, W>& pack, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(pack, pack, (Lane ^ Mask)...);
}

/// Lane l of the result is lane l xor Mask.
template <class S, int W, int Mask>
ROTORLIN_INLINE Pack<S, W> xor_lanes(const Pack<S, W>& pack) {
  if constexpr (W == 1 || Mask == 0) {
    return pack;
  } else {
    return xor_lanes<S, W, Mask>(pack, std::make_integer_sequence<int, W>{});
  }
}

/// One step of a transposition: swaps the off-diagonal blocks of size Step of the pair (upper, lower).
template <class S, int W, int Step, int... Lane>
ROTORLIN_INLINE void exchange(Pack<S, W>& upper, Pack<S, W>& lower, std::integer_sequence<int, Lane...>) {
  const Pack<S, W> a = upper;
  const Pack<S, W> b = lower;
  upper = __builtin_shufflevector(a, b, ((Lane & Step) ? W + (Lane ^ Step) : Lane)...);
  lower = __builtin_shufflevector(a, b, ((Lane & Step) ? W + Lane : (Lane ^ Step))...);
}

/// Transposes a W x W block held in W packs.
template <class S, int W>
ROTORLIN_INLINE void transpose(Pack<S, W> (&block)[to_size(W)]) {
  if constexpr (W > 1) {
    const auto pass = [&](auto step) ROTORLIN_INLINE_LAMBDA {
      constexpr int s = decltype(step)::value;
      unroll<W>([&](auto index) ROTORLIN_INLINE_LAMBDA {
        constexpr int i = decltype(index)::value;
        if constexpr ((i & s) == 0) {
          exchange<S, W, s>(block[i], block[i | s], std::make_integer_sequence<int, W>{});
        }
      });
    };
    if constexpr (W >= 2) pass(std::integral_constant<int, 1>{});
    if constexpr (W >= 4) pass(std::integral_constant<int, 2>{});
    if constexpr (W >= 8) pass(std::integral_constant<int, 4>{});
    if constexpr (W >= 16) pass(std::integral_constant<int, 8>{});
  }
}

template <class S, int W>
ROTORLIN_INLINE S sum_lanes(const Pack<S, W>& pack) {
  if constexpr (W == 1) {
    return pack;
  } else {
    S lanes[to_size(W)];
    store<S, W>(lanes, pack);
    for (int half = W / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    return lanes[0];
  }
}

/// Batch to packs: tile[f] holds feature f of `samples` <= W samples; missing lanes are zero.
/// `x` points to the first sample, samples are `stride` scalars apart.
template <class S, int W>
inline void load_tile(const S* x, Index stride, Index features, Index samples, S* tile) {
  Index f = 0;
  for (; f + W <= features; f += W) {
    Pack<S, W> block[to_size(W)];
    for (int s = 0; s < W; ++s) block[s] = s < samples ? load<S, W>(x + s * stride + f) : Pack<S, W>{};
    transpose<S, W>(block);
    for (int k = 0; k < W; ++k) store<S, W>(tile + (f + k) * W, block[k]);
  }
  for (; f < features; ++f) {
    for (int s = 0; s < W; ++s) tile[f * W + s] = s < samples ? x[s * stride + f] : S(0);
  }
}

/// Packs to batch, the inverse of load_tile; lanes from `samples` on are dropped.
template <class S, int W>
inline void store_tile(const S* tile, Index features, S* y, Index stride, Index samples) {
  Index f = 0;
  for (; f + W <= features; f += W) {
    Pack<S, W> block[to_size(W)];
    for (int k = 0; k < W; ++k) block[k] = load<S, W>(tile + (f + k) * W);
    transpose<S, W>(block);
    for (int s = 0; s < W; ++s) {
      if (s < samples) store<S, W>(y + s * stride + f, block[s]);
    }
  }
  for (; f < features; ++f) {
    for (int s = 0; s < samples; ++s) y[s * stride + f] = tile[f * W + s];
  }
}

/// Where the packs of a matrix lie: entry (row, column) is at data + row * row_step + column * column_step,
/// in scalars.
template <class S>
struct PackMatrix {
  S* data;
  Index row_step;
  Index column_step;
};

/// Rows that the matrix product takes at a time: its accumulators fill half of the registers.
inline constexpr int panel_rows = register_count >= 32 ? 8 : 4;

/// A matrix of scalars (rows x cols) rearranged for `multiply`: panels of panel_rows rows (the last ones of
/// 4, 2, 1), each stored column by column. `packed` has rows * cols scalars.
template <class S, class Entry>
inline void pack_panels(Index rows, Index cols, Entry&& entry, S* packed) {
  Index row = 0;
  for (Index height = panel_rows; height > 0; height /= 2) {
    for (; row + height <= rows; row += height) {
      for (Index k = 0; k < cols; ++k) {
        for (Index m = 0; m < height; ++m) *packed++ = static_cast<S>(entry(row + m, k));
      }
    }
  }
}

/// MR x NR packs of C (+)= A B, with scalars A(m, k) = a[m * a_row + k * a_col].
template <class S, int W, int MR, int NR, bool Add>
inline void multiply_block(const S* a, Index a_row, Index a_col, Index depth, const PackMatrix<const S>& b,
                           const PackMatrix<S>& c) {
  Pack<S, W> sum[to_size(MR)][to_size(NR)];
  ROTORLIN_UNROLL
  for (int m = 0; m < MR; ++m) {
    ROTORLIN_UNROLL
    for (int n = 0; n < NR; ++n) {
      if constexpr (Add) {
        sum[m][n] = load<S, W>(c.data + m * c.row_step + n * c.column_step);
      } else {
        sum[m][n] = Pack<S, W>{};
      }
    }
  }
  const S* b_row = b.data;
  for (Index k = 0; k < depth; ++k, b_row += b.row_step, a += a_col) {
    Pack<S, W> column[to_size(NR)];
    ROTORLIN_UNROLL
    for (int n = 0; n < NR; ++n) column[n] = load<S, W>(b_row + n * b.column_step);
    ROTORLIN_UNROLL
    for (int m = 0; m < MR; ++m) {
      const S scalar = a[m * a_row];
      ROTORLIN_UNROLL
      for (int n = 0; n < NR; ++n) sum[m][n] += column[n] * scalar;
    }
  }
  ROTORLIN_UNROLL
  for (int m = 0; m < MR; ++m) {
    ROTORLIN_UNROLL
    for (int n = 0; n < NR; ++n) store<S, W>(c.data + m * c.row_step + n * c.column_step, sum[m][n]);
  }
}

template <class S, int W, int MR, bool Add>
inline void multiply_rows(const S* a, Index a_row, Index a_col, Index depth, PackMatrix<const S> b,
                          Index cols, PackMatrix<S> c) {
  Index n = 0;
  for (; n + 2 <= cols; n += 2) {
    multiply_block<S, W, MR, 2, Add>(a, a_row, a_col, depth, b, c);
    b.data += 2 * b.column_step;
    c.data += 2 * c.column_step;
  }
  if (n < cols) multiply_block<S, W, MR, 1, Add>(a, a_row, a_col, depth, b, c);
}

/// C (rows x cols packs) = A B or, with Add, C += A B; A is rows x depth scalars as `pack_panels` left it, B
/// is depth x cols packs. Sums run over k in order, whatever the tiling: results do not depend on it.
template <class S, int W, bool Add = false>
inline void multiply(const S* packed, Index rows, Index depth, PackMatrix<const S> b, Index cols,
                     PackMatrix<S> c) {
  const auto panels = [&](auto height) {
    constexpr int mr = decltype(height)::value;
    for (; rows >= mr; rows -= mr) {
      multiply_rows<S, W, mr, Add>(packed, 1, mr, depth, b, cols, c);
      packed += mr * depth;
      c.data += mr * c.row_step;
    }
  };
  if constexpr (panel_rows >= 8) panels(std::integral_constant<int, 8>{});
  panels(std::integral_constant<int, 4>{});
  panels(std::integral_constant<int, 2>{});
  panels(std::integral_constant<int, 1>{});
}

/// The same with A unpacked, row after row of `a_row` scalars.
template <class S, int W, bool Add = false>
inline void multiply_unpacked(const S* a, Index a_row, Index rows, Index depth, PackMatrix<const S> b,
                              Index cols, PackMatrix<S> c) {
  const auto blocks = [&](auto height) {
    constexpr int mr = decltype(height)::value;
    for (; rows >= mr; rows -= mr) {
      multiply_rows<S, W, mr, Add>(a, a_row, 1, depth, b, cols, c);
      a += mr * a_row;
      c.data += mr * c.row_step;
    }
  };
  if constexpr (panel_rows >= 8) blocks(std::integral_constant<int, 8>{});
  blocks(std::integral_constant<int, 4>{});
  blocks(std::integral_constant<int, 1>{});
}

}  // namespace rotorlin::detail
