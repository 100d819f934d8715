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
  int gradient_steps = 10;  ///< of conjugate gradients on a support; ten reach about 1e-8, three will do to
                            ///< find supports
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
  VectorX<double> v = k.rowwise().norm();
  for (Index i = 0; i < v.size(); ++i)
    v[i] *= 1 + 0.3 * std::cos(static_cast<double>(i + 1));  // in no symmetry
  if (!(v.norm() > 0)) return 0;
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

/// Below this curvature c^T K c / |c|^2 atoms of length 1 count as dependent: their coefficients would be so
/// large that the error is lost in rounding.
inline constexpr double dependent_curvature = 1e-8;

/// argmin c^T K c - 2 b^T c for every column b, of minimum norm where atoms (of length 1) are dependent.
template <class = void>
Matrix<double> solve_normal_equations(const Matrix<double>& k, const Matrix<double>& b) {
  const Eigen::LLT<Matrix<double>> cholesky(k);
  if (cholesky.info() == Eigen::Success &&
      cholesky.matrixLLT().diagonal().minCoeff() > std::sqrt(dependent_curvature)) {
    return cholesky.solve(b);
  }
  Eigen::CompleteOrthogonalDecomposition<Matrix<double>> complete;
  complete.setThreshold(dependent_curvature);
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

/// What columns have come to.
struct PursuitPoint {
  Matrix<double> c, image;  // image = K c
  Eigen::RowVectorXd gain;  // of energy, 2 b^T c - c^T K c
};

/// The same by conjugate gradients from the part of `c` under the masks; without the gain.
template <class = void>
PursuitPoint descend_on_supports(const Matrix<double>& k, const Matrix<double>& b, const Matrix<double>& mask,
                                 const Matrix<double>& c, int steps) {
  PursuitPoint at{c.cwiseProduct(mask), {}, {}};
  at.image.noalias() = k * at.c;
  Matrix<double> residual = (b - at.image).cwiseProduct(mask), direction = residual,
                 image(b.rows(), b.cols());
  Eigen::RowVectorXd energy = residual.colwise().squaredNorm();
  for (int step = 0; step < steps && (energy.array() > 0).any(); ++step) {
    image.noalias() = k * direction;
    const Eigen::RowVectorXd curvature = direction.cwiseProduct(image).colwise().sum();
    const auto clear = curvature.array() > dependent_curvature * direction.colwise().squaredNorm().array();
    energy = clear.select(energy, 0);  // the others end here
    const Eigen::RowVectorXd length = (energy.array() > 0).select(energy.array() / curvature.array(), 0);
    at.c += direction * length.asDiagonal();
    at.image += image * length.asDiagonal();
    residual -= image.cwiseProduct(mask) * length.asDiagonal();
    const Eigen::RowVectorXd next = (energy.array() > 0).select(residual.colwise().squaredNorm(), 0);
    const Eigen::RowVectorXd turn = (energy.array() > 0).select(next.array() / energy.array(), 0);
    direction = residual + direction * turn.asDiagonal();
    energy = next;
  }
  return at;
}

/// Hard thresholding pursuit with atoms of length 1.
template <class = void>
class Pursuit {
 public:
  /// Keeps references.
  Pursuit(const Matrix<double>& k, const PursuitOptions& options) : k_(k), options_(options) {
    const double lambda = options.largest_eigenvalue > 0 ? options.largest_eigenvalue : largest_eigenvalue(k);
    if (lambda > 1) shortest_ = 1 / lambda;
  }

  /// Some columns b, from the largest entries of `start`.
  PursuitPoint run(const Matrix<double>& b, const Matrix<double>& start) const {
    const double longest = options_.safe_step ? shortest_ : 1;
    Matrix<double> mask(b.rows(), b.cols());
    std::vector<Index> order, active(static_cast<std::size_t>(b.cols()));
    for (Index j = 0; j < b.cols(); ++j) mask_largest(start.col(j), options_.nonzeros, order, mask.col(j));
    mask = mask.cwiseProduct(start.cwiseAbs().cwiseSign());
    PursuitPoint at = solve(b, mask, start);
    std::iota(active.begin(), active.end(), Index{0});
    VectorX<double> step = VectorX<double>::Constant(b.cols(), longest);
    for (int round = 0; round < options_.max_rounds && !active.empty(); ++round) {
      // the columns whose support moves; where it does not, no smaller step moves it either
      std::vector<Index> moving;
      Matrix<double> masks(b.rows(), static_cast<Index>(active.size()));
      for (const Index j : active) {
        const Index to = static_cast<Index>(moving.size());
        mask_largest(at.c.col(j) + step[j] * (b.col(j) - at.image.col(j)), options_.nonzeros, order,
                     masks.col(to));
        if (masks.col(to) != mask.col(j)) moving.push_back(j);
      }
      masks.conservativeResize(Eigen::NoChange, static_cast<Index>(moving.size()));
      const PursuitPoint moved = solve(b(Eigen::all, moving), masks, at.c(Eigen::all, moving));
      active.clear();
      for (std::size_t i = 0; i < moving.size(); ++i) {
        const Index from = static_cast<Index>(i), j = moving[i];
        if (moved.gain[from] > at.gain[j] + 1e-14 * std::abs(at.gain[j])) {
          at.c.col(j) = moved.c.col(from);
          at.image.col(j) = moved.image.col(from);
          at.gain[j] = moved.gain[from];
          mask.col(j) = masks.col(from);
          step[j] = longest;
        } else if (step[j] > shortest_) {
          step[j] = std::max(step[j] / 2, shortest_);
        } else {
          continue;
        }
        active.push_back(j);
      }
    }
    return at;
  }

 private:
  PursuitPoint solve(const Matrix<double>& b, const Matrix<double>& mask, const Matrix<double>& from) const {
    PursuitPoint at;
    if (options_.solver == SupportSolver::cholesky ||
        (options_.solver == SupportSolver::automatic && options_.nonzeros <= 48)) {
      at.c = solve_on_supports(k_, b, mask);
      at.image = k_ * at.c;
    } else {
      at = descend_on_supports(k_, b, mask, from, options_.gradient_steps);
    }
    at.gain = (2 * b - at.image).cwiseProduct(at.c).colwise().sum();
    return at;
  }

  const Matrix<double>& k_;
  const PursuitOptions& options_;
  double shortest_ = 1;  // step
};

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
  SparseCode code{Matrix<double>(r, n), VectorX<double>(n)};
  if (k == r) {
    const Matrix<double> right = inverse.asDiagonal() * products;
    const Matrix<double> c = detail::solve_normal_equations(scaled, right);
    code.coefficients = inverse.asDiagonal() * c;
    code.errors = energies - (2 * right - scaled * c).cwiseProduct(c).colwise().sum().transpose();
  } else {
    const detail::Pursuit pursuit(scaled, options);
    constexpr Index width = 256;  // columns at a time, which a cache has room for
    for (Index first = 0; first < n; first += width) {
      const Index columns = std::min(width, n - first);
      Matrix<double> from = Matrix<double>::Zero(r, columns);
      if (start != nullptr) from = lengths.asDiagonal() * start->middleCols(first, columns);
      const detail::PursuitPoint point =
          pursuit.run(inverse.asDiagonal() * products.middleCols(first, columns), from);
      code.coefficients.middleCols(first, columns) = inverse.asDiagonal() * point.c;
      code.errors.segment(first, columns) = energies.segment(first, columns) - point.gain.transpose();
    }
  }
  code.errors = code.errors.cwiseMax(0);
  return code;
}

}  // namespace rotorlin
