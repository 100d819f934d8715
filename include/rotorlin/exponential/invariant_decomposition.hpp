// SPDX-License-Identifier: MIT
/// \file
/// The invariant decomposition of a Euclidean bivector into commuting simple parts: orthogonal planes, each
/// with an angle. It is the real Schur form of the skew matrix A of the bivector,
///
///     A = sum_p angle_p (u_p v_p^T - v_p u_p^T),    b = sum_p angle_p u_p v_p,
///     exp(b) = prod_p (cos angle_p + sin angle_p u_p v_p),
///
/// and makes every function of ad_b (h -> [b, h]) diagonal up to 2 x 2 blocks.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <utility>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/exponential/detail/skew_schur.hpp"
#include "rotorlin/exponential/power_iteration.hpp"

namespace rotorlin {

namespace detail {

/// sin(x)/x, to full relative accuracy everywhere.
template <class Scalar>
Scalar sinc(Scalar x) {
  return x == Scalar(0) ? Scalar(1) : std::sin(x) / x;
}

}  // namespace detail

/// How a bivector is decomposed: `exact` by the real Schur form of its skew matrix, `power_iteration` as in
/// the paper (Algorithms 1 and 2), which is inexact where angles are close.
enum class DecompositionMethod { exact, power_iteration };

/// Planes and angles of a bivector of Cl(N), N <= 14. The basis is orthogonal to rounding whatever the
/// angles: equal, tiny, zero. An object is meant to be used again: `compute` and all that returns no Rotor
/// allocate nothing.
template <std::floating_point Scalar, int N = Dynamic>
class InvariantDecomposition {
  static_assert(N == Dynamic || (N >= 2 && N <= max_dimension), "a dimension with planes in it, or Dynamic");
  static constexpr int max_n = N == Dynamic ? max_dimension : N;
  static constexpr int max_planes = max_n / 2;

 public:
  using BivectorType = Bivector<Scalar, N>;
  using RotorType = Rotor<Scalar, N>;
  using Basis = Eigen::Matrix<Scalar, N, N, Eigen::ColMajor, max_n, max_n>;
  using Angles = Eigen::Matrix<Scalar, N == Dynamic ? Dynamic : N / 2, 1, Eigen::ColMajor, max_planes, 1>;

  InvariantDecomposition() = default;
  explicit InvariantDecomposition(const BivectorType& b) { compute(b); }
  InvariantDecomposition(const BivectorType& b, DecompositionMethod method) { compute(b, method); }
  /// From planes and angles, which may be in any order and of any sign.
  InvariantDecomposition(const Basis& basis, const Angles& angles) : basis_(basis), angles_(angles) {
    sort_planes();
  }

  /// Decomposes b: its skew matrix becomes tridiagonal, T, by reflections; with the even indices before the
  /// odd ones T = [0 B; -B^T 0], and the singular values of B are the angles (Kogbetliantz' method: Jacobi
  /// rotations on both sides, so that every basis vector is a product of orthogonal maps, of zero angles
  /// too).
  /// \throws std::domain_error where a coefficient is NaN or infinite, or an angle overflows.
  void compute(const BivectorType& b) {
    if (!b.all_finite()) {
      detail::throw_domain("InvariantDecomposition: the bivector of ", b.signature(),
                           " has coefficients that are NaN or infinite");
    }
    const Index n = b.dimension();
    octets(static_cast<int>(n));  // so that `rotor` allocates nothing
    basis_.setIdentity(n, n);
    angles_.setZero(n / 2);
    Scalar scale(0);
    for (Index k = 0; k < b.size(); ++k) scale = std::max(scale, std::abs(b[k]));
    if (scale == Scalar(0)) return;
    Basis skew = b.to_skew_matrix();
    for (Index j = 0; j < n; ++j) {
      for (Index i = 0; i < n; ++i) skew(i, j) /= scale;
    }
    detail::tridiagonalize_skew(skew, basis_);
    Half half = Half::Zero(n - n / 2, n / 2);
    for (Index i = 0; i + 1 < n; ++i) half((i + 1) / 2, i / 2) = i % 2 == 0 ? skew(i, i + 1) : skew(i + 1, i);
    detail::diagonalize_half(half, basis_);
    for (Index p = 0; p < num_planes(); ++p) angles_[p] = scale * half(p, p);
    if (!detail::all_finite(angles_)) {
      detail::throw_domain("InvariantDecomposition: the angles of the bivector of ", b.signature(),
                           " overflow, its largest coefficient is ", scale);
    }
    sort_planes();
  }

