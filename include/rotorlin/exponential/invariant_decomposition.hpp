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
#include <Eigen/Eigenvalues>
#include <Eigen/SVD>
#include <bit>
#include <cmath>
#include <concepts>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

namespace detail {

/// sin(x)/x, to full relative accuracy everywhere.
template <class Scalar>
Scalar sinc(Scalar x) {
  return x == Scalar(0) ? Scalar(1) : std::sin(x) / x;
}

inline constexpr int octet = 8;

/// An even (or odd) element in binary order: entry m >> 1 belongs to blade m, whose lowest bit follows from
/// its parity. Column h of eight rows holds the entries 8h .. 8h+7.
template <class Scalar, int N>
using Octets =
    Eigen::Matrix<Scalar, octet, N == Dynamic ? Dynamic : (N > 4 ? 1 << (N - 4) : 1), Eigen::ColMajor, octet,
                  N == Dynamic ? 1 << (max_dimension - 4) : (N > 4 ? 1 << (N - 4) : 1)>;

/// +1 or -1, by the number of set bits.
inline int parity_sign(unsigned mask) { return std::popcount(mask) & 1 ? -1 : 1; }

/// out = x * v for a vector v of n <= 14 coefficients. Entry j of the result takes v_k times entry j ^
/// 2^(k-1) (for k = 0: entry j), signed by the bits of j from k on. The bits within an octet make an 8 x 8
/// matrix.
template <class Scalar, int N, class V>
void multiply_by_vector(const Octets<Scalar, N>& x, const V& v, Octets<Scalar, N>& out) {
  const Index n = v.size();
  Eigen::Matrix<Scalar, octet, octet> low = Eigen::Matrix<Scalar, octet, octet>::Zero();
  for (unsigned j = 0; j < octet; ++j) {
    low(j, j) = Scalar(parity_sign(j)) * v[0];
    for (unsigned k = 1; k < 4 && k < n; ++k) {
      low(j, j ^ (1u << (k - 1))) = Scalar(parity_sign(j >> k)) * v[k];
    }
  }
  for (unsigned h = 0; h < x.cols(); ++h) {
    Eigen::Matrix<Scalar, octet, 1> sum;
    sum.noalias() = low.lazyProduct(x.col(h));
    sum *= Scalar(parity_sign(h));
    for (unsigned k = 4; k < n; ++k) {
      sum += (Scalar(parity_sign(h >> (k - 3))) * v[k]) * x.col(h ^ (1u << (k - 4)));
    }
    out.col(h) = sum;
  }
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
  static constexpr int max_n = N == Dynamic ? max_dimension : N;
  static constexpr int max_planes = max_n / 2;

 public:
  using BivectorType = Bivector<Scalar, N>;
  using RotorType = Rotor<Scalar, N>;
  using Basis = Eigen::Matrix<Scalar, N, N, Eigen::ColMajor, max_n, max_n>;
  using Angles = Eigen::Matrix<Scalar, N == Dynamic ? Dynamic : N / 2, 1, Eigen::ColMajor, max_planes, 1>;

  InvariantDecomposition() = default;
  explicit InvariantDecomposition(const BivectorType& b) { compute(b); }

  /// Decomposes b: Hessenberg form of the skew matrix, which is tridiagonal, T; with the even indices before
  /// the odd ones T = [0 B; -B^T 0], and the singular values of B are the angles. \throws std::domain_error
  /// where a coefficient is NaN or infinite.
  void compute(const BivectorType& b) {
    if (!b.all_finite()) {
      detail::throw_domain("InvariantDecomposition: the bivector of ", b.signature(),
                           " has coefficients that are NaN or infinite");
    }
    const Index n = b.dimension();
    basis_.setIdentity(n, n);
    angles_.setZero(n / 2);
    const Scalar scale = b.size() > 0 ? b.coeffs().cwiseAbs().maxCoeff() : Scalar(0);
    if (scale == Scalar(0)) return;

    const Basis skew = b.to_skew_matrix() / scale;
    Eigen::HessenbergDecomposition<Basis> hessenberg(skew);
    const Basis q = hessenberg.matrixQ();
    const Basis& packed = hessenberg.packedMatrix();
    Half bidiagonal = Half::Zero(n - n / 2, n / 2);
    for (Index i = 0; i + 1 < n; ++i) {
      if (i % 2 == 0) {
        bidiagonal(i / 2, i / 2) = -packed(i + 1, i);
      } else {
        bidiagonal(i / 2 + 1, i / 2) = packed(i + 1, i);
      }
    }
    Eigen::JacobiSVD<Half> svd(bidiagonal, Eigen::ComputeFullU | Eigen::ComputeFullV);
    angles_ = scale * svd.singularValues();
    basis_.setZero();
    for (Index p = 0; p < n - n / 2; ++p) {
      for (Index k = 0; k < n - n / 2; ++k) basis_.col(2 * p) += svd.matrixU()(k, p) * q.col(2 * k);
      if (p == n / 2) break;
      for (Index k = 0; k < n / 2; ++k) basis_.col(2 * p + 1) += svd.matrixV()(k, p) * q.col(2 * k + 1);
    }
  }

  int dimension() const { return static_cast<int>(basis_.rows()); }
  /// floor(n / 2).
  Index num_planes() const { return angles_.size(); }
  /// n x n, orthogonal. Columns 2p and 2p + 1 are u_p and v_p; for odd n the last column is the null vector.
  const Basis& basis() const { return basis_; }
  /// The angles, at least 0, descending.
  const Angles& angles() const { return angles_; }

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
    const Index octets = n > 4 ? Index{1} << (n - 4) : 1;
    detail::Octets<Scalar, N> r(detail::octet, octets), ru(detail::octet, octets), ruv(detail::octet, octets);
    r.setZero();
    r(0, 0) = Scalar(1);
    for (Index p = 0; p < num_planes(); ++p) {
      if (angles_[p] == Scalar(0)) continue;
      detail::multiply_by_vector<Scalar, N>(r, basis_.col(2 * p), ru);
      detail::multiply_by_vector<Scalar, N>(ru, basis_.col(2 * p + 1), ruv);
      r = std::cos(angles_[p]) * r + std::sin(angles_[p]) * ruv;
    }
    const detail::Blades even = detail::blades_of(Part::even, n);
    for (Index i = 0; i < even.size; ++i) even_coeffs[i] = r.data()[even.mask[i] >> 1];
  }

