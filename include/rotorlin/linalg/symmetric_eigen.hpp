// SPDX-License-Identifier: MIT
/// \file
/// Eigenvalues and eigenvectors of symmetric matrices: reduction to tridiagonal form in blocks (Dongarra,
/// Hammarling and Sorensen 1989), implicit QL steps on it (Dubrulle 1970), and the reflections of the
/// reduction on the result. Where Eigen may use LAPACKE (EIGEN_USE_LAPACKE): LAPACK's divide and conquer.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/lapack.hpp"
#include "rotorlin/linalg/qr.hpp"

namespace rotorlin::linalg {

template <std::floating_point T>
struct SymmetricEigen {
  VectorX<T> values;  ///< ascending
  Matrix<T> vectors;  ///< columns, orthonormal
  bool success;       ///< false where an entry was not finite
};

namespace detail {

using rotorlin::detail::load;
using rotorlin::detail::native_lanes;
using rotorlin::detail::Pack;
using rotorlin::detail::store;
using rotorlin::detail::unroll;

/// y += A x from the lower triangle of A, n x n.
template <class T>
void add_symmetric(Index n, const T* a, Index stride, const T* x, T* y) {
  constexpr int lanes = native_lanes<T>, width = 4;
  Index j = 0;
  for (; j + width <= n; j += width) {
    const T* const block = a + j * stride;
    for (int c = 0; c < width; ++c) {
      y[j + c] += block[c * stride + j + c] * x[j + c];
      for (int i = c + 1; i < width; ++i) {
        y[j + i] += block[c * stride + j + i] * x[j + c];
        y[j + c] += block[c * stride + j + i] * x[j + i];
      }
    }
    Pack<T, lanes> sums[width] = {};
    T factors[width], rest[width] = {};
    for (int c = 0; c < width; ++c) factors[c] = x[j + c];
    Index i = j + width;
    for (; i + lanes <= n; i += lanes) {
      Pack<T, lanes> sum = load<T, lanes>(y + i);
      const Pack<T, lanes> part = load<T, lanes>(x + i);
      unroll<width>([&](auto c) {
        const Pack<T, lanes> entry = load<T, lanes>(block + c * stride + i);
        sum += factors[c] * entry;
        sums[c] += part * entry;
      });
      store<T, lanes>(y + i, sum);
    }
    for (; i < n; ++i) {
      for (int c = 0; c < width; ++c) {
        y[i] += factors[c] * block[c * stride + i];
        rest[c] += block[c * stride + i] * x[i];
      }
    }
    for (int c = 0; c < width; ++c) {
      T parts[rotorlin::detail::to_size(lanes)];
      store<T, lanes>(parts, sums[c]);
      y[j + c] += std::accumulate(parts, parts + lanes, rest[c]);
    }
  }
  for (; j < n; ++j) {
    const T* const column = a + j * stride;
    y[j] += column[j] * x[j] + dot<T>(n - j - 1, column + j + 1, x + j + 1);
    axpy<T>(n - j - 1, x[j], column + j + 1, y + j + 1);
  }
}

/// A = Q T Q^T over the lower triangle of A: the v of the reflections of Q below the first subdiagonal, T's
/// diagonal and subdiagonal apart.
template <class T>
void tridiagonalize(Matrix<T>& a, VectorX<T>& diagonal, VectorX<T>& below, VectorX<T>& tau) {
  const Index n = a.rows(), width = 32;
  for (Index first = 0; first + 1 < n; first += width) {
    const Index count = std::min(width, n - 1 - first), m = n - first;
    // columns of the block: V holds the reflections, and A - V W^T - W V^T is what they leave
    Matrix<T> v(m, count), w(m, count);
    v.setZero();
    w.setZero();
    for (Index k = 0; k < count; ++k) {
      const Index j = first + k, rows = n - j - 1;
      T* const column = a.data() + j * n + j;
      add_columns<T>(rows + 1, k, -1, v.data() + k, m, w.data() + k, m, column);
      add_columns<T>(rows + 1, k, -1, w.data() + k, m, v.data() + k, m, column);
      diagonal[j] = column[0];
      tau[j] = make_reflector<T>(rows, column + 1);
      below[j] = column[1];
      T *const to = v.data() + k * m + k + 1, *const image = w.data() + k * m + k + 1;
      std::copy(column + 1, column + 1 + rows, to);
      to[0] = 1;
      add_symmetric<T>(rows, a.data() + (j + 1) * n + j + 1, n, to, image);
      T seen[width] = {};
      add_dots<T>(rows, k, 1, w.data() + k + 1, m, to, seen);
      add_columns<T>(rows, k, -1, v.data() + k + 1, m, seen, 1, image);
      std::fill(seen, seen + width, T(0));
      add_dots<T>(rows, k, 1, v.data() + k + 1, m, to, seen);
      add_columns<T>(rows, k, -1, w.data() + k + 1, m, seen, 1, image);
      for (Index i = 0; i < rows; ++i) image[i] *= tau[j];
      axpy<T>(rows, -tau[j] / 2 * dot<T>(rows, image, to), to, image);
    }
    constexpr Index columns = 128;
    for (Index j = first + count; j < n; j += columns) {
      const Index some = std::min(columns, n - j);
      auto part = a.block(j, j, n - j, some);
      gemm<T>(-1, v.bottomRows(n - j), Op::plain, w.middleRows(j - first, some), Op::transposed, 1, part);
      gemm<T>(-1, w.bottomRows(n - j), Op::plain, v.middleRows(j - first, some), Op::transposed, 1, part);
    }
  }
  diagonal[n - 1] = a(n - 1, n - 1);
}

/// Plane rotations of neighbouring columns, put off and applied many at a time to a matrix that lies in
/// panels of `height` rows, each by columns.
template <class T>
class RotatedPanels {
  static constexpr int lanes = native_lanes<T>, packs = lanes < 8 ? 8 / lanes : 1;
  static constexpr Index height = Index{lanes} * packs;

