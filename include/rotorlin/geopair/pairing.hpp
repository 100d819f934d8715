// SPDX-License-Identifier: MIT
/// \file
/// Which layers should share a dictionary. Two measures between layers with as many inputs:
///
/// - the sliding distance of the whitened weights A = L W (d x n): the narrower over the wider at every
///   offset s, |A - B_s| / (|A| + |B_s|) and sqrt(2 - 2 cos), all offsets by one cross-correlation. It
///   compares columns in their order, which means nothing to a shared dictionary;
/// - the gain: by how much one alternating step on a shared dense dictionary lowers the relative errors,
///   against the two layers apart at the same ratio of compression. It predicts the end of a full compression
///   far better.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/accounting.hpp"
#include "rotorlin/geopair/basis_sharing.hpp"
#include "rotorlin/geopair/layer_group.hpp"
#include "rotorlin/geopair/shared_factorization.hpp"

namespace rotorlin {

/// One value for every offset of the narrower in the wider matrix.
struct SlidingDistance {
  VectorX<double> cross_correlation;  ///< <A, B_s>
  VectorX<double> sum;                ///< |A - B_s| / (|A| + |B_s|), in 0 ... 1; 0 where both are zero
  VectorX<double> geometric;          ///< sqrt(2 - 2 cos(A, B_s)), in 0 ... 2; sqrt(2) where one is zero
};

/// a: d x n, b: d x m, in either order. \throws std::invalid_argument on different heights or empty matrices,
/// std::domain_error on NaN or Inf.
template <class = void>
SlidingDistance sliding_distance(const ConstMatrixRef<double>& a, const ConstMatrixRef<double>& b) {
  constexpr const char* who = "sliding_distance";
  if (a.cols() > b.cols()) return sliding_distance(b, a);
  if (a.rows() != b.rows() || a.size() == 0) {
    detail::throw_invalid(who, ": the weights are ", detail::shape(a), " and ", detail::shape(b),
                          ", expected d x n with the same d, not empty");
  }
  if (!detail::all_finite(a) || !detail::all_finite(b))
    detail::throw_domain(who, ": a weight has NaN or infinite entries");
  const Matrix<double> products = a.transpose() * b;
  const Eigen::RowVectorXd energies = b.colwise().squaredNorm();
  const double a_norm = a.norm();
  SlidingDistance distance;
  const Index offsets = b.cols() - a.cols() + 1;
  for (VectorX<double>* each : {&distance.cross_correlation, &distance.sum, &distance.geometric})
    each->resize(offsets);
  for (Index s = 0; s < offsets; ++s) {
    const double b_norm = std::sqrt(energies.segment(s, a.cols()).sum()), cross = products.diagonal(s).sum();
    distance.cross_correlation[s] = cross;
    const auto part = b.middleCols(s, a.cols());
    double squared = a_norm * a_norm + b_norm * b_norm - 2 * cross;
    double cosine_gap = a_norm * b_norm > 0 ? 1 - cross / (a_norm * b_norm) : 1;
    constexpr double cancelled = 1e-4;  // below which differences are taken entry by entry
    if (squared < cancelled * (a_norm * a_norm + b_norm * b_norm)) squared = (a - part).squaredNorm();
    if (cosine_gap < cancelled) cosine_gap = (a / a_norm - part / b_norm).squaredNorm() / 2;
    distance.sum[s] = a_norm + b_norm > 0 ? std::sqrt(squared) / (a_norm + b_norm) : 0;
    distance.geometric[s] = std::sqrt(2 * cosine_gap);
  }
  return distance;
}

/// Relative errors (energies, each in 0 ... 1) of two layers at one ratio: the sum of both.
struct SharingGain {
  double apart = 0;   ///< each with its own dense dictionary
  double shared = 0;  ///< with a common one, after one alternating step
  double gain() const { return apart - shared; }
  double relative() const { return apart > 0 ? 1 - shared / apart : 0; }
};

/// A layer on its own: weight (out x in) and factor L (in x in) of its Gram matrix.
struct WhitenedLayer {
  Matrix<double> weight, factor;
};

namespace detail {

/// A group of layers in which each counts by its relative error. Equal factors are one Gram matrix.
template <class = void>
LayerGroup relative_group(const std::vector<const WhitenedLayer*>& layers) {
  LayerGroup group(layers.at(0)->factor.rows());
  std::vector<const WhitenedLayer*> grams;
  for (const WhitenedLayer* layer : layers) {
    const auto same = std::find_if(grams.begin(), grams.end(), [&](const WhitenedLayer* other) {
      return other->factor.rows() == layer->factor.rows() && other->factor == layer->factor;
    });
    const std::size_t gram = static_cast<std::size_t>(same - grams.begin());
    if (same == grams.end()) {
      group.add_gram(layer->factor);
      grams.push_back(layer);
    }
    const double energy =
        (layer->factor.triangularView<Eigen::Upper>() * layer->weight.transpose()).eval().squaredNorm();
    group.add_layer(layer->weight, gram, energy > 0 ? 1 / energy : 1);
  }
  return group;
}

template <class = void>
double one_step_error(const LayerGroup& group, double ratio) {
  FactorizationOptions options;
  options.rank = std::max<Index>(1, dense_rank(group.inputs(), group.outputs(), ratio));
  options.iterations = group.terms().size() > 1 ? 1 : 0;  // one Gram matrix: the start is the optimum
  return factorize(group, options).objective;
}

}  // namespace detail

/// What sharing would bring to two layers, dense at the ratio of compression. Costs about d^3 a pair. \throws
/// std::invalid_argument on other shapes.
template <class = void>
SharingGain sharing_gain(const WhitenedLayer& a, const WhitenedLayer& b, double ratio) {
  SharingGain gain;
  for (const WhitenedLayer* each : {&a, &b})
    gain.apart += detail::one_step_error(detail::relative_group({each}), ratio);
  gain.shared = detail::one_step_error(detail::relative_group({&a, &b}), ratio);
  return gain;
}

}  // namespace rotorlin
