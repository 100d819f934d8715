// SPDX-License-Identifier: MIT
/// \file
/// One dictionary for a group of layers by alternating least squares: the coefficients C_i for a given D,
/// then D for given C_i, each step the minimum of f(D, C) = sum_i w_i |L_i (W_i - D C_i)|_F^2, or, for sparse
/// coefficients and for three or more Gram matrices, a descent.
///
/// Sparse coding that may only descend freezes its supports early. So in the first two thirds of the
/// iterations columns are coded from nothing and the best point is kept; from there on coding is warm and
/// monotone, and where supports are small it exchanges single atoms. Where the whole problem is small several
/// starts are tried, and the best is shaken (an iterated local search): its landscape is full of minima whose
/// values differ by factors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/basis_sharing.hpp"
#include "rotorlin/geopair/detail/descent.hpp"
#include "rotorlin/geopair/dictionary_step.hpp"
#include "rotorlin/geopair/factorization_options.hpp"
#include "rotorlin/geopair/ksvd.hpp"
#include "rotorlin/geopair/layer_group.hpp"
#include "rotorlin/geopair/sparse_coding.hpp"
#include "rotorlin/linalg/least_squares.hpp"

namespace rotorlin {

namespace detail {

template <class = void>
class Alternation : Descent {
 public:
  Alternation(const LayerGroup& group, const FactorizationOptions& options, Matrix<double> start,
              bool careful = false)
      : Descent(options, std::move(start)), group_(group), step_(group, options.gradient_steps) {
    energy_ = group.energy();
    careful_ = careful;
  }

  SharedFactorization run() {
    if (options_.nonzeros == 0 || options_.nonzeros == options_.rank) return run_dense();
    const auto measured = [this] { return measure(); };
    return alternate(
        [this](bool warm) { code(warm); }, measured,
        [&] {
          descend(HalfStep::dictionary, measured, [this] { d_ += step_.correction(c_, residuals_); });
          if (!options_.ksvd) return;
          descend(HalfStep::ksvd, measured, [this] { ksvd_sweep(group_, step_, d_, c_, residuals_); });
        });
  }

 private:
  SharedFactorization run_dense() {
    solve_coefficients();
    record(HalfStep::coefficients, objective_of_residuals());
    for (int iteration = 0; iteration < options_.iterations; ++iteration) {
      const SharedFactorization last = point();
      double decrease = 0;
      d_ += step_.correction(c_, residuals_, &decrease);
      // the objective after the dictionary step, between those before and after both, costs nothing
      if (!detail::is_finite(decrease)) decrease = last.objective - measure();
      solve_coefficients();
      double next = objective_of_residuals();
      if (taken_back(last, next)) next = measure();
      record(HalfStep::dictionary, std::fmax(next, std::fmin(last.objective - decrease, last.objective)));
      record(HalfStep::coefficients, next);
      if (finished(iteration, last.objective)) break;
    }
    return finish(point());
  }

  /// The objective, and the residuals that it is made of.
  double measure() {
    residuals_ = group_.residuals(d_, c_);
    return objective_of_residuals();
  }
  double objective_of_residuals() const {
    double objective = 0;
    for (const Matrix<double>& residual : residuals_) objective += linalg::squared_norm<double>(residual);
    return objective;
  }

  void solve_coefficients() {
    c_.clear();
    residuals_.clear();
    for (const GramTerm& term : group_.terms()) {
      const Matrix<double> seen = linalg::upper_product<double>(term.factor, linalg::Op::plain, d_);
      c_.push_back(LeastSquares(seen).solve(term.whitened));
      residuals_.push_back(term.whitened);
      linalg::add_product<double>(-1, seen, c_.back(), residuals_.back());
    }
  }

