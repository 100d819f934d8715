// SPDX-License-Identifier: MIT
/// \file
/// One sweep of approximate K-SVD (Rubinstein, Zibulevsky and Elad 2008) in the geometry that several layers
/// share: atom after atom, the atom and then its coefficients in all layers are moved to their minimum, the
/// supports kept. With R_i = W_i - D C_i and c_i the coefficients of the atom d in layer i,
///
///     d <- d + (sum_i |c_i|^2 G_i)^-1 sum_i G_i R_i c_i,    c_i <- c_i + R_i^T G_i d / (d^T G_i d).
///
/// The first is the dictionary step of one atom. Of a large dictionary some atoms are moved together, and
/// then their coefficients one after another, which makes matrix products of it.
#pragma once

#include <algorithm>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/dictionary_step.hpp"
#include "rotorlin/geopair/layer_group.hpp"

namespace rotorlin {

/// Sweeps once over all atoms of `dictionary` (d x r) with the coefficients (r x n_i) and whitened residuals
/// L_i (W_i - D C_i) of every term, `together` atoms at a time; 0: a sixteenth of them, from 1 to 32. The
/// objective never increases. Atoms that no coefficient uses stay as they are.
template <class = void>
void ksvd_sweep(const LayerGroup& group, const DictionaryStep& step, Matrix<double>& dictionary,
                std::vector<Matrix<double>>& coefficients, std::vector<Matrix<double>>& residuals,
                Index together = 0) {
  const std::vector<GramTerm>& terms = group.terms();
  const Index r = dictionary.cols(), most = together > 0 ? together : std::clamp<Index>(r / 16, 1, 32);
  std::vector<Matrix<double>> c(terms.size());  // of the atoms that are moved
  for (Index first = 0; first < r; first += most) {
    const Index atoms = std::min(most, r - first);
    for (std::size_t i = 0; i < terms.size(); ++i) c[i] = coefficients[i].middleRows(first, atoms);
    const Matrix<double> move = step.correction(c, residuals);
    dictionary.middleCols(first, atoms) += move;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const Matrix<double>& factor = terms[i].factor;
      constexpr linalg::Op plain = linalg::Op::plain;
      linalg::add_product<double>(-1, linalg::upper_product<double>(factor, plain, move), c[i], residuals[i]);
      const Matrix<double> seen =
          linalg::upper_product<double>(factor, plain, dictionary.middleCols(first, atoms));
      const Matrix<double> gram = linalg::symmetric_product<double>(seen, linalg::Op::transposed);
      Matrix<double> slope = linalg::product_tn<double>(seen, residuals[i]),
                     change = Matrix<double>::Zero(atoms, c[i].cols());
      for (Index j = 0; j < change.cols(); ++j) {
        for (Index a = 0; a < atoms; ++a) {
          if (c[i](a, j) == 0 || !(gram(a, a) > 0)) continue;
          change(a, j) = slope(a, j) / gram(a, a);
          linalg::axpy<double>(atoms, -change(a, j), gram.data() + a * atoms, slope.data() + j * atoms);
        }
      }
      coefficients[i].middleRows(first, atoms) += change;
      linalg::add_product<double>(-1, seen, change, residuals[i]);
    }
  }
}

}  // namespace rotorlin
