// SPDX-License-Identifier: MIT
/// \file
/// The dense layer that rotor layers are measured against: Eigen and, where found, OpenBLAS.
#pragma once

#include <string>

#include "rotorlin/core/parallel.hpp"
#include "rotorlin/core/types.hpp"

#if defined(ROTORLIN_BENCH_OPENBLAS)
#include <cblas.h>
#endif

namespace bench {

using rotorlin::Index;

enum class Library { openblas, eigen };

#if defined(ROTORLIN_BENCH_OPENBLAS)
inline constexpr bool have_openblas = true;
#else
inline constexpr bool have_openblas = false;
#endif
/// What the rows without a suffix are measured against.
inline constexpr Library best_library = have_openblas ? Library::openblas : Library::eigen;

inline std::string blas_description() {
#if defined(ROTORLIN_BENCH_OPENBLAS)
  return std::string(openblas_get_config()) + ", core " + openblas_get_corename();
#else
  return "no OpenBLAS found: Eigen stands in for it";
#endif
}

inline void one_thread() {
  Eigen::setNbThreads(1);
  rotorlin::set_num_threads(1);
#if defined(ROTORLIN_BENCH_OPENBLAS)
  openblas_set_num_threads(1);
#endif
}

#if defined(ROTORLIN_BENCH_OPENBLAS)
inline void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, Index m, Index n, Index k, const float* a, Index lda,
                 const float* b, Index ldb, float* c, Index ldc) {
  const auto i = [](Index value) { return static_cast<blasint>(value); };
  cblas_sgemm(CblasColMajor, ta, tb, i(m), i(n), i(k), 1, a, i(lda), b, i(ldb), 0, c, i(ldc));
}
inline void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, Index m, Index n, Index k, const double* a,
                 Index lda, const double* b, Index ldb, double* c, Index ldc) {
  const auto i = [](Index value) { return static_cast<blasint>(value); };
  cblas_dgemm(CblasColMajor, ta, tb, i(m), i(n), i(k), 1, a, i(lda), b, i(ldb), 0, c, i(ldc));
}
inline void gemv(CBLAS_TRANSPOSE ta, Index size, const float* a, const float* x, float* y) {
  const auto n = static_cast<blasint>(size);
  cblas_sgemv(CblasColMajor, ta, n, n, 1, a, n, x, 1, 0, y, 1);
}
inline void gemv(CBLAS_TRANSPOSE ta, Index size, const double* a, const double* x, double* y) {
  const auto n = static_cast<blasint>(size);
  cblas_dgemv(CblasColMajor, ta, n, n, 1, a, n, x, 1, 0, y, 1);
}
#endif

/// Y = W X for a square matrix W, whose columns (or, with `by_rows`, rows) lie one after another.
template <class S>
void dense_forward(Library library, bool by_rows, const S* weight, const rotorlin::Matrix<S>& x,
                   rotorlin::Matrix<S>& y) {
  const Index size = x.rows();
#if defined(ROTORLIN_BENCH_OPENBLAS)
  if (library == Library::openblas) {
    const CBLAS_TRANSPOSE order = by_rows ? CblasTrans : CblasNoTrans;
    if (x.cols() == 1) return gemv(order, size, weight, x.data(), y.data());
    return gemm(order, CblasNoTrans, size, x.cols(), size, weight, size, x.data(), size, y.data(), size);
  }
#endif
  (void)library;
  const Eigen::Map<const rotorlin::Matrix<S>> w(weight, size, size);
  const auto product = [&](const auto& matrix) {
    if (x.cols() == 1) {
      y.col(0).noalias() = matrix * x.col(0);
    } else {
      y.noalias() = matrix * x;
    }
  };
  if (by_rows) return product(w.transpose());
  product(w);
}

}  // namespace bench
