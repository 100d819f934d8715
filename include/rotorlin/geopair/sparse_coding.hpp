// SPDX-License-Identifier: MIT
/// \file
/// Sparse coding: columns b as combinations of at most k atoms, by hard thresholding pursuit (Foucart 2011),
/// batched over columns.
///
/// It needs the whitened dictionary F = L D only through the Gram domain: K = F^T F (r x r), b = F^T A (r x
/// n) and the energies |A_j|^2, with which |A_j - F c|^2 = |A_j|^2 - 2 b_j^T c + c^T K c.
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// How the least squares on a support are solved: a Cholesky factorisation a column, exact and best for few
/// nonzeros; or conjugate gradients on all columns at once under the mask of their supports, which is made of
/// matrix products. `automatic` takes the factorisation up to 48 nonzeros.
enum class SupportSolver { automatic, cholesky, conjugate_gradients };

struct PursuitOptions {
  Index nonzeros = 1;  ///< k, at most this many a column
  SupportSolver solver = SupportSolver::automatic;
  bool safe_step = false;  ///< begin at the step 1 / lambda_max instead of 1
  int max_rounds = 100;
  int gradient_steps = 10;  ///< of conjugate gradients on a support; ten reach about 1e-8
  /// lambda_max of K with atoms of length 1, where it is known: many calls with one dictionary save its
  /// estimate.
  double largest_eigenvalue = 0;
};

/// Coefficients (r x n, at most k nonzeros a column) and what is left of each column's energy.
struct SparseCode {
  Matrix<double> coefficients;
  VectorX<double> errors;
};

namespace detail {

/// The k entries of largest magnitude, ties to the smaller index, as a mask of ones and zeros.
template <class = void>
void mask_largest(const Eigen::Ref<const VectorX<double>>& values, Index k, std::vector<Index>& order,
                  Eigen::Ref<VectorX<double>> mask) {
  order.resize(static_cast<std::size_t>(values.size()));
  std::iota(order.begin(), order.end(), Index{0});
  std::nth_element(order.begin(), order.begin() + k - 1, order.end(), [&](Index i, Index j) {
    const double a = std::abs(values[i]), b = std::abs(values[j]);
    return a != b ? a > b : i < j;
  });
  mask.setZero();
  for (auto i = order.begin(); i != order.begin() + k; ++i) mask[*i] = 1;
}

/// An estimate of the largest eigenvalue of a positive semidefinite matrix by the power method, from below.
template <class = void>
double largest_eigenvalue(const Matrix<double>& k) {
  VectorX<double> v = k.rowwise().norm() + VectorX<double>::Constant(k.rows(), 1e-3);
  double value = 0;
  for (int step = 0; step < 60; ++step) {
    v /= v.norm();
    const VectorX<double> image = k * v;
    const double next = v.dot(image);
    if (next <= value * (1 + 1e-9)) break;
    value = next;
    v = image;
  }
  return value;
}

/// argmin c^T K c - 2 b^T c for every column b, of minimum norm where atoms (of length 1) are dependent.
template <class = void>
Matrix<double> solve_normal_equations(const Matrix<double>& k, const Matrix<double>& b) {
  const Eigen::LLT<Matrix<double>> cholesky(k);
  if (cholesky.info() == Eigen::Success && cholesky.matrixLLT().diagonal().minCoeff() > 1e-7) {
    return cholesky.solve(b);
  }
  Eigen::CompleteOrthogonalDecomposition<Matrix<double>> complete;
  complete.setThreshold(1e-12);  // clear of the rounding of K itself
  return complete.compute(k).solve(b);
}

/// The same for every column under its mask, by a factorisation a column.
template <class = void>
Matrix<double> solve_on_supports(const Matrix<double>& k, const Matrix<double>& b,
                                 const Matrix<double>& mask) {
  Matrix<double> c = Matrix<double>::Zero(b.rows(), b.cols());
  std::vector<Index> support;
  for (Index j = 0; j < b.cols(); ++j) {
    support.clear();
    for (Index i = 0; i < b.rows(); ++i) {
      if (mask(i, j) != 0) support.push_back(i);
    }
    if (support.empty()) continue;
    c(support, j) = solve_normal_equations(k(support, support), b(support, std::vector<Index>{j}));
  }
  return c;
}

/// The same by conjugate gradients from `c`, which the masks must cover.
template <class = void>
Matrix<double> descend_on_supports(const Matrix<double>& k, const Matrix<double>& b,
                                   const Matrix<double>& mask, Matrix<double> c, int steps) {
  Matrix<double> residual = (b - k * c).cwiseProduct(mask), direction = residual;
  Eigen::RowVectorXd energy = residual.colwise().squaredNorm();
  for (int step = 0; step < steps && (energy.array() > 0).any(); ++step) {
    const Matrix<double> image = (k * direction).cwiseProduct(mask);
    const Eigen::RowVectorXd curvature = direction.cwiseProduct(image).colwise().sum();
    const Eigen::RowVectorXd length = (curvature.array() > 0).select(energy.array() / curvature.array(), 0);
    c += direction * length.asDiagonal();
    residual -= image * length.asDiagonal();
    const Eigen::RowVectorXd next = residual.colwise().squaredNorm();
    const Eigen::RowVectorXd turn = (energy.array() > 0).select(next.array() / energy.array(), 0);
    direction = residual + direction * turn.asDiagonal();
    energy = next;
  }
  return c;
}

/// The columns `list` of m.
template <class = void>
Matrix<double> columns_of(const Matrix<double>& m, const std::vector<Index>& list) {
  return m(Eigen::all, list);
}

}  // namespace detail

