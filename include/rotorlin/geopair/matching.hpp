// SPDX-License-Identifier: MIT
/// \file
/// Perfect matchings of minimum cost in complete graphs, in O(n^3): the primal-dual blossom algorithm of
/// Edmonds (1965) for dense graphs, in integers and so exact for the quantised costs.
///
/// Duals y_v of vertices and z_B >= 0 of blossoms (odd sets, each a cycle of smaller ones) keep
///
///     slack(u, v) = c_uv - y_u - y_v + (sum of z_B over the blossoms that contain both) >= 0,
///
/// zero on matched edges and on the cycles. A search grows an alternating tree of such tight edges from one
/// single vertex: its outer nodes (an even number of edges from the root) are the ends of alternating paths.
/// Where no tight edge leads on, y rises on outer and falls on inner vertices until (grow) an edge to a new
/// node is tight, (shrink) one between two outer nodes, which closes a cycle that becomes a blossom, or
/// (expand) the z of an inner blossom is zero. A new node that is single ends the search: the path is
/// augmented.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

using Pairs = std::vector<std::pair<Index, Index>>;

namespace detail {

/// Nodes 0 ... n-1 are vertices, those above are blossoms. The costs are even, which keeps all duals integer:
/// tight edges make all y of one tree odd or all even.
class BlossomMatching {
  using Cost = Matrix<std::int64_t>;

 public:
  /// The mate of every vertex. cost: n x n, symmetric, even numbers; n even.
  static std::vector<int> solve(const Cost& cost) {
    BlossomMatching matching(cost);
    for (int v = 0; v < matching.n_; ++v) {
      if (matching.mate_[at(v)] == none) matching.search(v);
    }
    return matching.mate_;
  }

 private:
  static constexpr int none = -1;
  enum class Label : char { free, outer, inner };
  struct Edge {
    int from = none, to = none;
    Edge reversed() const { return {to, from}; }
  };
  struct Node {
    bool top = false;           // not within a blossom
    Label label = Label::free;  // of top nodes
    int base = none;            // the vertex that is not matched within the node
    Edge entry;                 // of an inner node, from its parent in the tree
    Edge nearest;               // of an outer node, of least slack to another outer node
    std::int64_t z = 0;
    std::vector<int> children;  // an odd cycle, the one with the base first; the others are matched in order
    std::vector<Edge> links;    // from each child to the next
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  explicit BlossomMatching(const Cost& cost)
      : n_(static_cast<int>(cost.rows())),
        cost_(cost),
        nodes_(at(n_ + n_ / 2)),
        mate_(at(n_), none),
        y_(at(n_)),
        top_(at(n_)),
        closest_(at(n_)),
        between_(nodes_.size() * nodes_.size()) {
    for (int v = 0; v < n_; ++v) {
      node(v).top = true;
      node(v).base = top_[at(v)] = v;
      y_[at(v)] = std::numeric_limits<std::int64_t>::max();
      for (int u = 0; u < n_; ++u) {
        if (u != v) y_[at(v)] = std::min(y_[at(v)], cost_(u, v) / 2);
      }
    }
    for (int id = static_cast<int>(nodes_.size()) - 1; id >= n_; --id) unused_.push_back(id);
    // A start that is cheap: raise each y until an edge is tight, and match what is free.
    for (int v = 0; v < n_; ++v) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (int u = 0; u < n_; ++u) {
        if (u != v) least = std::min(least, slack({u, v}));
      }
      y_[at(v)] += least;
      for (int u = 0; u < n_ && mate_[at(v)] == none; ++u) {
        if (u != v && mate_[at(u)] == none && slack({u, v}) == 0) match({u, v});
      }
    }
  }

  Node& node(int id) { return nodes_[at(id)]; }
  Node& top_node(int vertex) { return node(top_[at(vertex)]); }
  Edge& between(int a, int b) { return between_[at(a) * nodes_.size() + at(b)]; }
  /// Of an edge between different top nodes.
  std::int64_t slack(Edge e) const { return cost_(e.from, e.to) - y_[at(e.from)] - y_[at(e.to)]; }
  void match(Edge e) {
    mate_[at(e.from)] = e.to;
    mate_[at(e.to)] = e.from;
  }
  /// Keeps the edge of smaller slack.
  void improve(Edge& best, Edge other) const {
    if (other.from != none && (best.from == none || slack(other) < slack(best))) best = other;
  }

