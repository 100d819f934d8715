// SPDX-License-Identifier: MIT
/// \file
/// A = Q R by Householder reflections: H = I - tau v v^T with v_0 = 1, in blocks I - V T V^T (Schreiber and
/// Van Loan 1989), so that most of the work is matrix products. And with pivoting, A P = Q R, which shows the
/// rank.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/lapack.hpp"
#include "rotorlin/linalg/products.hpp"

namespace rotorlin::linalg {

inline constexpr Index reflector_block = 48;

/// The reflection that takes x (n >= 1 values) to beta e_0: x_0 becomes beta, the rest v without its leading
/// 1. Returns tau.
template <std::floating_point T>
T make_reflector(Index n, T* x) {
  const T rest = n > 1 ? dot<T>(n - 1, x + 1, x + 1) : T(0);
  if (rest <= std::numeric_limits<T>::min()) {  // not so for NaN, which spreads
    std::fill(x + 1, x + n, T(0));
    return 0;
  }
  const T first = x[0], length = std::sqrt(first * first + rest), beta = first >= 0 ? -length : length;
  for (Index i = 1; i < n; ++i) x[i] /= first - beta;
  x[0] = beta;
  return (beta - first) / beta;
}

/// Columns c, of n values each, <- H c.
template <std::floating_point T>
void apply_reflector(Index n, const T* v, T tau, T* c, Index stride, Index columns) {
  if (tau == 0) return;
  for (Index j = 0; j < columns; ++j, c += stride) {
    const T factor = tau * (c[0] + dot<T>(n - 1, v + 1, c + 1));
    c[0] -= factor;
    axpy<T>(n - 1, -factor, v + 1, c + 1);
  }
}

/// B <- Q B or Q^T B, for the product Q of the reflections whose v stand below the diagonal of `packed` (m x
/// k, k <= m) with these tau. B: m x anything.
template <std::floating_point T>
void apply_reflectors(const ConstMatrixRef<T>& packed, const VectorX<T>& tau, Op op, MatrixRef<T> b) {
  const Index m = packed.rows(), count = tau.size(), width = reflector_block;
  const Index blocks = (count + width - 1) / width;
  for (Index block = 0; block < blocks; ++block) {
    const Index first = (op == Op::transposed ? block : blocks - 1 - block) * width;
    const Index k = std::min(width, count - first), rows = m - first;
    Matrix<T> v(rows, k);
    for (Index j = 0; j < k; ++j) {
      const T* const from = packed.data() + (first + j) * packed.outerStride() + first;
      T* const to = v.data() + j * rows;
      std::fill(to, to + j, T(0));
      to[j] = 1;
      std::copy(from + j + 1, from + rows, to + j + 1);
    }
    const Matrix<T> overlap = product_tn<T>(v, v);
    Matrix<T> t(k, k);
    t.setZero();
    for (Index j = 0; j < k; ++j) {
      const T factor = tau[first + j];
      t(j, j) = factor;
      add_columns<T>(j, j, -factor, t.data(), k, overlap.data() + j * k, 1, t.data() + j * k);
    }
    auto part = b.bottomRows(rows);
    const Matrix<T> seen = product_tn<T>(v, part);
    Matrix<T> turned(k, b.cols());
    gemm<T>(1, t, op, seen, Op::plain, 0, turned);
    gemm<T>(-1, v, Op::plain, turned, Op::plain, 1, part);
  }
}

/// A = Q R, A: m x n; Q: m x m in min(m, n) reflections.
template <std::floating_point T>
class Qr {
 public:
  explicit Qr(Matrix<T> a);

  /// The shape of A.
  Index rows() const { return packed_.rows(); }
  Index cols() const { return packed_.cols(); }
  /// R on and above the diagonal.
  const Matrix<T>& packed() const { return packed_; }
  /// The first rows of R, zeros below the diagonal. rows <= min(m, n).
  Matrix<T> r(Index rows) const;
  /// B <- Q B or Q^T B, B: m x anything.
  void apply_q(Op op, MatrixRef<T> b) const { apply_reflectors<T>(packed_, tau_, op, b); }
  /// The first columns of Q.
  Matrix<T> q(Index columns) const;