/// Hard thresholding pursuit of every column, with the atoms scaled to length 1 inside: thresholds u = c + mu
/// (b - K c) to its k largest entries, solves on that support and accepts only what lowers the error of the
/// column. mu begins at 1 (or 1 / lambda_max) and is halved on failure, not below 1 / lambda_max.
///
/// gram: K, r x r; products: b, r x n; energies: |A_j|^2, n. `start` (r x n) is a warm start, whose k largest
/// entries a column count, or null. \throws std::invalid_argument on other shapes, or k outside 1 ... r.
template <class = void>
SparseCode hard_thresholding_pursuit(const Matrix<double>& gram, const Matrix<double>& products,
                                     const VectorX<double>& energies, const PursuitOptions& options,
                                     const Matrix<double>* start = nullptr) {
  constexpr const char* who = "hard_thresholding_pursuit";
  const Index r = gram.rows(), n = products.cols(), k = options.nonzeros;
  if (gram.cols() != r || products.rows() != r || energies.size() != n ||
      (start != nullptr && (start->rows() != r || start->cols() != n))) {
    detail::throw_invalid(who, ": K is ", detail::shape(gram), ", b ", detail::shape(products), ", energies ",
                          energies.size(), ", expected r x r, r x n, n and a start of r x n");
  }
  if (k < 1 || k > r) detail::throw_invalid(who, ": ", k, " nonzeros a column, expected 1 ... r = ", r);

  const VectorX<double> lengths = gram.diagonal().cwiseMax(0).cwiseSqrt();
  const VectorX<double> inverse = (lengths.array() > 0).select(lengths.cwiseInverse(), 0);
  const Matrix<double> scaled = inverse.asDiagonal() * gram * inverse.asDiagonal();
  const Matrix<double> right = inverse.asDiagonal() * products;
  const double lambda =
      options.largest_eigenvalue > 0 ? options.largest_eigenvalue : detail::largest_eigenvalue(scaled);
  const double floor = lambda > 1 ? 1 / lambda : 1;
  const bool exact =
      options.solver == SupportSolver::cholesky || (options.solver == SupportSolver::automatic && k <= 48);
  std::vector<Index> order;

  const auto solve = [&](const Matrix<double>& b, const Matrix<double>& mask, const Matrix<double>& from) {
    return exact ? detail::solve_on_supports(scaled, b, mask)
                 : detail::descend_on_supports(scaled, b, mask, from.cwiseProduct(mask),
                                               options.gradient_steps);
  };
  const auto gains = [&](const Matrix<double>& b, const Matrix<double>& c) -> Eigen::RowVectorXd {
    return (2 * b - scaled * c).cwiseProduct(c).colwise().sum();  // of energy
  };

  Matrix<double> c = Matrix<double>::Zero(r, n), mask = Matrix<double>::Zero(r, n);
  Eigen::RowVectorXd gain = Eigen::RowVectorXd::Zero(n);
  if (k == r) {
    c = detail::solve_normal_equations(scaled, right);
    gain = gains(right, c);
  } else if (start != nullptr) {
    c = lengths.asDiagonal() * *start;
    for (Index j = 0; j < n; ++j) detail::mask_largest(c.col(j), k, order, mask.col(j));
    mask = mask.cwiseProduct(c.cwiseAbs().cwiseSign());
    c = solve(right, mask, c);
    gain = gains(right, c);
  }

  std::vector<Index> active(static_cast<std::size_t>(k < r ? n : 0));
  std::iota(active.begin(), active.end(), Index{0});
  VectorX<double> step = VectorX<double>::Constant(n, options.safe_step ? floor : 1);
  for (int round = 0; round < options.max_rounds && !active.empty(); ++round) {
    // the columns whose support moves; where it does not, no smaller step moves it either
    const Matrix<double> here = detail::columns_of(c, active), b = detail::columns_of(right, active);
    const Matrix<double> gradient = b - scaled * here;
    std::vector<Index> moving, local;
    Matrix<double> trial_mask(r, static_cast<Index>(active.size()));
    for (std::size_t i = 0; i < active.size(); ++i) {
      const Index from = static_cast<Index>(i), j = active[i];
      detail::mask_largest(here.col(from) + step[j] * gradient.col(from), k, order, trial_mask.col(from));
      if (trial_mask.col(from) == mask.col(j)) continue;
      moving.push_back(j);
      local.push_back(from);
    }
    if (moving.empty()) break;
    const Matrix<double> moved_mask = detail::columns_of(trial_mask, local),
                         moved_b = detail::columns_of(b, local);
    const Matrix<double> moved = solve(moved_b, moved_mask, detail::columns_of(here, local));
    const Eigen::RowVectorXd moved_gain = gains(moved_b, moved);
    active.clear();
    for (std::size_t i = 0; i < moving.size(); ++i) {
      const Index from = static_cast<Index>(i), j = moving[i];
      if (moved_gain[from] > gain[j] + 1e-14 * std::abs(gain[j])) {
        c.col(j) = moved.col(from);
        mask.col(j) = moved_mask.col(from);
        gain[j] = moved_gain[from];
        step[j] = options.safe_step ? floor : 1;
      } else if (step[j] > floor) {
        step[j] = std::max(step[j] / 2, floor);
      } else {
        continue;
      }
      active.push_back(j);
    }
  }
  return {inverse.asDiagonal() * c, (energies - gain.transpose()).cwiseMax(0)};
}

}  // namespace rotorlin
