// SPDX-License-Identifier: MIT
/// \file
/// Sparse coding: columns b as combinations of at most k atoms, by hard thresholding pursuit (Foucart 2011),
/// batched over columns.
///
/// It needs the whitened dictionary F = L D only through the Gram domain: K = F^T F (r x r), b = F^T A (r x
/// n) and the energies |A_j|^2, with which |A_j - F c|^2 = |A_j|^2 - 2 b_j^T c + c^T K c.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/support_solver.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/least_squares.hpp"

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
  /// With factorisations: exchanges single atoms of every support in the end, as long as that helps; k^3 + r
  /// k^2 operations for one exchange in a column.
  bool exchange = false;
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
void mask_largest(const double* values, Index n, Index k, std::vector<Index>& order, double* mask) {
  order.resize(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  std::nth_element(order.begin(), order.begin() + k - 1, order.end(), [&](Index i, Index j) {
    const double a = std::abs(values[i]), b = std::abs(values[j]);
    return a != b ? a > b : i < j;
  });
  std::fill(mask, mask + n, 0.0);
  for (auto i = order.begin(); i != order.begin() + k; ++i) mask[*i] = 1;
}

/// What columns have come to.
struct PursuitPoint {
  Matrix<double> c, image;  // image = K c
  VectorX<double> gain;     // of energy, 2 b^T c - c^T K c
};

/// The same by conjugate gradients from the part of `c` under the masks; without the gain.
template <class = void>
PursuitPoint descend_on_supports(const Matrix<double>& k, const Matrix<double>& b, const Matrix<double>& mask,
                                 const Matrix<double>& c, int steps) {
  const Index r = b.rows(), n = b.cols();
  PursuitPoint at{c, {}, {}};
  for (Index i = 0; i < c.size(); ++i) at.c.data()[i] *= mask.data()[i];
  at.image = linalg::product<double>(k, at.c);
  Matrix<double> residual(r, n), image(r, n);
  for (Index i = 0; i < b.size(); ++i) {
    residual.data()[i] = (b.data()[i] - at.image.data()[i]) * mask.data()[i];
  }
  Matrix<double> direction = residual;
  VectorX<double> energies = linalg::column_energies<double>(residual);  // 0: the column ended
  const auto left = [](double energy) { return energy > 0; };
  for (int step = 0; step < steps && std::any_of(energies.begin(), energies.end(), left); ++step) {
    linalg::gemm<double>(1, k, linalg::Op::plain, direction, linalg::Op::plain, 0, image);
    for (Index j = 0; j < n; ++j) {
      if (!(energies[j] > 0)) continue;
      double *const d = direction.data() + j * r, *const s = image.data() + j * r,
                    *const rest = residual.data() + j * r;
      const double curvature = linalg::dot<double>(r, d, s);
      if (!(curvature > dependent_curvature * linalg::dot<double>(r, d, d))) {
        energies[j] = 0;
        continue;
      }
      const double length = energies[j] / curvature;
      linalg::axpy<double>(r, length, d, at.c.data() + j * r);
      linalg::axpy<double>(r, length, s, at.image.data() + j * r);
      const double* const allowed = mask.data() + j * r;
      for (Index i = 0; i < r; ++i) rest[i] -= s[i] * allowed[i] * length;
      const double next = linalg::dot<double>(r, rest, rest), turn = next / energies[j];
      for (Index i = 0; i < r; ++i) d[i] = rest[i] + turn * d[i];
      energies[j] = next;
    }
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
    const Index r = b.rows();
    const double longest = options_.safe_step ? shortest_ : 1;
    Matrix<double> mask(r, b.cols());
    std::vector<Index> order, active(static_cast<std::size_t>(b.cols()));
    for (Index j = 0; j < b.cols(); ++j) {
      mask_largest(start.data() + j * r, r, options_.nonzeros, order, mask.data() + j * r);
      for (Index i = 0; i < r; ++i) {
        if (start(i, j) == 0) mask(i, j) = 0;
      }
    }
    PursuitPoint at = solve(b, mask, start);
    std::iota(active.begin(), active.end(), Index{0});
    std::vector<double> step(active.size(), longest), stepped(static_cast<std::size_t>(r));
    for (int round = 0; round < options_.max_rounds && !active.empty(); ++round) {
      // the columns whose support moves; where it does not, no smaller step moves it either
      std::vector<Index> moving;
      Matrix<double> masks(r, static_cast<Index>(active.size()));
      for (const Index j : active) {
        double* const moved = masks.data() + static_cast<Index>(moving.size()) * r;
        const double length = step[static_cast<std::size_t>(j)];
        const double *const c = at.c.data() + j * r, *const image = at.image.data() + j * r,
                            *const right = b.data() + j * r, *const present = mask.data() + j * r;
        for (Index i = 0; i < r; ++i) {
          stepped[static_cast<std::size_t>(i)] = c[i] + length * (right[i] - image[i]);
        }
        mask_largest(stepped.data(), r, options_.nonzeros, order, moved);
        if (!std::equal(moved, moved + r, present)) moving.push_back(j);
      }
      masks.conservativeResize(Eigen::NoChange, static_cast<Index>(moving.size()));
      const PursuitPoint moved = solve(chosen(b, moving), masks, chosen(at.c, moving));
      active.clear();
      for (std::size_t i = 0; i < moving.size(); ++i) {
        const Index from = static_cast<Index>(i), j = moving[i];
        double& length = step[static_cast<std::size_t>(j)];
        if (moved.gain[from] > at.gain[j] + 1e-14 * std::abs(at.gain[j])) {
          copy_column(moved.c, from, at.c, j);
          copy_column(moved.image, from, at.image, j);
          copy_column(masks, from, mask, j);
          at.gain[j] = moved.gain[from];
          length = longest;
        } else if (length > shortest_) {
          length = std::max(length / 2, shortest_);
        } else {
          continue;
        }
        active.push_back(j);
      }
    }
    if (options_.exchange && factors()) {
      for (Index j = 0; j < b.cols(); ++j) exchange(b, at, mask, j);
      at = solve(b, mask, at.c);
    }
    return at;
  }

  /// With all atoms.
  PursuitPoint everywhere(const Matrix<double>& b) const {
    PursuitPoint at{solve_normal_equations(k_, b), {}, {}};
    at.image = linalg::product<double>(k_, at.c);
    measure(b, at);
    return at;
  }

 private:
  bool factors() const {
    return options_.solver == SupportSolver::cholesky ||
           (options_.solver == SupportSolver::automatic && options_.nonzeros <= 48);
  }
  static void measure(const Matrix<double>& b, PursuitPoint& at) {
    at.gain.resize(b.cols());
    for (Index j = 0; j < b.cols(); ++j) {
      double gain = 0;
      for (Index i = 0; i < b.rows(); ++i) gain += (2 * b(i, j) - at.image(i, j)) * at.c(i, j);
      at.gain[j] = gain;
    }
  }
  /// Replaces one atom of the support of column j by another while the error falls: of all pairs the best.
  /// With P = K_SS^-1, V = K_:S P and the correlations q = b - K c, dropping s costs c_s^2 / P_ss, and taking
  /// i in its place wins (q_i + V_is c_s / P_ss)^2 / (K_ii - K_iS P K_Si + V_is^2 / P_ss).
  void exchange(const Matrix<double>& b, const PursuitPoint& at, Matrix<double>& mask, Index j) const {
    const Index r = b.rows();
    std::vector<Index> support;
    for (Index i = 0; i < r; ++i) {
      if (mask(i, j) != 0) support.push_back(i);
    }
    const Index k = static_cast<Index>(support.size());
    Matrix<double> columns(r, k), gram(k, k), right(k, 1), c, q(r, 1);
    for (int turn = 0; k > 0 && k < r && turn < 4 * options_.nonzeros; ++turn) {
      for (Index s = 0; s < k; ++s) columns.col(s) = k_.col(support[static_cast<std::size_t>(s)]);
      for (Index s = 0; s < k; ++s) {
        const Index atom = support[static_cast<std::size_t>(s)];
        for (Index t = 0; t < k; ++t) gram(s, t) = columns(atom, t);
        right(s, 0) = b(atom, j);
      }
      Matrix<double> factor = gram;
      if (!linalg::cholesky_upper<double>(factor) ||
          linalg::diagonal_of<double>(factor).minCoeff() <= std::sqrt(dependent_curvature)) {
        return;
      }
      Matrix<double> inverse = Matrix<double>::Identity(k, k);
      linalg::solve_upper<double>(factor, linalg::Op::transposed, inverse);
      linalg::solve_upper<double>(factor, linalg::Op::plain, inverse);
      c = linalg::product<double>(inverse, right);
      const Matrix<double> v = linalg::product<double>(columns, inverse);
      q = b.col(j);
      linalg::add_product<double>(-1, columns, c, q);
      double gain = 1e-10 * std::abs(at.gain[j]);
      Index in = -1, out = -1;
      for (Index i = 0; i < r; ++i) {
        if (mask(i, j) != 0) continue;
        double own = k_(i, i);
        for (Index s = 0; s < k; ++s) own -= columns(i, s) * v(i, s);
        for (Index s = 0; s < k; ++s) {
          const double shift = v(i, s) / inverse(s, s), free = own + shift * v(i, s);
          if (!(free > dependent_curvature)) continue;
          const double slope = q(i, 0) + shift * c(s, 0);
          const double won = slope * slope / free - c(s, 0) * c(s, 0) / inverse(s, s);
          if (won > gain) {
            gain = won;
            in = i;
            out = s;
          }
        }
      }
      if (in < 0) return;
      mask(support[static_cast<std::size_t>(out)], j) = 0;
      mask(in, j) = 1;
      support[static_cast<std::size_t>(out)] = in;
    }
  }
  static void copy_column(const Matrix<double>& from, Index column, Matrix<double>& to, Index place) {
    std::copy_n(from.data() + column * from.rows(), from.rows(), to.data() + place * to.rows());
  }
  static Matrix<double> chosen(const Matrix<double>& from, const std::vector<Index>& columns) {
    Matrix<double> some(from.rows(), static_cast<Index>(columns.size()));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      copy_column(from, columns[i], some, static_cast<Index>(i));
    }
    return some;
  }

  PursuitPoint solve(const Matrix<double>& b, const Matrix<double>& mask, const Matrix<double>& from) const {
    PursuitPoint at;
    if (factors()) {
      at.c = solve_on_supports(k_, b, mask);
      at.image = linalg::product<double>(k_, at.c);
    } else {
      at = descend_on_supports(k_, b, mask, from, options_.gradient_steps);
    }
    measure(b, at);
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

  Matrix<double> scaled = gram;
  const VectorX<double> inverse = detail::normalize_gram(scaled);
  const VectorX<double> lengths = linalg::positive_inverses<double>(inverse);
  SparseCode code{Matrix<double>(r, n), VectorX<double>(n)};
  const detail::Pursuit pursuit(scaled, options);
  const Index width = k == r ? n : 256;  // columns at a time, which a cache has room for
  for (Index first = 0; first < n; first += width) {
    const Index columns = std::min(width, n - first);
    Matrix<double> right = products.middleCols(first, columns);
    linalg::scale_rows<double>(inverse, right);
    detail::PursuitPoint point;
    if (k == r) {
      point = pursuit.everywhere(right);
    } else {
      Matrix<double> from = Matrix<double>::Zero(r, columns);
      if (start != nullptr) {
        from = start->middleCols(first, columns);
        linalg::scale_rows<double>(lengths, from);
      }
      point = pursuit.run(right, from);
    }
    linalg::scale_rows<double>(inverse, point.c);
    code.coefficients.middleCols(first, columns) = point.c;
    for (Index j = 0; j < columns; ++j) {
      code.errors[first + j] = std::max(0.0, energies[first + j] - point.gain[j]);
    }
  }
  return code;
}

}  // namespace rotorlin