  template <class F>
  void for_vertices(int id, F&& f) {
    if (id < n_) return f(id);
    for (const int child : node(id).children) for_vertices(child, f);
  }
  void set_top(int id) {
    node(id).top = true;
    for_vertices(id, [&](int v) { top_[at(v)] = id; });
  }

  /// The edges of this vertex, now outer, to the outside of its top node.
  void scan(int v) {
    const int own = top_[at(v)];
    for (int u = 0; u < n_; ++u) {
      const int other = top_[at(u)];
      if (other == own) continue;
      if (node(other).label == Label::outer) {
        connect(own, other, {v, u});
      } else {
        improve(closest_[at(u)], {v, u});
      }
    }
  }
  void connect(int a, int b, Edge e) {
    if (e.from == none) return;
    improve(between(a, b), e);
    improve(between(b, a), e.reversed());
    improve(node(a).nearest, e);
    improve(node(b).nearest, e.reversed());
  }
  void forget_edges(int id) {
    node(id).nearest = {};
    for (int other = 0; other < static_cast<int>(nodes_.size()); ++other)
      between(id, other) = between(other, id) = {};
  }
  void make_outer(int id) {
    node(id).label = Label::outer;
    forget_edges(id);
    for_vertices(id, [&](int v) { scan(v); });
  }

  /// Moves the base of a node to one of its vertices, by matching the other children the other way round.
  void rebase(int id, int vertex) {
    Node& blossom = node(id);
    blossom.base = vertex;
    if (id < n_) return;
    std::size_t i = child_with(id, vertex);
    const std::size_t size = blossom.children.size();
    for (std::size_t j = i % 2 == 0 ? 0 : i + 1; j != (i % 2 == 0 ? i : size + 1); j += 2) {
      const Edge link = blossom.links[j];
      rebase(blossom.children[j], link.from);
      rebase(blossom.children[(j + 1) % size], link.to);
      match(link);
    }
    rebase(blossom.children[i], vertex);
    std::rotate(blossom.children.begin(), blossom.children.begin() + static_cast<std::ptrdiff_t>(i),
                blossom.children.end());
    std::rotate(blossom.links.begin(), blossom.links.begin() + static_cast<std::ptrdiff_t>(i),
                blossom.links.end());
  }
  std::size_t child_with(int id, int vertex) {
    const std::vector<int>& children = node(id).children;
    for (std::size_t i = 0;; ++i) {
      bool found = false;
      for_vertices(children[i], [&](int v) { found = found || v == vertex; });
      if (found) return i;
    }
  }

  /// Matches `edge`, from an outer node to a single vertex, and the path from there to the root.
  void augment(Edge edge) {
    for (;;) {
      const int outer = top_[at(edge.from)], below = mate_[at(node(outer).base)];
      rebase(outer, edge.from);
      match(edge);
      if (below == none) return;
      const int inner = top_[at(below)];
      edge = node(inner).entry;
      rebase(inner, edge.to);
    }
  }

  /// `edge` is tight and leads from an outer node to a free one. True where that ended the search.
  bool grow(Edge edge) {
    const int inner = top_[at(edge.to)], next = mate_[at(node(inner).base)];
    if (next == none) {
      augment(edge);
      return true;
    }
    node(inner).label = Label::inner;
    node(inner).entry = edge;
    make_outer(top_[at(next)]);
    return false;
  }

  /// The outer nodes from here to the root.
  std::vector<int> ancestors(int outer) {
    std::vector<int> path{outer};
    for (int v; (v = mate_[at(node(path.back()).base)]) != none;) {
      path.push_back(top_[at(top_node(v).entry.from)]);
    }
    return path;
  }

