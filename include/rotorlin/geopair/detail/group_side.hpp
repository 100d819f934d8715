// SPDX-License-Identifier: MIT
/// \file
/// A group of whitened layers as an optimisation problem, on the side on which they share a dictionary D (d x
/// r): W = D C on the input side, W = C D^T on the output side (W: in x out). Both sides have one interface.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/accounting.hpp"
#include "rotorlin/geopair/basis_sharing.hpp"
#include "rotorlin/geopair/layer_group.hpp"
#include "rotorlin/geopair/output_coding.hpp"
#include "rotorlin/geopair/shared_factorization.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"

namespace rotorlin::detail {

struct GroupSolution {
  Matrix<double> dictionary;                 // d x r
  std::vector<Matrix<double>> coefficients;  // of every layer: r x out, or in x r
  double objective = 0;
  std::vector<TracePoint> trace;
};

class GroupSide {
 public:
  virtual ~GroupSide() = default;

  /// L of a Gram matrix, in x in; Gram matrices count from 0.
  virtual void add_gram(Matrix<double> factor) = 0;
  /// weight: out x in.
  virtual void add_layer(const Matrix<double>& weight, std::size_t gram, double importance) = 0;
  virtual const Matrix<double>& factor(std::size_t gram) const = 0;
  /// The objective of nothing.
  virtual double energy() const = 0;
  /// The optimum of one decomposition, or of the alternation with these options.
  virtual GroupSolution solve_closed_form(Index rank) const = 0;
  virtual GroupSolution alternate(const FactorizationOptions& options) const = 0;
};

template <class = void>
class InputSide final : public GroupSide {
 public:
  explicit InputSide(Index inputs) : group_(inputs) {}

  void add_gram(Matrix<double> factor) override { group_.add_gram(std::move(factor)); }
  void add_layer(const Matrix<double>& weight, std::size_t gram, double importance) override {
    group_.add_layer(weight, gram, importance);
  }
  const Matrix<double>& factor(std::size_t gram) const override { return group_.terms()[gram].factor; }
  double energy() const override { return group_.energy(); }

  GroupSolution solve_closed_form(Index rank) const override {
    SharedFactors factors = basis_sharing(group_, rank);
    const double objective = group_.objective(factors.dictionary, factors.coefficients);
    return solution(std::move(factors.dictionary), factors.coefficients, objective,
                    {{HalfStep::coefficients, objective}});
  }

  GroupSolution alternate(const FactorizationOptions& given) const override {
    FactorizationOptions options = given;
    // one Gram matrix and no zeros: the start is the optimum
    if (group_.terms().size() == 1 && options.nonzeros == 0) options.iterations = 0;
    SharedFactorization result = factorize(group_, options);
    return solution(std::move(result.dictionary), result.coefficients, result.objective,
                    std::move(result.trace));
  }

 private:
  GroupSolution solution(Matrix<double> dictionary, const std::vector<Matrix<double>>& of_terms,
                         double objective, std::vector<TracePoint> trace) const {
    GroupSolution solution{std::move(dictionary), {}, objective, std::move(trace)};
    for (std::size_t i = 0; i < group_.size(); ++i) {
      solution.coefficients.push_back(group_.layer_coefficients(of_terms, i));
    }
    return solution;
  }

  LayerGroup group_;
};

template <class = void>
class OutputSide final : public GroupSide {
 public:
  void add_gram(Matrix<double> factor) override { grams_.push_back(std::move(factor)); }
  void add_layer(const Matrix<double>& weight, std::size_t gram, double importance) override {
    const double root = std::sqrt(importance);
    roots_.push_back(root);
    weights_.push_back(linalg::transposed<double>(weight));
    linalg::scale<double>(root, weights_.back());
    gram_of_.push_back(gram);
  }
  const Matrix<double>& factor(std::size_t gram) const override { return grams_[gram]; }
  double energy() const override { return measured(weights_); }

  GroupSolution solve_closed_form(Index rank) const override {
    SharedFactors shared = output_sharing(factors(), weights_, rank);
    std::vector<Matrix<double>> missing = weights_;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      linalg::add_product<double>(-1, shared.coefficients[i], shared.dictionary, missing[i]);
    }
    const double objective = measured(missing);
    return solution(shared.dictionary, std::move(shared.coefficients), objective,
                    {{HalfStep::coefficients, objective}});
  }

  GroupSolution alternate(const FactorizationOptions& options) const override {
    if (options.nonzeros == 0) return solve_closed_form(options.rank);  // it is the optimum
    SharedFactorization result = output_coding(factors(), weights_, options);
    return solution(result.dictionary, std::move(result.coefficients), result.objective,
                    std::move(result.trace));
  }

 private:
  std::vector<const Matrix<double>*> factors() const {
    std::vector<const Matrix<double>*> factors;
    for (const std::size_t gram : gram_of_) factors.push_back(&grams_[gram]);
    return factors;
  }
  double measured(const std::vector<Matrix<double>>& of_layers) const {
    double sum = 0;
    for (std::size_t i = 0; i < of_layers.size(); ++i) {
      sum += linalg::squared_norm<double>(
          linalg::upper_product<double>(grams_[gram_of_[i]], linalg::Op::plain, of_layers[i]));
    }
    return sum;
  }
  GroupSolution solution(const Matrix<double>& dictionary, std::vector<Matrix<double>> coefficients,
                         double objective, std::vector<TracePoint> trace) const {
    for (std::size_t i = 0; i < coefficients.size(); ++i) {
      linalg::scale<double>(1 / roots_[i], coefficients[i]);
    }
    return {linalg::transposed<double>(dictionary), std::move(coefficients), objective, std::move(trace)};
  }

  std::vector<Matrix<double>> grams_, weights_;  // L; sqrt(w) W, in x out
  std::vector<std::size_t> gram_of_;
  std::vector<double> roots_;
};

template <class = void>
std::unique_ptr<GroupSide> make_side(DictionarySide side, Index shared) {
  if (side == DictionarySide::input) return std::make_unique<InputSide<>>(shared);
  return std::make_unique<OutputSide<>>();
}

}  // namespace rotorlin::detail