 public:
  /// The identity, n x n.
  explicit RotatedPanels(Index n)
      : n_(n),
        panels_((n + height - 1) / height),
        values_(static_cast<std::size_t>(panels_ * n * height), 0) {
    for (Index i = 0; i < n; ++i) values_[place(i, i)] = 1;
  }

  /// Columns k and k + 1 become c z_k - s z_k+1 and s z_k + c z_k+1, first for k = first + count - 1, then
  /// down to k = first; cosines and sines in that order.
  void rotate(Index first, Index count, const T* cosines, const T* sines) {
    using P = Pack<T, lanes>;
    for (Index panel = 0; panel < panels_; ++panel) {
      T* z = values_.data() + (panel * n_ + first + count) * height;
      P carried[rotorlin::detail::to_size(packs)];
      unroll<packs>([&](auto p) { carried[p] = load<T, lanes>(z + p * lanes); });
      for (Index i = 0; i < count; ++i, z -= height) {
        const T c = cosines[i], s = sines[i];
        unroll<packs>([&](auto p) {
          const P other = load<T, lanes>(z - height + p * lanes);
          store<T, lanes>(z + p * lanes, s * other + c * carried[p]);
          carried[p] = c * other - s * carried[p];
        });
      }
      unroll<packs>([&](auto p) { store<T, lanes>(z + p * lanes, carried[p]); });
    }
  }

  T operator()(Index i, Index j) const { return values_[place(i, j)]; }

