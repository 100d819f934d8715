// SPDX-License-Identifier: MIT
/// \file
/// Sums of outer products A B^H and A^H B over the real numbers, the complex numbers and the quaternions: the
/// gradients of the spinor kernel, of a tile of samples and of one sample.
#pragma once

#include <type_traits>

#include "rotorlin/algebra/spinor_basis.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// MR x NR entries of sum_k A(m, k) B(n, k)* (or A* B, with ConjugateFirst) over K = R, C, H, added over
/// lanes into `out`. The units of an entry are `unit_step` apart.
template <class S, int W, int K, int MR, int NR, bool ConjugateFirst>
inline void outer_block(const PackMatrix<const S>& a, const PackMatrix<const S>& b, Index unit_step,
                        Index depth, S* out, Index out_row, Index out_column, Index out_unit) {
  Pack<S, W> sum[to_size(MR)][to_size(NR)][to_size(K)] = {};
  const S* a_entry = a.data;
  const S* b_entry = b.data;
  for (Index k = 0; k < depth; ++k, a_entry += a.column_step, b_entry += b.column_step) {
    Pack<S, W> left[to_size(MR)][to_size(K)];
    ROTORLIN_UNROLL
    for (int m = 0; m < MR; ++m) {
      ROTORLIN_UNROLL
      for (int u = 0; u < K; ++u) left[m][u] = load<S, W>(a_entry + m * a.row_step + u * unit_step);
    }
    ROTORLIN_UNROLL
    for (int n = 0; n < NR; ++n) {
      ROTORLIN_UNROLL
      for (int v = 0; v < K; ++v) {
        const Pack<S, W> right = load<S, W>(b_entry + n * b.row_step + v * unit_step);
        ROTORLIN_UNROLL
        for (int m = 0; m < MR; ++m) {
          ROTORLIN_UNROLL
          for (int u = 0; u < K; ++u) {
            const bool conjugated = ConjugateFirst ? u != 0 : v != 0;
            if ((unit_sign(static_cast<unsigned>(u), static_cast<unsigned>(v)) > 0) != conjugated) {
              sum[m][n][u ^ v] += left[m][u] * right;
            } else {
              sum[m][n][u ^ v] -= left[m][u] * right;
            }
          }
        }
      }
    }
  }
  ROTORLIN_UNROLL
  for (int m = 0; m < MR; ++m) {
    ROTORLIN_UNROLL
    for (int n = 0; n < NR; ++n) {
      ROTORLIN_UNROLL
      for (int u = 0; u < K; ++u) {
        out[m * out_row + n * out_column + u * out_unit] += sum_lanes<S, W>(sum[m][n][u]);
      }
    }
  }
}

/// out(m, n) += sum_k A(m, k) B(n, k)* (or A* B) for all D x D pairs (m, n), blocks of MR x NR at a time.
template <class S, int W, int K, int MR, int NR, bool ConjugateFirst>
void outer_blocks(Index order, const PackMatrix<const S>& a, const PackMatrix<const S>& b, S* out,
                  Index out_row, Index out_column) {
  for (Index m = 0; m < order; m += MR) {
    for (Index n = 0; n < order; n += NR) {
      outer_block<S, W, K, MR, NR, ConjugateFirst>({a.data + m * a.row_step, a.row_step, a.column_step},
                                                   {b.data + n * b.row_step, b.row_step, b.column_step},
                                                   order * W, order, out + m * out_row + n * out_column,
                                                   out_row, out_column, order);
    }
  }
}

template <class S, int W, bool ConjugateFirst>
void outer_product(const SpinorBasis& basis, const PackMatrix<const S>& a, const PackMatrix<const S>& b,
                   S* out, Index out_row, Index out_column) {
  // the accumulators, MR x NR x K packs, fill half of the registers
  constexpr int more = register_count >= 32 ? 2 : 1;
  const Index order = basis.order;
  if (basis.field == 1) {
    if (order >= 4)
      return outer_blocks<S, W, 1, 4, 2 * more, ConjugateFirst>(order, a, b, out, out_row, out_column);
    outer_blocks<S, W, 1, 1, 1, ConjugateFirst>(order, a, b, out, out_row, out_column);
  } else if (basis.field == 2) {
    if (order >= 4)
      return outer_blocks<S, W, 2, 4, more, ConjugateFirst>(order, a, b, out, out_row, out_column);
    outer_blocks<S, W, 2, 1, 1, ConjugateFirst>(order, a, b, out, out_row, out_column);
  } else {
    if (order >= 2)
      return outer_blocks<S, W, 4, 2, more, ConjugateFirst>(order, a, b, out, out_row, out_column);
    outer_blocks<S, W, 4, 1, 1, ConjugateFirst>(order, a, b, out, out_row, out_column);
  }
}

/// V rows x NR columns of sum_k A(m, k) B(n, k)* (or A* B) for one sample: rows of A lie side by side, the
/// units of its entries `order` apart.
template <class S, int V, int K, int NR, bool ConjugateFirst>
inline void outer_rows(const S* a, Index a_step, const PackMatrix<const S>& b, Index order, S* out,
                       Index out_column) {
  Pack<S, V> sum[to_size(NR)][to_size(K)] = {};
  const S* b_entry = b.data;
  for (Index k = 0; k < order; ++k, a += a_step, b_entry += b.column_step) {
    Pack<S, V> left[to_size(K)];
    ROTORLIN_UNROLL
    for (int u = 0; u < K; ++u) left[u] = load<S, V>(a + u * order);
    ROTORLIN_UNROLL
    for (int n = 0; n < NR; ++n) {
      ROTORLIN_UNROLL
      for (int v = 0; v < K; ++v) {
        const S right = b_entry[n * b.row_step + v * order];
        ROTORLIN_UNROLL
        for (int u = 0; u < K; ++u) {
          const bool conjugated = ConjugateFirst ? u != 0 : v != 0;
          if ((unit_sign(static_cast<unsigned>(u), static_cast<unsigned>(v)) > 0) != conjugated) {
            sum[n][u ^ v] += left[u] * right;
          } else {
            sum[n][u ^ v] -= left[u] * right;
          }
        }
      }
    }
  }
  ROTORLIN_UNROLL
  for (int n = 0; n < NR; ++n) {
    ROTORLIN_UNROLL
    for (int u = 0; u < K; ++u) {
      S* to = out + n * out_column + u * order;
      store<S, V>(to, load<S, V>(to) + sum[n][u]);
    }
  }
}

template <class S, int V, int K, bool ConjugateFirst>
void outer_of_sample(Index order, const S* a, Index a_step, const PackMatrix<const S>& b, S* out,
                     Index out_column) {
  constexpr int columns = K == 4 ? 2 : 4;
  for (Index m = 0; m < order; m += V) {
    Index n = 0;
    const auto take = [&](auto count) {
      constexpr int NR = decltype(count)::value;
      outer_rows<S, V, K, NR, ConjugateFirst>(a + m, a_step,
                                              {b.data + n * b.row_step, b.row_step, b.column_step}, order,
                                              out + m + n * out_column, out_column);
      n += NR;
    };
    while (n + columns <= order) take(std::integral_constant<int, columns>{});
    while (n < order) take(std::integral_constant<int, 1>{});
  }
}

}  // namespace rotorlin::detail
