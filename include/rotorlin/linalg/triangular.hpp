// SPDX-License-Identifier: MIT
/// \file
/// Triangular systems and the Cholesky factorisation, in halves and blocks, so that most of the work is
/// matrix products. Triangles are square, of as many rows as what they are applied to; Eigen's assertions look
/// at shapes, and nothing throws but std::bad_alloc.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <concepts>

#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/lapack.hpp"
#include "rotorlin/linalg/products.hpp"

namespace rotorlin::linalg {

/// B <- U^-1 B or U^-T B. Only the upper triangle of U is read; no entry of its diagonal may be zero.
template <std::floating_point T>
void solve_upper(const ConstMatrixRef<T>& u, Op op, MatrixRef<T> b) {
  const Index n = u.rows();
  if (n > 32) {
    const Index half = n / 2 / 4 * 4;
    const auto above = u.topRightCorner(half, n - half);
    if (op == Op::plain) {
      solve_upper<T>(u.bottomRightCorner(n - half, n - half), op, b.bottomRows(n - half));
      gemm<T>(-1, above, Op::plain, b.bottomRows(n - half), Op::plain, 1, b.topRows(half));
      solve_upper<T>(u.topLeftCorner(half, half), op, b.topRows(half));
    } else {
      solve_upper<T>(u.topLeftCorner(half, half), op, b.topRows(half));
      gemm<T>(-1, above, Op::transposed, b.topRows(half), Op::plain, 1, b.bottomRows(n - half));
      solve_upper<T>(u.bottomRightCorner(n - half, n - half), op, b.bottomRows(n - half));
    }
    return;
  }
  const Index stride = u.outerStride();
  for (Index j = 0; j < b.cols(); ++j) {
    T* const x = b.data() + j * b.outerStride();
    if (op == Op::plain) {
      for (Index i = n - 1; i >= 0; --i) {
        const T* const column = u.data() + i * stride;
        x[i] /= column[i];
        axpy<T>(i, -x[i], column, x);
      }
    } else {
      for (Index i = 0; i < n; ++i) {
        const T* const column = u.data() + i * stride;
        x[i] = (x[i] - dot<T>(i, column, x)) / column[i];
      }
    }
  }
}

/// U^-1 B or U^-T B.
template <std::floating_point T>
Matrix<T> upper_solution(const ConstMatrixRef<T>& u, Op op, const ConstMatrixRef<T>& b) {
  Matrix<T> x = b;
  solve_upper<T>(u, op, x);
  return x;
}

/// U with G = U^T U over the upper triangle of a symmetric G, which alone is read; zeros below. Returns
/// whether G is positive definite: every pivot is > 0.
template <std::floating_point T>
bool cholesky_upper(MatrixRef<T> g) {
  const Index n = g.rows(), stride = g.outerStride();
#if defined(EIGEN_USE_LAPACKE)
  if (lapack::potrf_upper(n, g.data(), stride) != 0) return false;
#else
  constexpr Index width = 64;
  for (Index first = 0; first < n; first += width) {
    const Index end = std::min(first + width, n);
    for (Index j = first; j < end; ++j) {
      T* const column = g.data() + j * stride;
      for (Index i = first; i < j; ++i) {
        const T* const other = g.data() + i * stride;
        column[i] = (column[i] - dot<T>(i - first, other + first, column + first)) / other[i];
      }
      const T pivot = column[j] - dot<T>(j - first, column + first, column + first);
      if (!(pivot > 0) || !rotorlin::detail::is_finite(pivot)) return false;
      column[j] = std::sqrt(pivot);
    }
    if (end == n) break;
    auto right = g.block(first, end, end - first, n - end);
    solve_upper<T>(g.block(first, first, end - first, end - first), Op::transposed, right);
    constexpr Index columns = 128;
    for (Index j = end; j < n; j += columns) {  // the upper triangle of what remains
      const Index some = std::min(columns, n - j);
      gemm<T>(-1, g.block(first, end, end - first, j + some - end), Op::transposed,
              g.block(first, j, end - first, some), Op::plain, 1, g.block(end, j, j + some - end, some));
    }
  }
#endif
  for (Index j = 0; j < n; ++j) {
    T* const column = g.data() + j * stride;
    std::fill(column + j + 1, column + n, T(0));
  }
  return true;
}

/// What rotorlin::compiled holds of this header.
#define ROTORLIN_INSTANTIATE_TRIANGULAR(KEYWORD, T)                                                     \
  KEYWORD template void solve_upper<T>(const ConstMatrixRef<T>&, Op, MatrixRef<T>);                     \
  KEYWORD template Matrix<T> upper_solution<T>(const ConstMatrixRef<T>&, Op, const ConstMatrixRef<T>&); \
  KEYWORD template bool cholesky_upper<T>(MatrixRef<T>)

#if defined(ROTORLIN_COMPILED)
ROTORLIN_INSTANTIATE_TRIANGULAR(extern, float);
ROTORLIN_INSTANTIATE_TRIANGULAR(extern, double);
#endif

}  // namespace rotorlin::linalg
