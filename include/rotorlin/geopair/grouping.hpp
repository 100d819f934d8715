// SPDX-License-Identifier: MIT
/// \file
/// Groups of layers from a table of affinities (gains, or differences of distances): neighbours, optimal
/// pairs, or groups of any size by greedy merging and local search.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/geopair/matching.hpp"

namespace rotorlin {

using Groups = std::vector<std::vector<Index>>;

/// 0 ... count-1 in groups of `size` neighbours, the last one smaller where it does not divide.
inline Groups adjacent_groups(Index count, Index size) {
  if (count < 0 || size < 1)
    detail::throw_invalid("adjacent_groups: ", count, " layers in groups of ", size, ", expected size >= 1");
  Groups groups(static_cast<std::size_t>((count + size - 1) / size));
  for (Index i = 0; i < count; ++i) groups[static_cast<std::size_t>(i / size)].push_back(i);
  return groups;
}

namespace detail {

class AffinityGroups {
 public:
  AffinityGroups(const ConstMatrixRef<double>& affinity, Index size)
      : affinity_(affinity), size_(size), groups_(adjacent_groups(affinity.rows(), 1)) {
    affinity_.diagonal().setZero();
  }

  Groups solve() {
    merge();
    of_.resize(static_cast<std::size_t>(affinity_.rows()));
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const Index i : groups_[g]) of_[static_cast<std::size_t>(i)] = g;
    }
    while (improve()) continue;
    Groups result;
    for (std::vector<Index>& group : groups_) {
      if (group.empty()) continue;
      std::sort(group.begin(), group.end());
      result.push_back(std::move(group));
    }
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  static Index count(const std::vector<Index>& group) { return static_cast<Index>(group.size()); }

  void merge() {
    Matrix<double> total = affinity_;  // between groups
    for (;;) {
      double best = 0;
      Index first = 0, second = 0;
      for (Index h = 0; h < total.cols(); ++h) {
        for (Index g = 0; g < h; ++g) {
          const Index n = count(group(g)), m = count(group(h));
          if (n == 0 || m == 0 || n + m > size_ || total(g, h) <= best * static_cast<double>(n * m)) continue;
          best = total(g, h) / static_cast<double>(n * m);
          first = g;
          second = h;
        }
      }
      if (best == 0) return;
      group(first).insert(group(first).end(), group(second).begin(), group(second).end());
      group(second).clear();
      total.row(first) += total.row(second);
      total.col(first) += total.col(second);
    }
  }

  /// The affinity of a layer to the others of a group.
  double pull(Index i, std::size_t g) const {
    double sum = 0;
    for (const Index j : groups_[g]) sum += affinity_(i, j);
    return sum;
  }

  /// Moves every layer, and exchanges every two, where the sum within groups rises.
  bool improve() {
    const double enough = 1e-9 * affinity_.cwiseAbs().maxCoeff();
    bool improved = false;
    for (Index i = 0; i < affinity_.rows(); ++i) {
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (g != of(i) && count(groups_[g]) < size_ && pull(i, g) - pull(i, of(i)) > enough) {
          move(i, g);
          improved = true;
        }
      }
      for (Index j = 0; j < i; ++j) {
        const std::size_t g = of(i), h = of(j);
        if (g != h && pull(i, h) + pull(j, g) - 2 * affinity_(i, j) - pull(i, g) - pull(j, h) > enough) {
          move(i, h);
          move(j, g);
          improved = true;
        }
      }
    }
    return improved;
  }
  void move(Index i, std::size_t g) {
    std::erase(groups_[of(i)], i);
    groups_[g].push_back(i);
    of_[static_cast<std::size_t>(i)] = g;
  }

  std::size_t of(Index i) const { return of_[static_cast<std::size_t>(i)]; }
  std::vector<Index>& group(Index g) { return groups_[static_cast<std::size_t>(g)]; }

  Matrix<double> affinity_;
  Index size_;
  Groups groups_;
  std::vector<std::size_t> of_;  // the group of each layer
};

}  // namespace detail

/// Groups of at most `size` layers with a large sum of affinities (n x n, symmetric) within them. Pairs (size
/// 2) are an optimal matching; larger groups come from merging, the largest mean affinity first, and then
/// from moving and exchanging single layers while that helps. Layers of affinity <= 0 are never merged.
/// \throws as maximum_weight_matching, std::invalid_argument for size < 1.
inline Groups group_by_affinity(const ConstMatrixRef<double>& affinity, Index size) {
  if (size < 1) detail::throw_invalid("group_by_affinity: groups of ", size, ", expected >= 1");
  if (size == 2) {
    Groups groups;
    std::vector<bool> paired(static_cast<std::size_t>(affinity.rows()), false);
    for (const auto& [i, j] : maximum_weight_matching(affinity)) {
      groups.push_back({i, j});
      paired[static_cast<std::size_t>(i)] = paired[static_cast<std::size_t>(j)] = true;
    }
    for (Index i = 0; i < affinity.rows(); ++i) {
      if (!paired[static_cast<std::size_t>(i)]) groups.push_back({i});
    }
    std::sort(groups.begin(), groups.end());
    return groups;
  }
  detail::check_symmetric("group_by_affinity", affinity);
  return detail::AffinityGroups(affinity, size).solve();
}

}  // namespace rotorlin
