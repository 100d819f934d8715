// SPDX-License-Identifier: MIT
/// \file
/// One budget for many groups: what each of them loses at a few sizes is known, and bytes go where they save
/// the most. Curves are replaced by their lower convex hulls, on which taking the steepest segment first is
/// optimal.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"

namespace rotorlin {

/// The damage that a group suffers when it is given so many bytes.
struct DamagePoint {
  double bytes, damage;
};
using DamageCurve = std::vector<DamagePoint>;

namespace detail {

/// The points at which more bytes begin to pay, from the least bytes on: falling, convex.
inline DamageCurve lower_hull(DamageCurve curve) {
  std::sort(curve.begin(), curve.end(), [](const DamagePoint& a, const DamagePoint& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.damage < b.damage;
  });
  DamageCurve hull;
  for (const DamagePoint& next : curve) {
    if (!hull.empty() && !(next.damage < hull.back().damage)) continue;
    while (hull.size() > 1) {
      const DamagePoint &a = hull[hull.size() - 2], &b = hull.back();
      if ((b.damage - a.damage) * (next.bytes - a.bytes) < (next.damage - a.damage) * (b.bytes - a.bytes)) {
        break;
      }
      hull.pop_back();
    }
    hull.push_back(next);
  }
  return hull;
}

}  // namespace detail

/// The bytes of each group, `budget` in all or less, such that the sum of damages, linear between the points
/// of the hulls, is least. \throws std::invalid_argument when a curve is empty, or the least bytes of all
/// curves exceed the budget; std::domain_error on NaN or Inf.
inline std::vector<double> allocate_bytes(const std::vector<DamageCurve>& curves, double budget) {
  constexpr const char* who = "allocate_bytes";
  struct Segment {
    std::size_t group;
    double bytes, slope;
  };
  std::vector<double> bytes;
  std::vector<Segment> segments;
  for (std::size_t g = 0; g < curves.size(); ++g) {
    if (curves[g].empty()) detail::throw_invalid(who, ": curve ", g, " has no points");
    for (const DamagePoint& point : curves[g]) {
      if (!detail::is_finite(point.bytes) || !detail::is_finite(point.damage)) {
        detail::throw_domain(who, ": curve ", g, " has the point (", point.bytes, ", ", point.damage, ")");
      }
    }
    const DamageCurve hull = detail::lower_hull(curves[g]);
    bytes.push_back(hull[0].bytes);
    budget -= hull[0].bytes;
    for (std::size_t i = 1; i < hull.size(); ++i) {
      const double more = hull[i].bytes - hull[i - 1].bytes;
      segments.push_back({g, more, (hull[i].damage - hull[i - 1].damage) / more});
    }
  }
  if (budget < 0) detail::throw_invalid(who, ": the least sizes exceed the budget by ", -budget, " bytes");
  // stable: segments of one hull keep their order, and equal slopes that of the groups
  std::stable_sort(segments.begin(), segments.end(),
                   [](const Segment& a, const Segment& b) { return a.slope < b.slope; });
  for (const Segment& segment : segments) {
    const double taken = std::min(segment.bytes, budget);
    bytes[segment.group] += taken;
    budget -= taken;
    if (!(budget > 0)) break;
  }
  return bytes;
}

}  // namespace rotorlin
