// SPDX-License-Identifier: MIT
/// \file
/// The routines of LAPACK that the decompositions call where Eigen may use LAPACKE (EIGEN_USE_LAPACKE);
/// nothing otherwise. Matrices are stored by columns; all return LAPACK's info, 0 where all went well.
#pragma once

#if defined(EIGEN_USE_LAPACKE)

#include <Eigen/Core>
#if defined(EIGEN_USE_MKL)
#include <mkl_lapacke.h>
#else
#include <Eigen/src/misc/lapacke.h>
#endif

#include "rotorlin/core/types.hpp"

namespace rotorlin::linalg::lapack {

inline lapack_int number(Index n) { return static_cast<lapack_int>(n); }

/// G = U^T U over the upper triangle.
inline lapack_int potrf_upper(Index n, double* g, Index stride) {
  return LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', number(n), g, number(stride));
}
inline lapack_int potrf_upper(Index n, float* g, Index stride) {
  return LAPACKE_spotrf(LAPACK_COL_MAJOR, 'U', number(n), g, number(stride));
}

/// Reflectors of Q over and below the diagonal, R above.
inline lapack_int geqrf(Index m, Index n, double* a, Index stride, double* tau) {
  return LAPACKE_dgeqrf(LAPACK_COL_MAJOR, number(m), number(n), a, number(stride), tau);
}
inline lapack_int geqrf(Index m, Index n, float* a, Index stride, float* tau) {
  return LAPACKE_sgeqrf(LAPACK_COL_MAJOR, number(m), number(n), a, number(stride), tau);
}

/// Eigenvalues, ascending, and eigenvectors over the matrix, from its lower triangle: divide and conquer.
inline lapack_int syevd_lower(Index n, double* a, double* values) {
  return LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'L', number(n), a, number(n), values);
}
inline lapack_int syevd_lower(Index n, float* a, float* values) {
  return LAPACKE_ssyevd(LAPACK_COL_MAJOR, 'V', 'L', number(n), a, number(n), values);
}

}  // namespace rotorlin::linalg::lapack

#endif