  void code(bool warm) {
    std::vector<Matrix<double>> coded;
    std::vector<VectorX<double>> errors;
    for (std::size_t i = 0; i < group_.terms().size(); ++i) {
      const GramTerm& term = group_.terms()[i];
      const Matrix<double> seen = linalg::upper_product<double>(term.factor, linalg::Op::plain, d_);
      SparseCode code = hard_thresholding_pursuit(
          linalg::symmetric_product<double>(seen, linalg::Op::transposed),
          linalg::product_tn<double>(seen, term.whitened), linalg::column_energies<double>(term.whitened),
          pursuit(warm), warm ? &c_[i] : nullptr);
      coded.push_back(std::move(code.coefficients));
      errors.push_back(std::move(code.errors));
    }
    c_ = std::move(coded);
    replace_unused(errors);
  }

  /// Atoms that no column uses become the worst-represented columns, one each.
  void replace_unused(std::vector<VectorX<double>>& errors) {
    for (Index atom = 0; atom < d_.cols(); ++atom) {
      if (std::any_of(c_.begin(), c_.end(), [&](const Matrix<double>& c) { return uses(c, atom); })) continue;
      std::size_t worst = 0;
      Index column = 0;
      double error = 0;
      for (std::size_t i = 0; i < errors.size(); ++i) {
        for (Index j = 0; j < errors[i].size(); ++j) {
          if (errors[i][j] <= error) continue;
          error = errors[i][j];
          worst = i;
          column = j;
        }
      }
      if (error <= 0) return;
      errors[worst][column] = 0;
      d_.col(atom) = group_.terms()[worst].weights(column, 1);
    }
  }

  static bool uses(const Matrix<double>& c, Index atom) {
    for (Index j = 0; j < c.cols(); ++j) {
      if (c(atom, j) != 0) return true;
    }
    return false;
  }

  const LayerGroup& group_;
  DictionaryStep step_;
  std::vector<Matrix<double>> residuals_;
};

/// Dense coefficients with two Gram matrices, in the coordinates D = P D' in which both are diagonal. There
/// L_i P = U_i S_i with orthonormal U_i and diagonal S_i, and f = sum_i |U_i^T A_i - S_i D' C_i|^2 for A_i =
/// L_i W_i: an iteration multiplies with neither L_i nor P.
template <class = void>
class DensePair : Descent {
 public:
  /// `pencil` diagonalises both Gram matrices and spans everything.
  DensePair(const LayerGroup& group, const JointDiagonalization& pencil, const FactorizationOptions& options,
            const Matrix<double>& start)
      : Descent(options, Matrix<double>::Zero(start.rows(), start.cols())), pencil_(pencil) {
    energy_ = group.energy();
    for (std::size_t i = 0; i < 2; ++i) {
      const Matrix<double>& factor = group.terms()[i].factor;
      constexpr linalg::Op plain = linalg::Op::plain;
      const VectorX<double> scale = linalg::positive_roots<double>(i == 0 ? pencil.first() : pencil.second());
      Matrix<double> u = linalg::upper_product<double>(factor, plain, pencil.transform());
      linalg::scale_columns<double>(linalg::positive_inverses<double>(scale), u);
      seen_.push_back(linalg::product_tn<double>(u, group.terms()[i].whitened));
      scales_.push_back(scale);
      // P^-1 = P^T sum_i G_i / |L_i|^2, since the sum of these diagonals is one
      Matrix<double> part =
          linalg::product_tn<double>(u, linalg::upper_product<double>(factor, plain, start));
      linalg::scale_rows<double>(scale, part);
      linalg::axpy<double>(d_.size(), 1 / linalg::squared_norm<double>(factor), part.data(), d_.data());
    }
  }

  SharedFactorization run() {
    record(HalfStep::coefficients, solve_coefficients());
    for (int iteration = 0; iteration < options_.iterations; ++iteration) {
      const SharedFactorization last = point();
      const double decrease = move_dictionary();
      double next = solve_coefficients();
      if (taken_back(last, next)) next = solve_coefficients();
      record(HalfStep::dictionary, std::fmax(next, std::fmin(last.objective - decrease, last.objective)));
      record(HalfStep::coefficients, next);
      if (finished(iteration, last.objective)) break;
    }
    d_ = linalg::product<double>(pencil_.transform(), d_);
    return finish(point());
  }

