// SPDX-License-Identifier: MIT
/// \file
/// One sweep of approximate K-SVD (Rubinstein, Zibulevsky and Elad 2008) in the geometry that several layers
/// share: atom after atom, the atom and then its coefficients in all layers are moved to their minimum, the
/// supports kept. With R_i = W_i - D C_i and c_i the coefficients of the atom d in layer i,
///
///     d <- d + (sum_i |c_i|^2 G_i)^-1 sum_i G_i R_i c_i,    c_i <- c_i + R_i^T G_i d / (d^T G_i d).
#pragma once

#include <Eigen/Core>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/dictionary_step.hpp"
#include "rotorlin/geopair/layer_group.hpp"

namespace rotorlin {

/// Sweeps once over all atoms of `dictionary` (d x r) with the coefficients (r x n_i) of every term. The
/// objective never increases. Atoms that no coefficient uses stay as they are.
template <class = void>
void ksvd_sweep(const LayerGroup& group, const DictionaryStep& step, Matrix<double>& dictionary,
                std::vector<Matrix<double>>& coefficients) {
  const std::vector<GramTerm>& terms = group.terms();
  std::vector<Matrix<double>> residuals;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    residuals.push_back(terms[i].weights);
    residuals[i].noalias() -= dictionary * coefficients[i];
  }

  std::vector<std::vector<Index>> users(terms.size());
  std::vector<VectorX<double>> row(terms.size());  // the atom's coefficients, those of its users
  VectorX<double> weights(static_cast<Index>(terms.size()));
  for (Index atom = 0; atom < dictionary.cols(); ++atom) {
    VectorX<double> s = VectorX<double>::Zero(group.inputs());
    for (std::size_t i = 0; i < terms.size(); ++i) {
      users[i].clear();
      for (Index j = 0; j < coefficients[i].cols(); ++j) {
        if (coefficients[i](atom, j) != 0) users[i].push_back(j);
      }
      row[i] = coefficients[i](std::vector<Index>{atom}, users[i]).transpose();
      weights[static_cast<Index>(i)] = row[i].squaredNorm();
      VectorX<double> sum = VectorX<double>::Zero(group.inputs());
      for (std::size_t u = 0; u < users[i].size(); ++u)
        sum += row[i][static_cast<Index>(u)] * residuals[i].col(users[i][u]);
      if (!users[i].empty()) s += step.apply_gram(i, sum);
    }
    if (!(weights.sum() > 0)) continue;

    const VectorX<double> move = step.atom_correction(weights, s);
    dictionary.col(atom) += move;
    const VectorX<double> d = dictionary.col(atom);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      if (users[i].empty()) continue;
      const VectorX<double> gd = step.apply_gram(i, d);
      const double length = d.dot(gd), moved = move.dot(gd);
      for (std::size_t u = 0; u < users[i].size(); ++u) {
        const Index j = users[i][u];
        const double c = row[i][static_cast<Index>(u)];
        const double change = length > 0 ? (residuals[i].col(j).dot(gd) - c * moved) / length : 0;
        residuals[i].col(j) -= c * move + change * d;
        coefficients[i](atom, j) += change;
      }
    }
  }
}

}  // namespace rotorlin