 private:
  std::size_t place(Index i, Index j) const {
    return static_cast<std::size_t>((i / height * n_ + j) * height + i % height);
  }
  Index n_, panels_;
  std::vector<T> values_;
};

/// Eigenvalues over the diagonal, and the rotations that lead there. False where they don't converge.
template <class T>
bool implicit_ql(VectorX<T>& d, VectorX<T>& e, RotatedPanels<T>& vectors) {
  const Index n = d.size();
  T norm = 0;
  for (Index i = 0; i < n; ++i) norm = std::fmax(norm, std::abs(d[i]) + std::abs(e[i]));
  const T negligible = std::numeric_limits<T>::epsilon() * norm;  // no smaller than the rounding of a step
  std::vector<T> cosines(static_cast<std::size_t>(n)), sines(static_cast<std::size_t>(n));
  for (Index low = 0; low < n; ++low) {
    for (int turn = 0;; ++turn) {
      Index high = low;  // low ... high: a block whose subdiagonal has no zero
      while (high + 1 < n && !(std::abs(e[high]) <= negligible)) ++high;
      if (high == low) break;
      if (turn == 60) return false;
      // a step with Wilkinson's shift, chasing the bulge upwards
      const T gap = (d[low + 1] - d[low]) / (2 * e[low]);
      T g = d[high] - d[low] + e[low] / (gap + std::copysign(std::hypot(gap, T(1)), gap));
      T s = 1, c = 1, shifted = 0;
      Index i = high - 1;
      std::size_t done = 0;
      bool split = false;
      for (; i >= low; --i) {
        const T f = s * e[i], b = c * e[i], r = std::hypot(f, g);
        e[i + 1] = r;
        if (r == 0) {
          d[i + 1] -= shifted;
          e[high] = 0;
          split = true;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - shifted;
        const T turned = (d[i] - g) * s + 2 * c * b;
        shifted = s * turned;
        d[i + 1] = g + shifted;
        g = c * turned - b;
        cosines[done] = c;
        sines[done++] = s;
      }
      vectors.rotate(i + 1, static_cast<Index>(done), cosines.data(), sines.data());
      if (split) continue;
      d[low] -= shifted;
      e[low] = g;
      e[high] = 0;
    }
  }
  return true;
}

}  // namespace detail

/// Of the lower triangle of a square matrix.
template <std::floating_point T>
SymmetricEigen<T> symmetric_eigen(Matrix<T> a) {
  const Index n = a.rows();
  VectorX<T> values(n);
#if defined(EIGEN_USE_LAPACKE)
  const bool success = n == 0 || lapack::syevd_lower(n, a.data(), values.data()) == 0;
  return {std::move(values), std::move(a), success};
#else
  if (n == 0) return {std::move(values), std::move(a), true};
  T largest = 0;
  for (Index j = 0; j < n; ++j) {
    for (Index i = j; i < n; ++i) {
      if (!rotorlin::detail::is_finite(a(i, j))) return {std::move(values), std::move(a), false};
      largest = std::max(largest, std::abs(a(i, j)));
    }
  }
  if (largest == 0) largest = 1;
  scale<T>(1 / largest, a);
  VectorX<T> diagonal(n), below(n), tau(std::max<Index>(n - 1, 0));
  below.setZero();
  detail::tridiagonalize<T>(a, diagonal, below, tau);
  detail::RotatedPanels<T> rotated(n);
  const bool success = detail::implicit_ql<T>(diagonal, below, rotated);
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return diagonal[i] < diagonal[j]; });
  Matrix<T> vectors(n, n);
  for (Index j = 0; j < n; ++j) {
    const Index from = order[static_cast<std::size_t>(j)];
    values[j] = largest * diagonal[from];
    for (Index i = 0; i < n; ++i) vectors(i, j) = rotated(i, from);
  }
  if (n > 1) {
    apply_reflectors<T>(a.bottomLeftCorner(n - 1, n - 1), tau, Op::plain, vectors.bottomRows(n - 1));
  }
  return {std::move(values), std::move(vectors), success};
#endif
}

/// What rotorlin::compiled holds of this header.
#define ROTORLIN_INSTANTIATE_SYMMETRIC_EIGEN(KEYWORD, T) \
  KEYWORD template SymmetricEigen<T> symmetric_eigen<T>(Matrix<T>)

#if defined(ROTORLIN_COMPILED)
ROTORLIN_INSTANTIATE_SYMMETRIC_EIGEN(extern, float);
ROTORLIN_INSTANTIATE_SYMMETRIC_EIGEN(extern, double);
#endif

}  // namespace rotorlin::linalg
