// SPDX-License-Identifier: MIT
/// \file
/// Products of matrices by the names that BLAS gave them, on Eigen::Ref of one type: compiled once a scalar,
/// where an expression of Eigen's is compiled once for every combination of blocks, maps and transposes, at a
/// second each. Call them with the scalar named: gemm<double>(...).
///
/// This is the one place where a matrix product enters. It is Eigen's kernel, or with EIGEN_USE_BLAS what
/// Eigen binds to it: the BLAS. Shapes are those that the formula needs: Eigen's assertions look at them, and
/// nothing throws but std::bad_alloc.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <concepts>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/vectors.hpp"

namespace rotorlin::linalg {

/// A factor as it is, or its transpose.
enum class Op : bool { plain, transposed };

namespace detail {

/// C += alpha A B with A (m x k) and B (k x n) stored by columns or by rows, C by columns.
template <class T, int OrderA, int OrderB>
void multiply_add(Index m, Index n, Index k, T alpha, const T* a, Index a_stride, const T* b, Index b_stride,
                  T* c, Index c_stride) {
#if EIGEN_VERSION_AT_LEAST(3, 3, 90) && !EIGEN_VERSION_AT_LEAST(3, 4, 90)
  // What `c.noalias() += alpha * a * b` ends in. The expression itself takes four times as long to compile.
  constexpr int column = Eigen::ColMajor;
  using Product =
      Eigen::internal::general_matrix_matrix_product<Index, T, OrderA, false, T, OrderB, false, column, 1>;
  Eigen::internal::gemm_blocking_space<column, T, T, Dynamic, Dynamic, Dynamic> blocking(m, n, k, 1, true);
  Product::run(m, n, k, a, a_stride, b, b_stride, c, 1, c_stride, alpha, blocking, nullptr);
#else
  using Stride = Eigen::OuterStride<>;
  const Eigen::Map<const Eigen::Matrix<T, Dynamic, Dynamic, OrderA>, 0, Stride> left(a, m, k,
                                                                                     Stride(a_stride));
  const Eigen::Map<const Eigen::Matrix<T, Dynamic, Dynamic, OrderB>, 0, Stride> right(b, k, n,
                                                                                      Stride(b_stride));
  Eigen::Map<Eigen::Matrix<T, Dynamic, Dynamic, Eigen::ColMajor>, 0, Stride> result(c, m, n,
                                                                                    Stride(c_stride));
  result.noalias() += alpha * left * right;
#endif
}

}  // namespace detail

/// x <- alpha x; zero also where x is NaN, for alpha = 0.
template <std::floating_point T>
void scale(T alpha, MatrixRef<T> x) {
  for (Index j = 0; j < x.cols(); ++j) {
    T* const column = x.data() + j * x.outerStride();
    if (alpha == 0) {
      std::fill(column, column + x.rows(), T(0));
    } else {
      for (Index i = 0; i < x.rows(); ++i) column[i] *= alpha;
    }
  }
}

/// C <- alpha op(A) op(B) + beta C; what C holds does not matter for beta = 0. C must not overlap A or B.
template <std::floating_point T>
void gemm(T alpha, const ConstMatrixRef<T>& a, Op op_a, const ConstMatrixRef<T>& b, Op op_b, T beta,
          MatrixRef<T> c) {
  if (beta != 1) scale<T>(beta, c);
  const bool turn_a = op_a == Op::transposed, turn_b = op_b == Op::transposed;
  const Index m = c.rows(), n = c.cols(), k = turn_a ? a.rows() : a.cols();
  eigen_assert((turn_a ? a.cols() : a.rows()) == m && (turn_b ? b.rows() : b.cols()) == n);
  eigen_assert((turn_b ? b.cols() : b.rows()) == k);
  if (m == 0 || n == 0 || k == 0) return;
  const T *const left = a.data(), *const right = b.data();
  T* const result = c.data();
  const Index a_stride = a.outerStride(), b_stride = b.outerStride(), c_stride = c.outerStride();
  if (n == 1 || m + n + k < 48) {  // column by column
    const Index step = turn_b ? b_stride : 1;
    std::vector<T> copy(turn_a && step != 1 ? static_cast<std::size_t>(k) : 0);
    for (Index j = 0; j < n; ++j) {
      const T* x = right + j * (turn_b ? 1 : b_stride);
      if (!turn_a) {
        add_columns<T>(m, k, alpha, left, a_stride, x, step, result + j * c_stride);
        continue;
      }
      if (!copy.empty()) {
        for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = x[static_cast<Index>(i) * step];
        x = copy.data();
      }
      add_dots<T>(k, m, alpha, left, a_stride, x, result + j * c_stride);
    }
    return;
  }
  constexpr int columns = Eigen::ColMajor, rows = Eigen::RowMajor;
  const auto multiply = [&]<int A, int B>(std::integral_constant<int, A>, std::integral_constant<int, B>) {
    detail::multiply_add<T, A, B>(m, n, k, alpha, left, a_stride, right, b_stride, result, c_stride);
  };
  using Columns = std::integral_constant<int, columns>;
  using Rows = std::integral_constant<int, rows>;
  if (!turn_a && !turn_b) multiply(Columns(), Columns());
  if (turn_a && !turn_b) multiply(Rows(), Columns());
  if (!turn_a && turn_b) multiply(Columns(), Rows());
  if (turn_a && turn_b) multiply(Rows(), Rows());
}

/// A B, A^T B and A B^T.
template <std::floating_point T>
Matrix<T> product(const ConstMatrixRef<T>& a, const ConstMatrixRef<T>& b) {
  Matrix<T> c(a.rows(), b.cols());
  gemm<T>(1, a, Op::plain, b, Op::plain, 0, c);
  return c;
}
template <std::floating_point T>
Matrix<T> product_tn(const ConstMatrixRef<T>& a, const ConstMatrixRef<T>& b) {
  Matrix<T> c(a.cols(), b.cols());
  gemm<T>(1, a, Op::transposed, b, Op::plain, 0, c);
  return c;
}
template <std::floating_point T>
Matrix<T> product_nt(const ConstMatrixRef<T>& a, const ConstMatrixRef<T>& b) {
  Matrix<T> c(a.rows(), b.rows());
  gemm<T>(1, a, Op::plain, b, Op::transposed, 0, c);
  return c;
}
/// C += alpha A B.
template <std::floating_point T>
void add_product(T alpha, const ConstMatrixRef<T>& a, const ConstMatrixRef<T>& b, MatrixRef<T> c) {
  gemm<T>(alpha, a, Op::plain, b, Op::plain, 1, c);
}

/// The lower triangle of C += alpha op(A) op(A)^T: half the work of gemm.
template <std::floating_point T>
void syrk_lower(T alpha, const ConstMatrixRef<T>& a, Op op, MatrixRef<T> c) {
  const Index n = c.rows(), width = 128;
  for (Index j = 0; j < n; j += width) {
    const Index columns = std::min(width, n - j);
    auto part = c.block(j, j, n - j, columns);
    if (op == Op::plain) {
      gemm<T>(alpha, a.bottomRows(n - j), Op::plain, a.middleRows(j, columns), Op::transposed, 1, part);
    } else {
      gemm<T>(alpha, a.rightCols(n - j), Op::transposed, a.middleCols(j, columns), Op::plain, 1, part);
    }
  }
}

/// What stands below the diagonal, above it too.
template <std::floating_point T>
void mirror_lower(MatrixRef<T> c) {
  constexpr Index width = 32;  // blocks of both triangles stay in the cache
  for (Index first = 0; first < c.cols(); first += width) {
    for (Index top = first; top < c.rows(); top += width) {
      const Index end = std::min(first + width, c.cols()), bottom = std::min(top + width, c.rows());
      for (Index j = first; j < end; ++j) {
        for (Index i = std::max(top, j + 1); i < bottom; ++i) c(j, i) = c(i, j);
      }
    }
  }
}

/// A A^T (Op::plain) or A^T A (Op::transposed), symmetric to the last bit.
template <std::floating_point T>
Matrix<T> symmetric_product(const ConstMatrixRef<T>& a, Op op) {
  const Index n = op == Op::plain ? a.rows() : a.cols();
  Matrix<T> c(n, n);
  c.setZero();
  syrk_lower<T>(1, a, op, c);
  mirror_lower<T>(c);
  return c;
}

/// U X or U^T X for an upper triangular U with zeros below its diagonal.
template <std::floating_point T>
Matrix<T> upper_product(const ConstMatrixRef<T>& u, Op op, const ConstMatrixRef<T>& x) {
  const Index n = u.rows(), height = 128;
  Matrix<T> y(n, x.cols());
  for (Index i = 0; i < n; i += height) {
    const Index rows = std::min(height, n - i);
    if (op == Op::plain) {
      gemm<T>(1, u.block(i, i, rows, n - i), Op::plain, x.bottomRows(n - i), Op::plain, 0,
              y.middleRows(i, rows));
    } else {
      gemm<T>(1, u.block(0, i, i + rows, rows), Op::transposed, x.topRows(i + rows), Op::plain, 0,
              y.middleRows(i, rows));
    }
  }
  return y;
}

/// What rotorlin::compiled holds of this header.
#define ROTORLIN_INSTANTIATE_PRODUCTS(KEYWORD, T)                                                            \
  KEYWORD template void gemm<T>(T, const ConstMatrixRef<T>&, Op, const ConstMatrixRef<T>&, Op, T,            \
                                MatrixRef<T>);                                                               \
  KEYWORD template Matrix<T> product<T>(const ConstMatrixRef<T>&, const ConstMatrixRef<T>&);                 \
  KEYWORD template Matrix<T> product_tn<T>(const ConstMatrixRef<T>&, const ConstMatrixRef<T>&);              \
  KEYWORD template Matrix<T> product_nt<T>(const ConstMatrixRef<T>&, const ConstMatrixRef<T>&);              \
  KEYWORD template void add_product<T>(T, const ConstMatrixRef<T>&, const ConstMatrixRef<T>&, MatrixRef<T>); \
  KEYWORD template void syrk_lower<T>(T, const ConstMatrixRef<T>&, Op, MatrixRef<T>);                        \
  KEYWORD template void mirror_lower<T>(MatrixRef<T>);                                                       \
  KEYWORD template Matrix<T> symmetric_product<T>(const ConstMatrixRef<T>&, Op);                             \
  KEYWORD template Matrix<T> upper_product<T>(const ConstMatrixRef<T>&, Op, const ConstMatrixRef<T>&)

#if defined(ROTORLIN_COMPILED)
ROTORLIN_INSTANTIATE_PRODUCTS(extern, float);
ROTORLIN_INSTANTIATE_PRODUCTS(extern, double);
#endif

}  // namespace rotorlin::linalg
