// SPDX-License-Identifier: MIT
/// \file
/// Second moments of activations, gathered from batches of any size: G = sum_t x_t x_t^T / N.
///
/// A batch is features x batch, one sample a column, as everywhere in the library. Sums are kept in double,
/// whatever the scalar of the batches; accumulators of parts of a stream can be merged.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

namespace detail {

/// Columns converted to double at a time.
inline constexpr Index gram_block = 256;

template <class Derived>
void check_samples(const char* who, const Eigen::MatrixBase<Derived>& x, Index features) {
  if (x.rows() != features || x.cols() == 0) {
    throw_invalid(who, ": the batch is ", shape(x), ", expected ", features, " x (one sample or more)");
  }
  if (!all_finite(x)) throw_domain(who, ": the batch of ", x.cols(), " samples has NaN or infinite entries");
}

}  // namespace detail

/// Streams activations of one place in a network. A call that throws leaves the sums as they were.
class GramAccumulator {
 public:
  /// \throws std::invalid_argument unless features >= 1.
  explicit GramAccumulator(Index features) {
    if (features < 1) detail::throw_invalid("GramAccumulator: features = ", features, ", expected >= 1");
    products_ = Matrix<double>::Zero(features, features);
    sum_ = VectorX<double>::Zero(features);
  }

  /// Adds a batch, features x batch, of float, double or any other real scalar. \throws std::invalid_argument
  /// on a wrong number of features or an empty batch, std::domain_error on NaN or Inf.
  template <class Derived>
  void add(const Eigen::MatrixBase<Derived>& x) {
    detail::check_samples("GramAccumulator::add", x, features());
    for (Index first = 0; first < x.cols(); first += detail::gram_block) {
      const Index columns = std::min(detail::gram_block, x.cols() - first);
      const Matrix<double> block = x.middleCols(first, columns).template cast<double>();
      products_.selfadjointView<Eigen::Lower>().rankUpdate(block);
      sum_ += block.rowwise().sum();
    }
    count_ += x.cols();
  }

  /// Adds the samples of another part of the stream. \throws std::invalid_argument on another number of
  /// features.
  void merge(const GramAccumulator& other) {
    if (other.features() != features()) {
      detail::throw_invalid("GramAccumulator::merge: ", other.features(), " features, expected ", features());
    }
    products_ += other.products_;
    sum_ += other.sum_;
    count_ += other.count_;
  }

  Index features() const { return sum_.size(); }
  std::int64_t count() const { return count_; }

  /// X X^T / N, features x features, symmetric. \throws std::invalid_argument before the first sample.
  template <class = void>
  Matrix<double> gram() const {
    return products_.selfadjointView<Eigen::Lower>() *
           (Matrix<double>::Identity(features(), features()) / samples("gram"));
  }
  /// The mean activation. \throws std::invalid_argument before the first sample.
  VectorX<double> mean() const { return sum_ / samples("mean"); }

 private:
  double samples(const char* what) const {
    if (count_ == 0) detail::throw_invalid("GramAccumulator::", what, ": no sample was added yet");
    return static_cast<double>(count_);
  }

  Matrix<double> products_;  // lower triangle
  VectorX<double> sum_;
  std::int64_t count_ = 0;
};

/// Second moments between two places, or between two models at one place: H = sum_t x_t z_t^T / N.
class CrossGramAccumulator {
 public:
  /// \throws std::invalid_argument unless both are >= 1.
  CrossGramAccumulator(Index x_features, Index z_features) {
    if (x_features < 1 || z_features < 1) {
      detail::throw_invalid("CrossGramAccumulator: ", x_features, " and ", z_features,
                            " features, expected >= 1");
    }
    products_ = Matrix<double>::Zero(x_features, z_features);
  }

  /// Adds samples, one a column of both. \throws as GramAccumulator::add, also on batches of unequal size.
  template <class X, class Z>
  void add(const Eigen::MatrixBase<X>& x, const Eigen::MatrixBase<Z>& z) {
    constexpr const char* who = "CrossGramAccumulator::add";
    if (x.cols() != z.cols()) {
      detail::throw_invalid(who, ": batches of ", detail::shape(x), " and ", detail::shape(z),
                            ", expected as many columns");
    }
    detail::check_samples(who, x, products_.rows());
    detail::check_samples(who, z, products_.cols());
    for (Index first = 0; first < x.cols(); first += detail::gram_block) {
      const Index columns = std::min(detail::gram_block, x.cols() - first);
      products_.noalias() += x.middleCols(first, columns).template cast<double>() *
                             z.middleCols(first, columns).template cast<double>().transpose();
    }
    count_ += x.cols();
  }

  std::int64_t count() const { return count_; }

  /// X Z^T / N, features of x times features of z. \throws std::invalid_argument before the first sample.
  Matrix<double> gram() const {
    if (count_ == 0) detail::throw_invalid("CrossGramAccumulator::gram: no sample was added yet");
    return products_ / static_cast<double>(count_);
  }

 private:
  Matrix<double> products_;
  std::int64_t count_ = 0;
};

}  // namespace rotorlin
