// SPDX-License-Identifier: MIT
// Compiled as C++17.
#include "lemon_matching.hpp"

#if __has_include(<lemon/matching.h>)
#include <lemon/full_graph.h>
#include <lemon/matching.h>

namespace test {

bool has_lemon() { return true; }

std::int64_t lemon_matching_cost(int n, const std::vector<std::int64_t>& costs) {
  const lemon::FullGraph graph(n);
  lemon::FullGraph::EdgeMap<std::int64_t> weight(graph);
  for (lemon::FullGraph::EdgeIt e(graph); e != lemon::INVALID; ++e) {
    const int i = graph.index(graph.u(e)), j = graph.index(graph.v(e));
    weight[e] =
        -costs[static_cast<std::size_t>(i) + static_cast<std::size_t>(j) * static_cast<std::size_t>(n)];
  }
  lemon::MaxWeightedPerfectMatching<lemon::FullGraph, lemon::FullGraph::EdgeMap<std::int64_t>> matching(
      graph, weight);
  matching.run();
  return -matching.matchingWeight();
}

}  // namespace test

#else

namespace test {

bool has_lemon() { return false; }
std::int64_t lemon_matching_cost(int, const std::vector<std::int64_t>&) { return 0; }

}  // namespace test

#endif
