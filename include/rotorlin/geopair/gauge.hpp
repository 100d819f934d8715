// SPDX-License-Identifier: MIT
/// \file
/// The identity gauge: D C = (D T)(T^-1 C) for every invertible T, and T is chosen so that r rows of D T are
/// the identity, which need not be stored. The rows come from a pivoted QR of D^T, D^T Pi = Q [R_1 R_2]; then
/// the other rows of D T are (R_1^-1 R_2)^T and T^-1 = (Q R_1)^T, the chosen rows of D.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/qr.hpp"
#include "rotorlin/linalg/triangular.hpp"

namespace rotorlin {

struct IdentityGauge {
  std::vector<Index> rows;    ///< of the dictionary that are rows 0 ... q-1 of the identity
  Matrix<double> dictionary;  ///< d x q with q = rank(D) <= r
  Matrix<double>
      transform;  ///< q x r, multiplies the coefficients from the left: D C = dictionary transform C
};

/// \throws std::invalid_argument on an empty or zero dictionary, std::domain_error on NaN or Inf.
template <class = void>
IdentityGauge identity_gauge(const ConstMatrixRef<double>& dictionary) {
  constexpr const char* who = "identity_gauge";
  if (dictionary.size() == 0) detail::throw_invalid(who, ": the dictionary is ", detail::shape(dictionary));
  if (!detail::all_finite(dictionary))
    detail::throw_domain(who, ": the dictionary has NaN or infinite entries");
  const Index d = dictionary.rows(), r = dictionary.cols();
  const double threshold = std::numeric_limits<double>::epsilon() * static_cast<double>(std::min(d, r));
  const linalg::PivotedQr<double> qr(linalg::transposed<double>(dictionary), threshold);
  const Index q = qr.rank();
  if (q == 0) detail::throw_invalid(who, ": the dictionary is zero");
  Matrix<double> others = qr.packed().topRightCorner(q, d - q);
  linalg::solve_upper<double>(qr.packed().topLeftCorner(q, q), linalg::Op::plain, others);

  IdentityGauge gauge{std::vector<Index>(qr.order().begin(), qr.order().begin() + q),
                      Matrix<double>::Zero(d, q), Matrix<double>(q, r)};
  for (Index i = 0; i < d; ++i) {
    const Index row = qr.order()[static_cast<std::size_t>(i)];
    if (i < q) {
      gauge.dictionary(row, i) = 1;
      for (Index j = 0; j < r; ++j) gauge.transform(i, j) = dictionary(row, j);
    } else {
      for (Index j = 0; j < q; ++j) gauge.dictionary(row, j) = others(j, i - q);
    }
  }
  return gauge;
}

}  // namespace rotorlin
