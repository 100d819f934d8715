// SPDX-License-Identifier: MIT
/// \file
/// The first left singular vectors of a matrix.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>

#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/symmetric_eigen.hpp"

namespace rotorlin::linalg {

/// An orthonormal basis (rows x min(k, rows, cols)) of the first left singular vectors of a finite matrix,
/// from the eigenvectors of the smaller of a a^T and a^T a. Directions that matter less than sqrt(epsilon) of
/// |a| may be mixed, which costs a projection onto the basis no more than that.
template <std::floating_point T>
Matrix<T> leading_left_vectors(const Matrix<T>& a, Index k) {
  const T largest = largest_magnitude<T>(a);
  const bool tall = a.rows() > a.cols();
  const Index side = std::min(a.rows(), a.cols()), kept = std::min(k, side);
  Matrix<T> scaled = a;
  scale<T>(largest >= std::numeric_limits<T>::min() ? 1 / largest : T(1), scaled);
  const Matrix<T> vectors =
      symmetric_eigen<T>(symmetric_product<T>(scaled, tall ? Op::transposed : Op::plain)).vectors;
  Matrix<T> leading(side, kept);
  for (Index j = 0; j < kept; ++j) leading.col(j) = vectors.col(side - 1 - j);
  if (!tall) return leading;
  return Qr<T>(product<T>(scaled, leading)).q(kept);
}

}  // namespace rotorlin::linalg