  /// Makes a blossom of the cycle that a tight edge between two outer nodes closes.
  void shrink(Edge edge) {
    std::vector<int> left = ancestors(top_[at(edge.from)]), right = ancestors(top_[at(edge.to)]);
    int joint = none;
    while (!left.empty() && !right.empty() && left.back() == right.back()) {
      joint = left.back();
      left.pop_back();
      right.pop_back();
    }
    const int id = unused_.back();
    unused_.pop_back();
    Node& blossom = node(id);
    blossom.children = {joint};
    blossom.links.clear();
    blossom.z = 0;
    blossom.base = node(joint).base;
    for (auto outer = left.rbegin(); outer != left.rend(); ++outer) {  // down to `edge`
      const int base = node(*outer).base, partner = mate_[at(base)], inner = top_[at(partner)];
      blossom.links.insert(blossom.links.end(), {node(inner).entry, {partner, base}});
      blossom.children.insert(blossom.children.end(), {inner, *outer});
    }
    blossom.links.push_back(edge);
    for (const int outer : right) {  // and up again
      const int base = node(outer).base, partner = mate_[at(base)], inner = top_[at(partner)];
      blossom.links.insert(blossom.links.end(), {{base, partner}, node(inner).entry.reversed()});
      blossom.children.insert(blossom.children.end(), {outer, inner});
    }

    set_top(id);
    blossom.label = Label::outer;
    forget_edges(id);
    for (const int child : blossom.children) node(child).top = false;
    for (const int child : blossom.children) {
      if (node(child).label == Label::outer) {  // its edges were scanned before
        for (int other = 0; other < static_cast<int>(nodes_.size()); ++other) {
          if (other != id && node(other).top && node(other).label == Label::outer)
            connect(id, other, between(child, other));
        }
      } else {
        for_vertices(child, [&](int v) { scan(v); });
      }
    }
  }

  /// Opens an inner blossom: of its children, those on the even way from the entry to the base stay in the
  /// tree.
  void expand(int id) {
    Node& blossom = node(id);
    const std::vector<int> children = std::move(blossom.children);
    const std::vector<Edge> links = std::move(blossom.links);
    blossom.top = false;
    unused_.push_back(id);
    for (const int child : children) {
      set_top(child);
      node(child).label = Label::free;
    }
    const std::size_t size = children.size();
    const int entered = top_[at(blossom.entry.to)];
    std::size_t i =
        static_cast<std::size_t>(std::find(children.begin(), children.end(), entered) - children.begin());
    const bool back = i % 2 == 0;
    Edge entry = blossom.entry;
    std::vector<int> outer;
    for (;;) {
      node(children[i]).label = Label::inner;
      node(children[i]).entry = entry;
      if (i == 0) break;
      const std::size_t next = back ? i - 1 : i + 1;
      outer.push_back(children[next]);
      entry = back ? links[next - 1].reversed() : links[next];
      i = back ? next - 1 : (next + 1) % size;
    }
    for (const int child : outer) make_outer(child);
  }

  void search(int root) {
    for (Node& each : nodes_) each.label = Label::free;
    std::fill(closest_.begin(), closest_.end(), Edge{});
    make_outer(top_[at(root)]);
    for (;;) {
      enum class Event { grow, shrink, expand } event = Event::grow;
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      Edge edge;
      int blossom = none;
      for (int v = 0; v < n_; ++v) {
        if (top_node(v).label != Label::free) continue;
        if (const std::int64_t delta = slack(closest_[at(v)]); delta < least) {
          least = delta;
          edge = closest_[at(v)];
        }
      }
      for (int id = 0; id < static_cast<int>(nodes_.size()); ++id) {
        const Node& each = node(id);
        if (!each.top) continue;
        if (each.label == Label::outer && each.nearest.from != none && slack(each.nearest) / 2 < least) {
          least = slack(each.nearest) / 2;
          edge = each.nearest;
          event = Event::shrink;
        } else if (each.label == Label::inner && id >= n_ && each.z / 2 < least) {
          least = each.z / 2;
          blossom = id;
          event = Event::expand;
        }
      }
      shift(least);
      if (event == Event::shrink) {
        shrink(edge);
      } else if (event == Event::expand) {
        expand(blossom);
      } else if (grow(edge)) {
        return;
      }
    }
  }

