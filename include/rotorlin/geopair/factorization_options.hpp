// SPDX-License-Identifier: MIT
/// \file
/// What a factorisation is asked for, and what comes of it.
#pragma once

#include <functional>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/sparse_coding.hpp"

namespace rotorlin {

/// The steps of an alternation: sparse or dense coefficients, the dictionary, or both an atom at a time
/// (K-SVD).
enum class HalfStep { coefficients, dictionary, ksvd };

/// The objective after a half step.
struct TracePoint {
  HalfStep step;
  double objective;
};

struct FactorizationOptions {
  Index rank = 0;          ///< r, atoms
  Index nonzeros = 0;      ///< k a column; 0: dense
  int iterations = 30;     ///< of dictionary and coefficients
  double tolerance = 0;    ///< ends when an iteration lowers f by less than this part of it (while monotone)
  int gradient_steps = 4;  ///< a dictionary step, for three or more Gram matrices
  bool monotone = false;   ///< sparse: never code from nothing but in the beginning
  bool ksvd = true;        ///< sparse: a K-SVD sweep an iteration
  SupportSolver solver = SupportSolver::automatic;
  bool exchange = true;  ///< sparse, up to 48 nonzeros, not with `monotone`: the last third of the iterations
                         ///< exchanges atoms of supports
  int starts = 0;        ///< sparse: dictionaries tried for a start; 0: of a small problem (outputs * rank *
                         ///< nonzeros^2 below 3e5) up to twelve and a search from the best, else one
  std::function<void(int iteration, double objective)> progress = {};
};

struct SharedFactorization {
  Matrix<double> dictionary;                 ///< D, d x r
  std::vector<Matrix<double>> coefficients;  ///< of every term: see LayerGroup::layer_coefficients
  double objective = 0;
  std::vector<TracePoint> trace;  ///< first the coefficients of the start
  int taken_back = 0;             ///< half steps that promise to descend and that rounding kept from it
};

}  // namespace rotorlin