 private:
  Matrix<T> packed_;
  VectorX<T> tau_;
};

template <std::floating_point T>
Qr<T>::Qr(Matrix<T> a) : packed_(std::move(a)) {
  const Index m = packed_.rows(), n = packed_.cols(), count = std::min(m, n);
  tau_.resize(count);
  if (count == 0) return;
#if defined(EIGEN_USE_LAPACKE)
  lapack::geqrf(m, n, packed_.data(), m, tau_.data());
#else
  for (Index first = 0; first < count; first += reflector_block) {
    const Index k = std::min(reflector_block, count - first);
    for (Index j = first; j < first + k; ++j) {
      T* const v = packed_.data() + j * m + j;
      tau_[j] = make_reflector<T>(m - j, v);
      apply_reflector<T>(m - j, v, tau_[j], v + m, m, first + k - j - 1);
    }
    if (first + k < n) {
      apply_reflectors<T>(packed_.block(first, first, m - first, k), tau_.segment(first, k), Op::transposed,
                          packed_.block(first, first + k, m - first, n - first - k));
    }
  }
#endif
}

template <std::floating_point T>
Matrix<T> Qr<T>::r(Index rows) const {
  Matrix<T> upper(rows, packed_.cols());
  for (Index j = 0; j < upper.cols(); ++j) {
    for (Index i = 0; i < rows; ++i) upper(i, j) = i <= j ? packed_(i, j) : T(0);
  }
  return upper;
}

template <std::floating_point T>
Matrix<T> Qr<T>::q(Index columns) const {
  Matrix<T> q(packed_.rows(), columns);
  q.setIdentity();
  apply_q(Op::plain, q);
  return q;
}

/// A P = Q R with the longest of the remaining columns first (Businger and Golub 1965); ends where none is
/// longer than `threshold` times the first: the rank.
template <std::floating_point T>
class PivotedQr {
 public:
  PivotedQr(Matrix<T> a, T threshold);

  /// The number of columns that were found to be linearly independent.
  Index rank() const { return tau_.size(); }
  /// R on and above the diagonal of its first rank() rows.
  const Matrix<T>& packed() const { return packed_; }
  /// Column j of A P is this one of A.
  const std::vector<Index>& order() const { return order_; }
  /// B <- Q B or Q^T B, B: m x anything.
  void apply_q(Op op, MatrixRef<T> b) const { apply_reflectors<T>(packed_, tau_, op, b); }

 private:
  Matrix<T> packed_;
  VectorX<T> tau_;
  std::vector<Index> order_;
};

template <std::floating_point T>
PivotedQr<T>::PivotedQr(Matrix<T> a, T threshold)
    : packed_(std::move(a)), order_(static_cast<std::size_t>(packed_.cols())) {
  const Index m = packed_.rows(), n = packed_.cols(), count = std::min(m, n);
  std::iota(order_.begin(), order_.end(), Index{0});
  tau_.resize(count);
  const auto length = [&](Index column, Index from) {
    const T* const x = packed_.data() + column * m + from;
    return std::sqrt(dot<T>(m - from, x, x));
  };
  VectorX<T> lengths(n), exact(n);  // of what remains of the columns: kept up to date, and computed at last
  for (Index j = 0; j < n; ++j) lengths[j] = exact[j] = length(j, 0);
  const T cancelled = std::sqrt(std::numeric_limits<T>::epsilon());
  T longest = 0;
  Index rank = 0;
  for (; rank < count; ++rank) {
    Index pivot = rank;
    for (Index j = rank + 1; j < n; ++j) {
      if (lengths[j] > lengths[pivot]) pivot = j;
    }
    const T left = length(pivot, rank);
    if (rank == 0) longest = left;
    if (!(left > threshold * longest)) break;
    if (pivot != rank) {
      std::swap_ranges(packed_.data() + pivot * m, packed_.data() + (pivot + 1) * m,
                       packed_.data() + rank * m);
      std::swap(order_[static_cast<std::size_t>(pivot)], order_[static_cast<std::size_t>(rank)]);
      lengths[pivot] = lengths[rank];
      exact[pivot] = exact[rank];
    }
    T* const v = packed_.data() + rank * m + rank;
    tau_[rank] = make_reflector<T>(m - rank, v);
    apply_reflector<T>(m - rank, v, tau_[rank], v + m, m, n - rank - 1);
    for (Index j = rank + 1; j < n; ++j) {  // as in LAPACK's working note 176
      if (lengths[j] == 0) continue;
      const T part = std::abs(packed_(rank, j)) / lengths[j], rest = std::max<T>(0, (1 - part) * (1 + part));
      const T ratio = lengths[j] / exact[j];
      if (rest * ratio * ratio <= cancelled) {
        lengths[j] = exact[j] = rank + 1 < m ? length(j, rank + 1) : T(0);
      } else {
        lengths[j] *= std::sqrt(rest);
      }
    }
  }
  tau_.conservativeResize(rank);
}

/// What rotorlin::compiled holds of this header.
#define ROTORLIN_INSTANTIATE_QR(KEYWORD, T)                                                                 \
  KEYWORD template void apply_reflectors<T>(const ConstMatrixRef<T>&, const VectorX<T>&, Op, MatrixRef<T>); \
  KEYWORD template class Qr<T>;                                                                             \
  KEYWORD template class PivotedQr<T>

#if defined(ROTORLIN_COMPILED)
ROTORLIN_INSTANTIATE_QR(extern, float);
ROTORLIN_INSTANTIATE_QR(extern, double);
#endif

}  // namespace rotorlin::linalg