  /// The same by either method. The planes of the power iteration are made orthogonal, each to those before
  /// it (PowerIteration has its own parts), and are allocated for. \throws std::invalid_argument for a method
  /// outside of the enumeration.
  void compute(const BivectorType& b, DecompositionMethod method) {
    switch (method) {
      case DecompositionMethod::exact:
        return compute(b);
      case DecompositionMethod::power_iteration:
        return iterate(b);
    }
    detail::throw_invalid("InvariantDecomposition: method = ", static_cast<int>(method),
                          ", expected one of the enumeration DecompositionMethod");
  }

  /// n, the number of basis vectors.
  int dimension() const { return static_cast<int>(basis_.rows()); }
  /// floor(n / 2).
  Index num_planes() const { return angles_.size(); }
  /// n x n, orthogonal. Columns 2p and 2p + 1 are u_p and v_p; for odd n the last column is the null vector.
  const Basis& basis() const { return basis_; }
  /// The angles, at least 0, descending.
  const Angles& angles() const { return angles_; }

  /// The bivector that was decomposed: the sum of the simple parts.
  BivectorType bivector() const {
    BivectorType sum{Signature<N>(dimension())};
    for (Index p = 0; p < num_planes(); ++p) sum += simple_part(p);
    return sum;
  }

  /// angle_p u_p v_p; these parts commute and sum to the bivector.
  BivectorType simple_part(Index p) const {
    check_plane("simple_part", p);
    BivectorType part{Signature<N>(dimension())};
    for (Index i = 0, k = 0; i < dimension(); ++i) {
      for (Index j = i + 1; j < dimension(); ++j, ++k) {
        part[k] =
            angles_[p] * (basis_(i, 2 * p) * basis_(j, 2 * p + 1) - basis_(j, 2 * p) * basis_(i, 2 * p + 1));
      }
    }
    return part;
  }

  /// exp(b) = prod_p (cos angle_p + sin angle_p u_p v_p).
  RotorType rotor() const {
    RotorType result{Signature<N>(dimension())};
    rotor(result);
    return result;
  }

  /// The same, written into an existing rotor without allocation.
  /// \throws std::invalid_argument where `result` is of another dimension.
  void rotor(RotorType& result) const {
    if (result.dimension() != dimension()) {
      detail::throw_invalid("InvariantDecomposition::rotor: result of ", result.signature(),
                            ", expected one of Cl(", dimension(), ")");
    }
    rotor(result.coeffs());
  }

  /// The same, written into 2^(n-1) existing coefficients (of even blades, in graded order).
  void rotor(VectorRef<Scalar> even_coeffs) const {
    const int n = dimension();
    if (even_coeffs.size() != detail::part_size(Part::even, n)) {
      detail::throw_invalid("InvariantDecomposition::rotor: room for ", even_coeffs.size(),
                            " coefficients, expected ", detail::part_size(Part::even, n));
    }
    auto& [r, ru, ruv] = octets(n);
    r.setZero();
    r(0, 0) = Scalar(1);
    for (Index p = 0; p < num_planes(); ++p) {
      if (angles_[p] == Scalar(0)) continue;
      detail::multiply_by_vector<Scalar, N>(r, basis_.col(2 * p).data(), n, ru);
      detail::multiply_by_vector<Scalar, N>(ru, basis_.col(2 * p + 1).data(), n, ruv);
      r = std::cos(angles_[p]) * r + std::sin(angles_[p]) * ruv;
    }
    detail::copy_even<Scalar, N>(r, n, even_coeffs);
  }

