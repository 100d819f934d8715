// SPDX-License-Identifier: MIT
/// \file
/// Which layers should share a dictionary, by the distance of their whitened weights A = L W (d x n): the
/// narrower slid over the wider, at every offset s |A - B_s| / (|A| + |B_s|) and sqrt(2 - 2 cos), all offsets
/// by one cross-correlation. It compares columns in their order, which means nothing to a shared dictionary;
/// the gain (Pairing::gain), by how much one alternating step on a shared dense dictionary lowers the
/// relative errors against the two layers apart, predicts the end of a full compression far better.
#pragma once

#include <cmath>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/products.hpp"

namespace rotorlin {

/// One value for every offset of the narrower in the wider matrix.
struct SlidingDistance {
  VectorX<double> cross_correlation;  ///< <A, B_s>
  VectorX<double> sum;                ///< |A - B_s| / (|A| + |B_s|), in 0 ... 1; 0 where both are zero
  VectorX<double> geometric;          ///< sqrt(2 - 2 cos(A, B_s)), in 0 ... 2; sqrt(2) where one is zero
};

/// a: d x n, b: d x m, in either order. \throws std::invalid_argument on different heights or empty matrices,
/// std::domain_error on NaN or Inf.
template <class = void>
SlidingDistance sliding_distance(const ConstMatrixRef<double>& a, const ConstMatrixRef<double>& b) {
  constexpr const char* who = "sliding_distance";
  if (a.cols() > b.cols()) return sliding_distance(b, a);
  if (a.rows() != b.rows() || a.size() == 0) {
    detail::throw_invalid(who, ": the weights are ", detail::shape(a), " and ", detail::shape(b),
                          ", expected d x n with the same d, not empty");
  }
  if (!detail::all_finite(a) || !detail::all_finite(b))
    detail::throw_domain(who, ": a weight has NaN or infinite entries");
  const Matrix<double> products = linalg::product_tn<double>(a, b);
  const VectorX<double> energies = linalg::column_energies<double>(b);
  const double a_norm = std::sqrt(linalg::squared_norm<double>(a));
  SlidingDistance distance;
  const Index offsets = b.cols() - a.cols() + 1;
  for (VectorX<double>* each : {&distance.cross_correlation, &distance.sum, &distance.geometric})
    each->resize(offsets);
  for (Index s = 0; s < offsets; ++s) {
    double energy = 0, cross = 0;
    for (Index j = 0; j < a.cols(); ++j) {
      energy += energies[s + j];
      cross += products(j, s + j);
    }
    const double b_norm = std::sqrt(energy);
    distance.cross_correlation[s] = cross;
    // |x a - y b_s|^2, entry by entry
    const auto difference = [&](double x, double y) {
      double sum = 0;
      for (Index j = 0; j < a.cols(); ++j) {
        for (Index i = 0; i < a.rows(); ++i) {
          const double entry = x * a(i, j) - y * b(i, s + j);
          sum += entry * entry;
        }
      }
      return sum;
    };
    double squared = a_norm * a_norm + b_norm * b_norm - 2 * cross;
    double cosine_gap = a_norm * b_norm > 0 ? 1 - cross / (a_norm * b_norm) : 1;
    constexpr double cancelled = 1e-4;  // below which differences are taken entry by entry
    if (squared < cancelled * (a_norm * a_norm + b_norm * b_norm)) squared = difference(1, 1);
    if (cosine_gap < cancelled) cosine_gap = difference(1 / a_norm, 1 / b_norm) / 2;
    distance.sum[s] = a_norm + b_norm > 0 ? std::sqrt(squared) / (a_norm + b_norm) : 0;
    distance.geometric[s] = std::sqrt(2 * cosine_gap);
  }
  return distance;
}

}  // namespace rotorlin