  /// Moves the duals of the tree: slacks between outer and free nodes fall by delta, those between outer
  /// nodes by twice that.
  void shift(std::int64_t delta) {
    const auto sign = [](Label label) { return label == Label::outer ? 1 : label == Label::inner ? -1 : 0; };
    for (int v = 0; v < n_; ++v) y_[at(v)] += sign(top_node(v).label) * delta;
    for (int id = n_; id < static_cast<int>(nodes_.size()); ++id) {
      if (node(id).top) node(id).z += sign(node(id).label) * 2 * delta;
    }
  }

  int n_;
  const Cost& cost_;
  std::vector<Node> nodes_;
  std::vector<int> mate_;
  std::vector<std::int64_t> y_;
  std::vector<int> top_;       // the top node of each vertex
  std::vector<Edge> closest_;  // of a vertex that is not outer: the edge of least slack from an outer vertex
  std::vector<Edge>
      between_;  // of two outer nodes: the edge of least slack, which stays so while both rise alike
  std::vector<int> unused_;
};

/// The least and the largest entry beside the diagonal.
inline std::pair<double, double> check_symmetric(const char* who, const ConstMatrixRef<double>& m) {
  if (m.rows() != m.cols()) throw_invalid(who, ": the matrix is ", shape(m), ", expected n x n");
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (Index j = 0; j < m.cols(); ++j) {
    for (Index i = 0; i < j; ++i) {
      if (!detail::is_finite(m(i, j)) || !detail::is_finite(m(j, i))) {
        throw_domain(who, ": the value of (", i, ", ", j, ") is not finite");
      }
      if (m(i, j) != m(j, i)) {
        throw_invalid(who, ": the matrix is not symmetric: ", m(i, j), " at (", i, ", ", j, "), ", m(j, i),
                      " at (", j, ", ", i, ")");
      }
      low = std::min(low, m(i, j));
      high = std::max(high, m(i, j));
    }
  }
  return {low, high};
}

}  // namespace detail

/// The pairs (i < j, ascending) of a perfect matching of least total cost; of an odd number of vertices one
/// is left single. `cost`: n x n, symmetric; its diagonal does not count. Costs are rounded to 2^-40 of their
/// range. \throws std::invalid_argument when cost is not square or not symmetric, std::domain_error on NaN or
/// Inf.
inline Pairs minimum_cost_matching(const ConstMatrixRef<double>& cost) {
  const auto [low, high] = detail::check_symmetric("minimum_cost_matching", cost);
  const Index n = cost.rows();
  const Index even = n + n % 2;  // an odd vertex is matched to one that costs nothing
  Matrix<std::int64_t> whole = Matrix<std::int64_t>::Zero(even, even);
  const double scale = high > low ? 0x1p40 / (high - low) : 0;
  for (Index j = 0; j < n; ++j) {
    for (Index i = 0; i < n; ++i) {
      if (i != j) whole(i, j) = 2 * std::llround((cost(i, j) - low) * scale);
    }
  }
  const std::vector<int> mate = detail::BlossomMatching::solve(whole);
  Pairs pairs;
  for (Index i = 0; i < n; ++i) {
    const Index j = mate[static_cast<std::size_t>(i)];
    if (i < j && j < n) pairs.emplace_back(i, j);
  }
  return pairs;
}

/// The pairs (i < j, ascending) of a matching of greatest total weight. Vertices may stay single, and no pair
/// has a weight <= 0: give pairs that must not be a weight of 0. Arguments and exceptions as in
/// minimum_cost_matching.
inline Pairs maximum_weight_matching(const ConstMatrixRef<double>& weight) {
  const Index n = weight.rows();
  Matrix<double> cost = -weight;
  for (Index j = 0; j < std::min(n, weight.cols()); ++j) {
    for (Index i = 0; i < n; ++i) {
      if (weight(i, j) < 0) cost(i, j) = 0;
    }
  }
  // Every matching of positive weights is part of a perfect one of weights >= 0.
  Pairs pairs = minimum_cost_matching(cost);
  std::erase_if(pairs, [&](const auto& pair) { return !(weight(pair.first, pair.second) > 0); });
  return pairs;
}

}  // namespace rotorlin
