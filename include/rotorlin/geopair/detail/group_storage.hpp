// SPDX-License-Identifier: MIT
/// \file
/// A solution as layers of floats on a shared dictionary, and the error of what is stored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/geopair/detail/group_side.hpp"
#include "rotorlin/geopair/detail/sources.hpp"
#include "rotorlin/geopair/gauge.hpp"

namespace rotorlin::detail {

/// In floats. \throws std::domain_error where one exceeds their range.
template <class = void>
Matrix<float> to_floats(const Matrix<double>& m, const std::string& what) {
  Matrix<float> floats = m.cast<float>();
  if (!all_finite(floats)) {
    throw_domain("GeoPairCompressor: ", what,
                 " exceeds the range of float; expected weights and activations of ordinary size");
  }
  return floats;
}

/// A dictionary as it is stored, with the coefficients that go with it.
struct StoredDictionary {
  std::shared_ptr<const SharedDictionary<float>> dictionary;
  std::vector<Matrix<double>> coefficients;
};

/// Nothing but identity rows: the coefficients are the weights themselves.
template <class = void>
std::shared_ptr<const SharedDictionary<float>> identity_dictionary(Index features) {
  std::vector<Index> rows(static_cast<std::size_t>(features));
  std::iota(rows.begin(), rows.end(), Index{0});
  return std::make_shared<const SharedDictionary<float>>(Matrix<float>(0, features), std::move(rows));
}

/// With r rows of the identity, which are not stored.
template <class = void>
StoredDictionary store_in_identity_gauge(GroupSolution solution, DictionarySide side,
                                         const std::string& what) {
  IdentityGauge gauge = identity_gauge(solution.dictionary);
  for (Matrix<double>& c : solution.coefficients) {
    c = side == DictionarySide::input ? linalg::product<double>(gauge.transform, c)
                                      : linalg::product_nt<double>(c, gauge.transform);
  }
  std::vector<bool> identity(static_cast<std::size_t>(solution.dictionary.rows()), false);
  for (const Index row : gauge.rows) identity[static_cast<std::size_t>(row)] = true;
  Matrix<double> others(solution.dictionary.rows() - static_cast<Index>(gauge.rows.size()),
                        gauge.dictionary.cols());
  for (Index row = 0, to = 0; row < solution.dictionary.rows(); ++row) {
    if (!identity[static_cast<std::size_t>(row)]) others.row(to++) = gauge.dictionary.row(row);
  }
  return {std::make_shared<const SharedDictionary<float>>(to_floats(others, what), std::move(gauge.rows)),
          std::move(solution.coefficients)};
}

/// With atoms of a length near 1: the coefficients take the scale of the weights, whatever that of the
/// activations. Factors are powers of two, so that no product changes.
template <class = void>
StoredDictionary store_balanced(GroupSolution solution, DictionarySide side, const std::string& what) {
  const VectorX<double> energies = linalg::column_energies<double>(solution.dictionary);
  VectorX<double> up(energies.size()), down(energies.size());
  for (Index j = 0; j < energies.size(); ++j) {
    const int power = energies[j] > 0 ? std::ilogb(std::sqrt(energies[j])) : 0;
    up[j] = std::ldexp(1.0, power);
    down[j] = std::ldexp(1.0, -power);
  }
  linalg::scale_columns<double>(down, solution.dictionary);
  for (Matrix<double>& c : solution.coefficients) {
    if (side == DictionarySide::input) {
      linalg::scale_rows<double>(up, c);
    } else {
      linalg::scale_columns<double>(up, c);
    }
  }
  return {std::make_shared<const SharedDictionary<float>>(to_floats(solution.dictionary, what)),
          std::move(solution.coefficients)};
}

/// What activations see of a weight, out x in: |M x|^2 on average, from L with G = L^T L - ridge I.
template <class = void>
double seen_energy(const Matrix<double>& factor, double ridge, const Matrix<double>& m) {
  const double all = linalg::squared_norm<double>(
      linalg::upper_product<double>(factor, linalg::Op::plain, linalg::transposed<double>(m)));
  const double value = all - ridge * linalg::squared_norm<double>(m);
  return value > 1e-12 * all ? value : 0;  // the rest is rounding
}

/// Energies of W and of W - W' over the activations, for a stored layer W', in units of W's scale.
struct StoredError {
  double energy, missing;

  double relative() const {
    if (missing == 0) return 0;
    return energy > 0 ? std::sqrt(missing / energy) : std::numeric_limits<double>::infinity();
  }
};

/// The largest entry, lest squares of very small or large ones leave the range.
template <class = void>
double scale_of(const Matrix<double>& weight) {
  const double largest = linalg::largest_magnitude<double>(weight);
  return largest > 0 ? largest : 1;
}

template <class = void>
StoredError stored_error(const Matrix<double>& factor, double ridge, Matrix<double> weight,
                         const Matrix<float>& stored) {
  const double scale = scale_of(weight);
  Matrix<double> missing(weight.rows(), weight.cols());
  for (Index i = 0; i < weight.size(); ++i) {
    weight.data()[i] /= scale;
    missing.data()[i] = weight.data()[i] - static_cast<double>(stored.data()[i]) / scale;
  }
  return {seen_energy(factor, ridge, weight), seen_energy(factor, ridge, missing)};
}

/// The a >= 0 of least |(W - a W') x|.
template <class = void>
double best_scale(const Matrix<double>& factor, double ridge, const Matrix<double>& weight,
                  const Matrix<float>& stored, const StoredError& error) {
  const double scale = scale_of(weight);
  Matrix<double> kept = stored.cast<double>();
  for (Index i = 0; i < kept.size(); ++i) kept.data()[i] /= scale;
  const double energy = seen_energy(factor, ridge, kept);
  return energy > 0 ? std::max(0.0, (error.energy + energy - error.missing) / (2 * energy)) : 0;
}

}  // namespace rotorlin::detail
