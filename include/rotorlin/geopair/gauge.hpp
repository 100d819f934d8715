// SPDX-License-Identifier: MIT
/// \file
/// The identity gauge: D C = (D T)(T^-1 C) for every invertible T, and T is chosen so that r rows of D T are
/// the identity, which need not be stored. The rows come from a pivoted QR of D^T, D^T Pi = Q [R_1 R_2]; then
/// the other rows of D T are (R_1^-1 R_2)^T and T^-1 = (Q R_1)^T, the chosen rows of D.
#pragma once

#include <Eigen/Core>
#include <Eigen/QR>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

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
  const Eigen::ColPivHouseholderQR<Matrix<double>> qr(dictionary.transpose());
  const Index d = dictionary.rows(), q = qr.rank();
  if (q == 0) detail::throw_invalid(who, ": the dictionary is zero");
  const auto& order = qr.colsPermutation().indices();
  Matrix<double> others(q, d - q);
  if (q < d) {
    others = qr.matrixR().topLeftCorner(q, q).triangularView<Eigen::Upper>().solve(
        qr.matrixR().topRightCorner(q, d - q));
  }

  IdentityGauge gauge{std::vector<Index>(order.data(), order.data() + q), Matrix<double>::Zero(d, q),
                      Matrix<double>(q, dictionary.cols())};
  for (Index i = 0; i < d; ++i) {
    if (i < q) {
      gauge.dictionary(order[i], i) = 1;
      gauge.transform.row(i) = dictionary.row(order[i]);
    } else {
      gauge.dictionary.row(order[i]) = others.col(i - q).transpose();
    }
  }
  return gauge;
}

}  // namespace rotorlin