  /// phi(sign ad_b) h with phi(z) = (e^z - 1)/z and sign = +1 or -1, where b is the decomposed bivector. It
  /// maps a change h of b to the change of exp(b) (DESIGN section 3: in the basis, each 2 x 2 block of h is
  /// rotated by the sum and the difference of its angles and scaled by their sinc). No gap is divided by:
  /// exact at equal angles.
  BivectorType phi(const BivectorType& h, int sign) const {
    if (sign != 1 && sign != -1) {
      detail::throw_invalid("InvariantDecomposition::phi: sign = ", sign, ", expected +1 or -1");
    }
    if (h.dimension() != dimension()) {
      detail::throw_invalid("InvariantDecomposition::phi: bivector of ", h.signature(),
                            ", expected one of Cl(", dimension(), ")");
    }
    using Block = Eigen::Matrix<Scalar, 2, 2>;
    const Block turn{{Scalar(0), Scalar(1)}, {Scalar(-1), Scalar(0)}};
    const auto scaled_rotation = [&](Scalar angle) {
      const Block rotation = std::cos(angle) * Block::Identity() + Scalar(sign) * std::sin(angle) * turn;
      return Block(detail::sinc(angle) * rotation);
    };
    Basis product, k;
    product.noalias() = h.to_skew_matrix().lazyProduct(basis_);
    k.noalias() = basis_.transpose().lazyProduct(product);
    for (Index q = 0; q < num_planes(); ++q) {
      for (Index p = 0; p < q; ++p) {
        const Block block = k.template block<2, 2>(2 * p, 2 * q);
        const Block turned = turn * block * turn;
        k.template block<2, 2>(2 * p, 2 * q) =
            Scalar(0.5) * (scaled_rotation(angles_[p] - angles_[q]) * (block - turned) +
                           scaled_rotation(angles_[p] + angles_[q]) * (block + turned));
      }
    }
    const Index null = 2 * num_planes();
    for (Index p = 0; null < dimension() && p < num_planes(); ++p) {
      const Eigen::Matrix<Scalar, 2, 1> column = k.template block<2, 1>(2 * p, null);
      k.template block<2, 1>(2 * p, null) = scaled_rotation(angles_[p]) * column;
    }
    k.template triangularView<Eigen::StrictlyLower>() = -k.transpose();
    product.noalias() = basis_.lazyProduct(k);
    k.noalias() = product.lazyProduct(basis_.transpose());
    return BivectorType::from_skew_matrix(Signature<N>(dimension()), k);
  }

 private:
  static constexpr int half_max = max_n - max_n / 2;
  using Half = Eigen::Matrix<Scalar, N == Dynamic ? Dynamic : half_max, N == Dynamic ? Dynamic : max_planes,
                             Eigen::ColMajor, half_max, max_planes>;

  void check_plane(const char* who, Index p) const {
    if (p < 0 || p >= num_planes()) {
      detail::throw_invalid("InvariantDecomposition::", who, ": plane ", p, ", expected 0 <= p < ",
                            num_planes());
    }
  }

  Basis basis_;
  Angles angles_;
};

}  // namespace rotorlin
