// SPDX-License-Identifier: MIT
/// \file
/// Loops over columns, of which the decompositions are made where matrices are too small or too narrow for a
/// matrix product. All on plain memory, so that they are compiled once a scalar.
#pragma once

#include <algorithm>
#include <concepts>

#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin::linalg {

/// x^T y.
template <std::floating_point T>
T dot(Index n, const T* x, const T* y) {
  constexpr int lanes = rotorlin::detail::native_lanes<T>, chains = 4;
  using P = rotorlin::detail::Pack<T, lanes>;
  P sums[chains] = {};
  Index i = 0;
  for (; i + chains * lanes <= n; i += chains * lanes) {
    rotorlin::detail::unroll<chains>([&](auto c) {
      sums[c] += rotorlin::detail::load<T, lanes>(x + i + c * lanes) *
                 rotorlin::detail::load<T, lanes>(y + i + c * lanes);
    });
  }
  T parts[rotorlin::detail::to_size(lanes)], sum = 0;
  rotorlin::detail::store<T, lanes>(parts, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (const T part : parts) sum += part;
  for (; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

/// y += alpha x.
template <std::floating_point T>
void axpy(Index n, T alpha, const T* x, T* y) {
  constexpr int lanes = rotorlin::detail::native_lanes<T>, chains = 2;
  Index i = 0;
  for (; i + chains * lanes <= n; i += chains * lanes) {
    rotorlin::detail::unroll<chains>([&](auto c) {
      T* const to = y + i + c * lanes;
      rotorlin::detail::store<T, lanes>(to, rotorlin::detail::load<T, lanes>(to) +
                                                alpha * rotorlin::detail::load<T, lanes>(x + i + c * lanes));
    });
  }
  for (; i < n; ++i) y[i] += alpha * x[i];
}

/// y += alpha A x, A: rows x cols with `stride` from column to column.
template <std::floating_point T>
void add_columns(Index rows, Index cols, T alpha, const T* a, Index stride, const T* x, Index x_step, T* y) {
  constexpr int lanes = rotorlin::detail::native_lanes<T>, width = 4;
  Index j = 0;
  for (; j + width <= cols; j += width, a += width * stride) {
    T factors[width];
    for (int c = 0; c < width; ++c) factors[c] = alpha * x[(j + c) * x_step];
    Index i = 0;
    for (; i + lanes <= rows; i += lanes) {
      rotorlin::detail::Pack<T, lanes> sum = rotorlin::detail::load<T, lanes>(y + i);
      rotorlin::detail::unroll<width>(
          [&](auto c) { sum += factors[c] * rotorlin::detail::load<T, lanes>(a + c * stride + i); });
      rotorlin::detail::store<T, lanes>(y + i, sum);
    }
    for (; i < rows; ++i) {
      for (int c = 0; c < width; ++c) y[i] += factors[c] * a[c * stride + i];
    }
  }
  for (; j < cols; ++j, a += stride) axpy<T>(rows, alpha * x[j * x_step], a, y);
}

/// y += alpha A^T x, A as above.
template <std::floating_point T>
void add_dots(Index rows, Index cols, T alpha, const T* a, Index stride, const T* x, T* y) {
  constexpr int lanes = rotorlin::detail::native_lanes<T>, width = 4;
  using P = rotorlin::detail::Pack<T, lanes>;
  Index j = 0;
  for (; j + width <= cols; j += width, a += width * stride) {
    P sums[width] = {};
    Index i = 0;
    for (; i + lanes <= rows; i += lanes) {
      const P part = rotorlin::detail::load<T, lanes>(x + i);
      rotorlin::detail::unroll<width>(
          [&](auto c) { sums[c] += part * rotorlin::detail::load<T, lanes>(a + c * stride + i); });
    }
    for (int c = 0; c < width; ++c) {
      T parts[rotorlin::detail::to_size(lanes)], sum = 0;
      rotorlin::detail::store<T, lanes>(parts, sums[c]);
      for (const T part : parts) sum += part;
      for (Index rest = i; rest < rows; ++rest) sum += a[c * stride + rest] * x[rest];
      y[j + c] += alpha * sum;
    }
  }
  for (; j < cols; ++j, a += stride) y[j] += alpha * dot<T>(rows, a, x);
}

}  // namespace rotorlin::linalg