 private:
  /// Returns the objective.
  double solve_coefficients() {
    c_.clear();
    residuals_.clear();
    double objective = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      Matrix<double> atoms = d_;
      linalg::scale_rows<double>(scales_[i], atoms);
      c_.push_back(LeastSquares(atoms).solve(seen_[i]));
      residuals_.push_back(seen_[i]);
      linalg::add_product<double>(-1, atoms, c_[i], residuals_[i]);
      objective += linalg::squared_norm<double>(residuals_[i]);
    }
    return objective;
  }

  /// Returns what that lowers the objective by, as in DictionaryStep::correction.
  double move_dictionary() {
    Matrix<double> s = Matrix<double>::Zero(d_.rows(), d_.cols());
    for (std::size_t i = 0; i < 2; ++i) {
      Matrix<double> part = linalg::product_nt<double>(residuals_[i], c_[i]);
      linalg::scale_rows<double>(scales_[i], part);
      s += part;
    }
    const JointDiagonalization coefficients(linalg::transposed<double>(c_[0]),
                                            linalg::transposed<double>(c_[1]));
    Matrix<double> x = linalg::product<double>(s, coefficients.transform());
    divide_sylvester(pencil_, coefficients, x);
    x = linalg::product_nt<double>(x, coefficients.transform());
    d_ += x;
    return linalg::inner<double>(s, x);
  }

  const JointDiagonalization& pencil_;
  std::vector<VectorX<double>> scales_;  // diagonals of S_i
  std::vector<Matrix<double>> seen_, residuals_;
};

/// What a small sparse problem is worth, by the cost of coding.
struct SearchPlan {
  int starts = 1;  ///< dictionaries to begin from
  int shakes = 0;  ///< times that the best is disturbed
};

template <class = void>
SearchPlan search_plan(const LayerGroup& group, const FactorizationOptions& options) {
  const bool sparse = options.nonzeros > 0 && options.nonzeros < options.rank;
  if (!sparse || options.monotone || options.iterations == 0) return {};
  if (options.starts > 0) return {options.starts, 0};
  const double k = static_cast<double>(options.nonzeros);
  const double cost = static_cast<double>(group.outputs()) * static_cast<double>(options.rank) * k * k;
  if (cost >= 3e5) return {};
  const double affordable = std::min(5 * static_cast<double>(options.iterations) / 3, 9e6 / cost);
  return {cost < 3e4 ? 12 : 6, static_cast<int>(affordable)};
}

/// Columns of weights, drawn at random, with noise: a start like any other.
template <class = void>
Matrix<double> random_start(const LayerGroup& group, Index rank, std::uint64_t seed) {
  Random random(seed);
  Matrix<double> start(group.inputs(), rank);
  for (Index j = 0; j < rank; ++j) {
    const GramTerm& term = group.terms()[static_cast<std::size_t>(j) % group.terms().size()];
    const double place = random.uniform(0, 1) * static_cast<double>(term.whitened.cols());
    const Index column = std::min(static_cast<Index>(place), term.whitened.cols() - 1);
    const Matrix<double> weight = term.weights(column, 1);
    const double size = std::sqrt(linalg::squared_norm<double>(weight) / static_cast<double>(weight.rows()));
    for (Index i = 0; i < start.rows(); ++i) start(i, j) = weight(i, 0) + size / 2 * random.normal();
  }
  return start;
}

/// Some atoms of a dictionary, one to all of them, moved by 15 % of their length.
template <class = void>
Matrix<double> shaken(Matrix<double> dictionary, Random& random) {
  const double rank = static_cast<double>(dictionary.cols());
  const auto drawn = [&] {
    return std::min(static_cast<Index>(random.uniform(0, 1) * rank), dictionary.cols() - 1);
  };
  for (Index left = 1 + drawn(); left > 0; --left) {
    const Index atom = drawn();
    double* const d = dictionary.data() + atom * dictionary.rows();
    const double energy = linalg::dot<double>(dictionary.rows(), d, d);
    const double size = 0.15 * std::sqrt(energy / static_cast<double>(dictionary.rows()));
    for (Index i = 0; i < dictionary.rows(); ++i) d[i] += size * random.normal();
  }
  return dictionary;
}

/// Basis Sharing and random dictionaries, each for a third of the iterations, every other one with exchanges
/// from the first. Then the best is shaken and alternates for some iterations, again and again; what comes of
/// it is where the next shake begins when it is better, or, by chance, up to a tenth worse (Lourenco, Martin
/// and Stuetzle 2003, "Iterated local search"). In the end all iterations from the best.
template <class = void>
SharedFactorization best_of_many(const LayerGroup& group, const FactorizationOptions& options,
                                 SearchPlan plan) {
  FactorizationOptions brief = options;
  brief.iterations = std::max(1, options.iterations / 3);
  brief.progress = {};
  SharedFactorization best;
  for (int i = 0; i < plan.starts; ++i) {
    Matrix<double> start = i == 0 ? basis_sharing(group, options.rank, MeanWhitening::normalized).dictionary
                                  : random_start(group, options.rank, static_cast<std::uint64_t>(i));
    SharedFactorization next = Alternation(group, brief, std::move(start), i % 2 == 1).run();
    if (i == 0 || next.objective < best.objective) best = std::move(next);
  }
  brief.iterations = std::min(12, options.iterations);
  Random random(1);
  SharedFactorization at = best;
  for (int i = 0; i < plan.shakes; ++i) {
    SharedFactorization next = Alternation(group, brief, shaken(at.dictionary, random), true).run();
    if (next.objective < best.objective) best = next;
    if (next.objective < at.objective * random.uniform(1, 1.1)) at = std::move(next);
  }
  SharedFactorization result = Alternation(group, options, best.dictionary, true).run();
  return best.objective < result.objective ? best : result;
}

}  // namespace detail