  /// phi(sign ad_b) h with phi(z) = (e^z - 1)/z and sign = +1 or -1, where b is the decomposed bivector. It
  /// maps a change h of b to the change of exp(b): in the basis, each 2 x 2 block of h is rotated by the
  /// sum and the difference of its angles and scaled by their sinc. No gap is divided by: exact at equal
  /// angles.
  BivectorType phi(const BivectorType& h, int sign) const {
    if (sign != 1 && sign != -1) {
      detail::throw_invalid("InvariantDecomposition::phi: sign = ", sign, ", expected +1 or -1");
    }
    if (h.dimension() != dimension()) {
      detail::throw_invalid("InvariantDecomposition::phi: bivector of ", h.signature(),
                            ", expected one of Cl(", dimension(), ")");
    }
    const Index n = dimension(), planes = num_planes();
    // k = basis^T H basis, H the skew matrix of h, in its upper triangle
    const Basis skew = h.to_skew_matrix();
    Basis product = Basis::Zero(n, n), k = Basis::Zero(n, n);
    detail::add_product(skew, basis_, product);
    for (Index j = 0; j < n; ++j) {
      for (Index i = 0; i < j; ++i) {
        for (Index l = 0; l < n; ++l) k(i, j) += basis_(l, i) * product(l, j);
      }
    }
    // a 2 x 2 block, or (second column zero) a part of the null column, rotated by an angle and scaled
    struct Block {
      Scalar a, b, c, d;  // [a b; c d]
    };
    const auto turned = [&](const Block& x, Scalar angle) {
      const Scalar cosine = detail::sinc(angle) * std::cos(angle);
      const Scalar sine = detail::sinc(angle) * (Scalar(sign) * std::sin(angle));
      return Block{cosine * x.a + sine * x.c, cosine * x.b + sine * x.d, cosine * x.c - sine * x.a,
                   cosine * x.d - sine * x.b};
    };
    for (Index q = 0; q < planes; ++q) {
      for (Index p = 0; p < q; ++p) {
        const Block x{k(2 * p, 2 * q), k(2 * p, 2 * q + 1), k(2 * p + 1, 2 * q), k(2 * p + 1, 2 * q + 1)};
        // x -+ J x J, with J = [0 1; -1 0]: what turns by the difference of the angles, and by their sum
        const Block minus = turned({x.a + x.d, x.b - x.c, x.c - x.b, x.d + x.a}, angles_[p] - angles_[q]);
        const Block plus = turned({x.a - x.d, x.b + x.c, x.c + x.b, x.d - x.a}, angles_[p] + angles_[q]);
        k(2 * p, 2 * q) = (minus.a + plus.a) / 2;
        k(2 * p, 2 * q + 1) = (minus.b + plus.b) / 2;
        k(2 * p + 1, 2 * q) = (minus.c + plus.c) / 2;
        k(2 * p + 1, 2 * q + 1) = (minus.d + plus.d) / 2;
      }
    }
    for (Index p = 0; 2 * planes < n && p < planes; ++p) {
      const Block x = turned({k(2 * p, n - 1), Scalar(0), k(2 * p + 1, n - 1), Scalar(0)}, angles_[p]);
      k(2 * p, n - 1) = x.a;
      k(2 * p + 1, n - 1) = x.c;
    }
    for (Index j = 0; j < n; ++j) {
      k(j, j) = Scalar(0);
      for (Index i = 0; i < j; ++i) k(j, i) = -k(i, j);
    }
    product.setZero();
    detail::add_product(basis_, k, product);
    k.setZero();
    for (Index j = 0; j < n; ++j) {
      for (Index l = 0; l < n; ++l) {
        for (Index i = 0; i < n; ++i) k(i, j) += product(i, l) * basis_(j, l);
      }
    }
    return detail::skew_part<BivectorType>(Signature<N>(dimension()), k);
  }

