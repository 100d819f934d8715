// SPDX-License-Identifier: MIT
/// \file
/// Columns that stand for all inputs of a second moment G: F with F F^T = G, and what a weight makes of them.
///
/// |(W - M) F|^2 = tr((W - M) G (W - M)^T) for every such F, so the cheapest serves: square roots where G is
/// diagonal, Cholesky's where it is positive definite, Cholesky's with pivots (Higham 2002, section 10.3;
/// work in x rank^2) where it is singular, and the eigendecomposition where rounding defeats these.
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/linalg/gram_factor.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

inline bool is_diagonal(const Matrix<double>& m) {
  for (Index j = 0; j < m.cols(); ++j) {
    for (Index i = 0; i < m.rows(); ++i) {
      if (i != j && m(i, j) != 0) return false;
    }
  }
  return true;
}

/// F (in x rank) with F F^T = gram up to `cut` times the largest diagonal entry; no columns where gram is not
/// positive semidefinite to that accuracy.
template <class = void>
Matrix<double> pivoted_cholesky(const Matrix<double>& gram, double cut) {
  const Index size = gram.rows();
  Matrix<double> factor(size, std::min<Index>(size, 64));
  VectorX<double> rest = gram.diagonal(), column(size);
  const double least = cut * rest.maxCoeff();
  Index rank = 0;
  while (rank < size) {
    Index pivot = 0;
    const double largest = rest.maxCoeff(&pivot);
    if (!(largest > least)) break;
    if (rank == factor.cols()) factor.conservativeResize(size, std::min(size, 2 * rank));
    column = gram.col(pivot);
    if (rank > 0) column.noalias() -= factor.leftCols(rank) * factor.row(pivot).head(rank).transpose();
    column /= std::sqrt(largest);
    factor.col(rank++) = column;
    rest.array() -= column.array().square();
    rest[pivot] = 0;
  }
  factor.conservativeResize(size, rank);
  // What is left is small on the diagonal; a probe tells whether it is beside it.
  VectorX<double> probe(size);
  Random(1).fill_uniform(probe, -1, 1);
  const VectorX<double> expected = gram * probe, seen = factor.transpose() * probe;
  const double missing = (expected - factor * seen).norm();
  const bool good = rest.minCoeff() >= -least && missing <= static_cast<double>(size) * least * probe.norm();
  if (!good) factor.resize(size, 0);
  return factor;
}

/// F (in x rank) with F F^T = gram; throws as `factor_gram`, whose `epsilon` it is.
template <class = void>
Matrix<double> gram_columns(const Matrix<double>& gram, const char* who, double epsilon) {
  const Index size = gram.rows();
  const double largest = gram.cwiseAbs().maxCoeff();
  if (gram.rows() != gram.cols() || size == 0 || !all_finite(gram) || !(largest > 0) ||
      !(gram.diagonal().minCoeff() >= 0)) {
    return factor_gram(gram, who, epsilon);  // says what is wrong
  }
  const Matrix<double> scaled = gram / largest;
  if ((scaled - scaled.transpose()).cwiseAbs().maxCoeff() > std::sqrt(epsilon))
    return factor_gram(gram, who, epsilon);
  const double cut = static_cast<double>(size) * epsilon;
  Matrix<double> factor = scaled;
  const Eigen::LLT<Eigen::Ref<Matrix<double>>> cholesky(factor);
  const auto pivots = factor.diagonal().array().square();
  if (cholesky.info() == Eigen::Success && pivots.minCoeff() > cut * pivots.maxCoeff()) {
    factor.template triangularView<Eigen::StrictlyUpper>().setZero();
  } else {
    factor = pivoted_cholesky(scaled, cut);
    if (factor.cols() == 0) return factor_gram(gram, who, epsilon);
  }
  return factor * std::sqrt(largest);
}

/// Inputs x (in x count) with x x^T = c gram for some c > 0, no column longer than 1, and outputs y = weight
/// x.
template <class S>
struct GramSamples {
  Matrix<S> x, y;

  static GramSamples from_gram(const Matrix<double>& weight, const Matrix<double>& gram, const char* who,
                               double epsilon) {
    if (gram.rows() == gram.cols() && gram.size() != 0 && is_diagonal(gram) && all_finite(gram) &&
        gram.diagonal().minCoeff() >= 0 && gram.diagonal().maxCoeff() > 0) {
      return from_diagonal(weight, gram.diagonal(), epsilon);
    }
    return from_factor(weight, gram_columns(gram, who, epsilon));
  }

  static GramSamples from_factor(const Matrix<double>& weight, Matrix<double> factor) {
    const double largest = factor.cwiseAbs().maxCoeff();
    factor /= largest;
    factor /= factor.colwise().norm().maxCoeff();
    return {factor.template cast<S>(), (weight * factor).template cast<S>()};
  }

  static GramSamples from_diagonal(const Matrix<double>& weight, const VectorX<double>& diagonal,
                                   double epsilon) {
    const double largest = diagonal.maxCoeff();
    const double cut = static_cast<double>(diagonal.size()) * epsilon * largest;
    GramSamples samples;
    const Index rank = (diagonal.array() > cut).count();
    samples.x = Matrix<S>::Zero(diagonal.size(), rank);
    samples.y.resize(weight.rows(), rank);
    for (Index i = 0, k = 0; i < diagonal.size(); ++i) {
      if (!(diagonal[i] > cut)) continue;
      const double length = std::sqrt(diagonal[i] / largest);
      samples.x(i, k) = static_cast<S>(length);
      samples.y.col(k++) = (length * weight.col(i)).template cast<S>();
    }
    return samples;
  }

  /// Multiplies both by one random orthogonal matrix from the right, so that a few columns tell of all:
  /// signs and Walsh-Hadamard transforms, as in Ailon and Chazelle (2009).
  void mix(std::uint64_t seed) {
    const Index count = x.cols(), block = static_cast<Index>(std::bit_floor(static_cast<std::size_t>(count)));
    Random random(seed);
    const auto round = [&](Index first) {
      for (Index j = first; j < first + block; ++j) {
        if (random.uniform() < 0.5) x.col(j) *= -1, y.col(j) *= -1;
      }
      transform(x, first, block);
      transform(y, first, block);
    };
    round(0);
    if (block == count) return;
    round(count - block);
    round(0);
  }

 private:
  /// m <- m H on columns first ... first + block - 1, strip by strip of rows for the sake of the cache.
  static void transform(Matrix<S>& m, Index first, Index block) {
    constexpr Index strip = 64;
    for (Index row = 0; row < m.rows(); row += strip) {
      const Index rows = std::min(strip, m.rows() - row);
      for (Index step = 1; step < block; step *= 2) {
        for (Index j = first; j < first + block; ++j) {
          if (((j - first) & step) != 0) continue;
          S* a = m.col(j).data() + row;
          S* b = m.col(j + step).data() + row;
          for (Index i = 0; i < rows; ++i) {
            const S sum = a[i] + b[i];
            b[i] = a[i] - b[i];
            a[i] = sum;
          }
        }
      }
    }
    m.middleCols(first, block) *= static_cast<S>(1 / std::sqrt(static_cast<double>(block)));
  }
};

}  // namespace rotorlin::detail
