// SPDX-License-Identifier: MIT
/// \file
/// The real Schur form of a small skew matrix, in plain loops: for a matrix of 14 rows Eigen's expressions
/// are no faster, and each takes its time to compile.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// c += a b.
template <class M>
void add_product(const M& a, const M& b, M& c) {
  for (Index j = 0; j < c.cols(); ++j) {
    for (Index l = 0; l < a.cols(); ++l) {
      for (Index i = 0; i < c.rows(); ++i) c(i, j) += a(i, l) * b(l, j);
    }
  }
}

/// Columns p and q of m become c p - s q and s p + c q.
template <class M, class Scalar = typename M::Scalar>
void rotate_columns(M& m, Index p, Index q, std::type_identity_t<Scalar> c, std::type_identity_t<Scalar> s) {
  for (Index i = 0; i < m.rows(); ++i) {
    const Scalar x = m(i, p), y = m(i, q);
    m(i, p) = c * x - s * y;
    m(i, q) = s * x + c * y;
  }
}
template <class M, class Scalar = typename M::Scalar>
void rotate_rows(M& m, Index p, Index q, std::type_identity_t<Scalar> c, std::type_identity_t<Scalar> s) {
  for (Index j = 0; j < m.cols(); ++j) {
    const Scalar x = m(p, j), y = m(q, j);
    m(p, j) = c * x - s * y;
    m(q, j) = s * x + c * y;
  }
}

/// skew <- H skew H, basis <- basis H for reflections H = 1 - beta w w^T until `skew` is tridiagonal.
template <class Basis>
void tridiagonalize_skew(Basis& skew, Basis& basis) {
  using Scalar = typename Basis::Scalar;
  constexpr std::size_t max_n{Basis::MaxRowsAtCompileTime};
  const Index n = skew.rows();
  // far below rounding (the largest entry is 1), and still a square that has all its digits
  const Scalar negligible = std::numeric_limits<Scalar>::min() / std::numeric_limits<Scalar>::epsilon();
  Scalar w[max_n], image[max_n];
  for (Index k = 0; k + 2 < n; ++k) {
    const Index first = k + 1;
    Scalar off_diagonal(0);
    for (Index i = first; i < n; ++i) w[i] = skew(i, k);
    for (Index i = first + 1; i < n; ++i) off_diagonal += w[i] * w[i];
    if (off_diagonal <= negligible) continue;
    const Scalar length = std::copysign(std::sqrt(w[first] * w[first] + off_diagonal), w[first]);
    w[first] += length;
    const Scalar beta = Scalar(2) / (w[first] * w[first] + off_diagonal);
    for (Index i = first; i < n; ++i) image[i] = Scalar(0);
    for (Index j = first; j < n; ++j) {
      for (Index i = first; i < n; ++i) image[i] += skew(i, j) * (beta * w[j]);
    }
    for (Index j = first; j < n; ++j) {
      for (Index i = first; i < n; ++i) skew(i, j) += w[i] * image[j] - image[i] * w[j];
    }
    skew(first, k) = -length;
    skew(k, first) = length;
    for (Index i = 0; i < n; ++i) image[i] = Scalar(0);  // now basis w, times beta
    for (Index j = first; j < n; ++j) {
      for (Index i = 0; i < n; ++i) image[i] += basis(i, j) * (beta * w[j]);
    }
    for (Index j = first; j < n; ++j) {
      for (Index i = 0; i < n; ++i) basis(i, j) -= image[i] * w[j];
    }
  }
}

/// Makes `half`, bidiagonal on entry, diagonal by rotations of its rows and columns and, alike, of the even
/// and the odd basis vectors.
template <class Half, class Basis>
void diagonalize_half(Half& half, Basis& basis) {
  using Scalar = typename Basis::Scalar;
  const Index planes = half.cols();
  const auto rotate_left = [&](Index p, Index q, Scalar c, Scalar s) {
    rotate_rows(half, p, q, c, s);
    rotate_columns(basis, 2 * p, 2 * q, c, s);
  };
  // the rotation after which (x, y) is (r, 0)
  const auto givens = [](Scalar x, Scalar y) {
    const Scalar r = std::hypot(x, y);
    return r == Scalar(0) ? std::pair(Scalar(1), Scalar(0)) : std::pair(x / r, -y / r);
  };
  if (half.rows() > planes) {  // odd n: the last row is rotated into the others
    for (Index p = 0; p < planes; ++p) {
      const auto [c, s] = givens(half(p, p), half(p + 1, p));
      rotate_left(p, p + 1, c, s);
    }
  }
  Scalar largest(0);
  for (Index j = 0; j < planes; ++j) {
    for (Index i = 0; i < half.rows(); ++i) largest = std::max(largest, std::abs(half(i, j)));
  }
  const Scalar negligible = std::numeric_limits<Scalar>::epsilon() / 2 * largest;
  bool done = false;
  for (int sweep = 0; sweep < 30 && !done; ++sweep) {
    done = true;
    for (Index q = 1; q < planes; ++q) {
      for (Index p = 0; p < q; ++p) {
        if (std::abs(half(p, q)) <= negligible && std::abs(half(q, p)) <= negligible) continue;
        done = false;
        // first the 2 x 2 block becomes symmetric, then diagonal (Golub and Van Loan 2013, 8.5.2)
        const auto [c, s] = givens(half(p, p) + half(q, q), half(q, p) - half(p, q));
        rotate_left(p, q, c, s);
        const Scalar off_diagonal = half(p, q);
        if (std::abs(off_diagonal) > std::numeric_limits<Scalar>::min()) {
          const Scalar tau = (half(q, q) - half(p, p)) / (2 * off_diagonal);
          const Scalar t = std::copysign(Scalar(1) / (std::abs(tau) + std::hypot(Scalar(1), tau)), tau);
          const Scalar cosine = Scalar(1) / std::sqrt(Scalar(1) + t * t), sine = t * cosine;
          rotate_left(p, q, cosine, sine);
          rotate_columns(half, p, q, cosine, sine);
          rotate_columns(basis, 2 * p + 1, 2 * q + 1, cosine, sine);
        }
        half(p, q) = half(q, p) = Scalar(0);  // but for rounding
      }
    }
  }
}

}  // namespace rotorlin::detail