 private:
  static constexpr int half_max = max_n - max_n / 2;
  using Half = Eigen::Matrix<Scalar, N == Dynamic ? Dynamic : half_max, N == Dynamic ? Dynamic : max_planes,
                             Eigen::ColMajor, half_max, max_planes>;
  using Column = Eigen::Matrix<Scalar, Dynamic, 1, Eigen::ColMajor, max_n, 1>;

  /// Room for three even (or odd) elements of n dimensions, a thread's own: the stack may be too small.
  static std::array<detail::Octets<Scalar, N>, 3>& octets(int n) {
    thread_local std::array<std::array<detail::Octets<Scalar, N>, 3>, N == Dynamic ? max_dimension + 1 : 1>
        room;
    auto& elements = room[N == Dynamic ? static_cast<std::size_t>(n) : 0];
    for (auto& element : elements) element.resize(detail::octet, n > 4 ? Index{1} << (n - 4) : 1);
    return elements;
  }

  /// The planes of the power iteration's parts: the longest column v of a part's skew matrix S, and S v.
  void iterate(const BivectorType& b) {
    PowerIteration<Scalar, N> iteration;
    iteration.compute(b);
    basis_.setIdentity(b.dimension(), b.dimension());
    angles_.setZero(b.dimension() / 2);
    for (Index p = 0; p < num_planes(); ++p) {
      const Basis skew = iteration.parts()[static_cast<std::size_t>(p)].to_skew_matrix();
      Index longest = 0;
      skew.colwise().squaredNorm().maxCoeff(&longest);
      const Column v = skew.col(longest).stableNormalized(), u = skew * v;
      angles_[p] = u.norm();
      set_orthogonal(2 * p, u);
      set_orthogonal(2 * p + 1, v);
    }
    if (dimension() % 2 == 1) set_orthogonal(dimension() - 1, Column::Zero(dimension()));
    sort_planes();
  }

  /// Column i of the basis becomes the part of v orthogonal to the columns before it, normalized; where none
  /// is left, that of a unit vector.
  void set_orthogonal(Index i, Column v) {
    const auto before = basis_.leftCols(i);
    for (Index k = -1; k < dimension(); ++k) {
      if (k >= 0) v = Column::Unit(dimension(), k);
      v.stableNormalize();
      for (int pass = 0; pass < 2; ++pass) v -= before * (before.transpose() * v).eval();
      if (v.norm() * Scalar(2 * max_n) > Scalar(1)) break;
    }
    basis_.col(i) = v.normalized();
  }

  /// Angles from the largest down, and none negative.
  void sort_planes() {
    for (Index p = 0; p < num_planes(); ++p) {
      Index largest = p;
      for (Index q = p + 1; q < num_planes(); ++q) {
        if (std::abs(angles_[q]) > std::abs(angles_[largest])) largest = q;
      }
      std::swap(angles_[p], angles_[largest]);
      const Scalar sign = angles_[p] < Scalar(0) ? Scalar(-1) : Scalar(1);
      angles_[p] *= sign;
      for (Index i = 0; i < dimension(); ++i) {
        std::swap(basis_(i, 2 * p), basis_(i, 2 * largest));
        std::swap(basis_(i, 2 * p + 1), basis_(i, 2 * largest + 1));
        basis_(i, 2 * p + 1) *= sign;
      }
    }
  }

  void check_plane(const char* who, Index p) const {
    if (p < 0 || p >= num_planes()) {
      detail::throw_invalid("InvariantDecomposition::", who, ": plane ", p, ", expected 0 <= p < ",
                            num_planes());
    }
  }

  Basis basis_;
  Angles angles_;
};

/// The planes and angles of b, by either method.
/// \throws std::domain_error where a coefficient is NaN or infinite.
template <std::floating_point Scalar, int N>
InvariantDecomposition<Scalar, N> invariant_decomposition(
    const Bivector<Scalar, N>& b, DecompositionMethod method = DecompositionMethod::exact) {
  return InvariantDecomposition<Scalar, N>(b, method);
}

}  // namespace rotorlin
