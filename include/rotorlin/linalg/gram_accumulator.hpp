// SPDX-License-Identifier: MIT
/// \file
/// Second moments of activations, gathered from batches of any size: G = sum_t x_t x_t^T / N.
///
/// A batch is features x batch, one sample a column, as everywhere in the library. Sums are kept in double,
/// whatever the scalar of the batches; accumulators of parts of a stream can be merged.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/products.hpp"

namespace rotorlin {

namespace detail {

/// Columns converted to double at a time.
inline constexpr Index gram_block = 256;

template <class S>
void check_samples(const char* who, const ConstMatrixRef<S>& x, Index features) {
  if (x.rows() != features || x.cols() == 0) {
    throw_invalid(who, ": the batch is ", shape(x), ", expected ", features, " x (one sample or more)");
  }
  if (!all_finite(x)) throw_domain(who, ": the batch of ", x.cols(), " samples has NaN or infinite entries");
}

/// Refuses magnitudes up to `largest` whose squares, or the sum of those of all `samples`, would not be
/// finite.
inline void check_magnitude(const char* who, double largest, std::int64_t samples) {
  const double most = std::sqrt(std::numeric_limits<double>::max() / (2 * static_cast<double>(samples)));
  if (!(largest < most)) {
    throw_domain(who, ": an activation has the magnitude ", largest, ", and the sum of ", samples,
                 " squares exceeds the range of double; expected magnitudes below ", most,
                 ": scale the activations, errors and dictionaries don't depend on it");
  }
}
/// The largest |x_ij|, of finite samples and of those `before`.
template <class S>
double checked_magnitude(const char* who, const ConstMatrixRef<S>& x, std::int64_t samples, double before) {
  double largest = before;
  for (Index j = 0; j < x.cols(); ++j) {
    for (Index i = 0; i < x.rows(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(x(i, j))));
    }
  }
  check_magnitude(who, largest, samples);
  return largest;
}

/// `count` columns of x from `first` on, in double.
template <class S>
void copy_columns(const ConstMatrixRef<S>& x, Index first, Index count, Matrix<double>& to) {
  to.resize(x.rows(), count);
  for (Index j = 0; j < count; ++j) {
    for (Index i = 0; i < x.rows(); ++i) to(i, j) = static_cast<double>(x(i, first + j));
  }
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
  /// on a wrong number of features or an empty batch, std::domain_error on NaN or Inf, or where the sum of
  /// squares overflows.
  template <class Derived>
  void add(const Eigen::MatrixBase<Derived>& samples) {
    using S = typename Derived::Scalar;
    constexpr const char* who = "GramAccumulator::add";
    const ConstMatrixRef<S> x(samples.derived());
    detail::check_samples<S>(who, x, features());
    const double largest = detail::checked_magnitude<S>(who, x, count_ + x.cols(), largest_);
    Matrix<double> block;
    for (Index first = 0; first < x.cols(); first += detail::gram_block) {
      detail::copy_columns<S>(x, first, std::min(detail::gram_block, x.cols() - first), block);
      linalg::syrk_lower<double>(1, block, linalg::Op::plain, products_);
      for (Index j = 0; j < block.cols(); ++j) sum_ += block.col(j);
    }
    count_ += x.cols();
    largest_ = largest;
  }

  /// Adds the samples of another part of the stream. \throws std::invalid_argument on another number of
  /// features, std::domain_error where the sum of squares overflows.
  void merge(const GramAccumulator& other) {
    if (other.features() != features()) {
      detail::throw_invalid("GramAccumulator::merge: ", other.features(), " features, expected ", features());
    }
    const double largest = std::max(largest_, other.largest_);
    detail::check_magnitude("GramAccumulator::merge", largest, count_ + other.count_);
    products_ += other.products_;
    sum_ += other.sum_;
    count_ += other.count_;
    largest_ = largest;
  }

  /// The size of the vectors.
  Index features() const { return sum_.size(); }
  std::int64_t count() const { return count_; }

  /// X X^T / N, features x features, symmetric. \throws std::invalid_argument before the first sample,
  /// std::domain_error where activations are so small that their squares are zero.
  template <class = void>
  Matrix<double> gram() const {
    const double n = samples("gram");
    if (largest_ > 0 && largest_ * largest_ < std::numeric_limits<double>::min()) {
      detail::throw_domain(
          "GramAccumulator::gram: the largest activation has the magnitude ", largest_,
          ", and its square is below the range of double; expected magnitudes above 1e-150: ",
          "scale the activations, errors and dictionaries don't depend on it");
    }
    Matrix<double> gram = products_;
    linalg::scale<double>(1 / n, gram);
    linalg::mirror_lower<double>(gram);
    return gram;
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
  double largest_ = 0;  // of all |x|
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
  void add(const Eigen::MatrixBase<X>& x_samples, const Eigen::MatrixBase<Z>& z_samples) {
    using S = typename X::Scalar;
    using U = typename Z::Scalar;
    constexpr const char* who = "CrossGramAccumulator::add";
    const ConstMatrixRef<S> x(x_samples.derived());
    const ConstMatrixRef<U> z(z_samples.derived());
    if (x.cols() != z.cols()) {
      detail::throw_invalid(who, ": batches of ", detail::shape(x), " and ", detail::shape(z),
                            ", expected as many columns");
    }
    detail::check_samples<S>(who, x, products_.rows());
    detail::check_samples<U>(who, z, products_.cols());
    const double largest_x = detail::checked_magnitude<S>(who, x, count_ + x.cols(), largest_x_);
    const double largest_z = detail::checked_magnitude<U>(who, z, count_ + z.cols(), largest_z_);
    Matrix<double> left, right;
    for (Index first = 0; first < x.cols(); first += detail::gram_block) {
      const Index columns = std::min(detail::gram_block, x.cols() - first);
      detail::copy_columns<S>(x, first, columns, left);
      detail::copy_columns<U>(z, first, columns, right);
      linalg::gemm<double>(1, left, linalg::Op::plain, right, linalg::Op::transposed, 1, products_);
    }
    count_ += x.cols();
    largest_x_ = largest_x;
    largest_z_ = largest_z;
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
  double largest_x_ = 0, largest_z_ = 0;
};

}  // namespace rotorlin