/// Alternates from `start` (d x rank) or, where that is null, from Basis Sharing. \throws
/// std::invalid_argument on an empty group, a start of another shape, rank < 1, nonzeros outside 0 ... rank
/// or iterations < 0; std::domain_error when the start is not finite.
template <class = void>
SharedFactorization factorize(const LayerGroup& group, const FactorizationOptions& options,
                              const Matrix<double>* start = nullptr) {
  constexpr const char* who = "factorize";
  if (group.size() == 0) detail::throw_invalid(who, ": the group has no layers");
  if (options.rank < 1 || options.nonzeros < 0 || options.nonzeros > options.rank || options.iterations < 0) {
    detail::throw_invalid(who, ": rank = ", options.rank, ", nonzeros = ", options.nonzeros,
                          ", iterations = ", options.iterations,
                          ", expected rank >= 1, 0 <= nonzeros <= rank, iterations >= 0");
  }
  Matrix<double> first;
  if (start == nullptr) {
    if (const detail::SearchPlan plan = detail::search_plan(group, options); plan.starts > 1) {
      return detail::best_of_many(group, options, plan);
    }
    first = basis_sharing(group, options.rank, MeanWhitening::normalized).dictionary;
  } else if (start->rows() != group.inputs() || start->cols() != options.rank) {
    detail::throw_invalid(who, ": the start is ", detail::shape(*start), ", expected ", group.inputs(), " x ",
                          options.rank);
  } else if (!detail::all_finite(*start)) {
    detail::throw_domain(who, ": the start has NaN or infinite entries");
  } else {
    first = *start;
  }
  const bool dense = options.nonzeros == 0 || options.nonzeros == options.rank;
  if (dense && group.terms().size() == 2) {
    const JointDiagonalization pencil(group.terms()[0].factor, group.terms()[1].factor);
    if (pencil.transform().cols() == group.inputs()) {
      return detail::DensePair(group, pencil, options, first).run();
    }
  }
  return detail::Alternation(group, options, std::move(first)).run();
}

}  // namespace rotorlin
