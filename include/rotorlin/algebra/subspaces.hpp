// SPDX-License-Identifier: MIT
/// \file
/// Blades as subspaces (their vectors, what two of them have in common, what they span together) and versors
/// as products of vectors, after Fontijne, Efficient Implementation of Geometric Algebra, 2007. Subspaces do
/// not depend on the metric: lengths and angles are here those of the coefficients.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "rotorlin/algebra/operations.hpp"

namespace rotorlin {

/// scale times the outer product (of a blade) or the geometric product (of a versor) of vectors, one a
/// column.
template <class Scalar, int N>
struct Factors {
  static constexpr int max_n = N == Dynamic ? max_dimension : N;
  using Vectors = Eigen::Matrix<Scalar, N, Dynamic, Eigen::ColMajor, max_n, max_n>;
  Scalar scale{1};
  Vectors vectors;  ///< n x number of factors
};

namespace detail {

/// The same coefficients in the Euclidean algebra of n vectors.
template <class A>
auto euclidean(const A& a) {
  using E = ElementOf<typename A::Scalar, A::static_dimension, 0, 0, A::part>;
  return E(Signature<A::static_dimension>(a.dimension()), a.coeffs());
}

/// Relative size of what counts as rounding.
template <class Scalar>
Scalar rounding_noise() {
  return Scalar(1024) * std::numeric_limits<Scalar>::epsilon();
}

/// v without its part in the first `count` columns of an orthonormal basis, by Gram and Schmidt, twice.
template <class Vectors, class V>
void orthogonalize(const Vectors& basis, Index count, V& v) {
  for (int pass = 0; pass < 2; ++pass) {
    for (Index j = 0; j < count; ++j) v -= basis.col(j).dot(v) * basis.col(j);
  }
}

/// The outer product of columns.
template <class M, class Vectors>
M outer_product_of(const typename M::SignatureType& algebra, const Vectors& vectors) {
  using V = typename ElementRebind<M>::template type<Part::vector>;
  M product = M::scalar(algebra, typename M::Scalar(1));
  for (Index j = 0; j < vectors.cols(); ++j) product = product ^ V(algebra, vectors.col(j));
  return product;
}

}  // namespace detail

/// b = scale f_1 ^ ... ^ f_k with vectors whose coefficients are orthonormal.
/// \throws std::invalid_argument where b is zero, not finite or no blade.
template <AlgebraElement B>
requires std::floating_point<typename B::Scalar> Factors<typename B::Scalar, B::static_dimension>
factorize_blade(const B& b) {
  using Scalar = typename B::Scalar;
  const Scalar largest = detail::largest_coefficient(b);
  if (!(largest > Scalar(0)) || !b.all_finite()) {
    detail::throw_invalid("factorize_blade: the element of ", b.signature(), " is zero or not finite");
  }
  const detail::MultivectorOf<B> all = b;
  const auto blade = detail::euclidean(all / largest);
  using M = std::remove_const_t<decltype(blade)>;
  const detail::Blades blades = blade.blades();
  Index first = 0;
  blade.coeffs().cwiseAbs().maxCoeff(&first);
  const unsigned mask = blades.mask[first];
  Factors<Scalar, B::static_dimension> factors;
  factors.vectors.resize(b.dimension(), std::popcount(mask));
  const Scalar square = blade.coeffs().squaredNorm();
  Index count = 0;
  for (int k = 0; k < b.dimension(); ++k) {
    if (((mask >> k) & 1u) == 0) continue;
    const auto e = M::blade(blade.signature(), 1u << k);
    auto v = left_contraction(left_contraction(e, blade), blade).vector_part().coeffs();
    v /= square;
    detail::orthogonalize(factors.vectors, count, v);
    const Scalar length = v.norm();
    if (length > Scalar(0)) v /= length;
    factors.vectors.col(count++) = v;
  }
  const M unit = detail::outer_product_of<M>(blade.signature(), factors.vectors);
  const Scalar scale = unit.coeffs().dot(blade.coeffs());
  const Scalar error = (scale * unit.coeffs() - blade.coeffs()).cwiseAbs().maxCoeff();
  if (!(error <= detail::rounding_noise<Scalar>())) {
    detail::throw_invalid("factorize_blade: the element of ", b.signature(),
                          " is not a blade; the nearest product of vectors leaves ", error,
                          " of its largest coefficient");
  }
  factors.scale = scale * largest;
  return factors;
}

/// The smallest subspace that has those of two blades in it, as a blade of unit coefficients: that of a
/// first, then what b adds to it. Directions of b that differ from a by less than `tolerance` (a sine) count
/// as a's. \throws std::invalid_argument as `factorize_blade` does.
template <AlgebraElement A, AlgebraElement B>
requires std::floating_point<typename A::Scalar> detail::MultivectorOf<A> join(
    const A& a, const B& b,
    typename A::Scalar tolerance = std::sqrt(std::numeric_limits<typename A::Scalar>::epsilon())) {
  a.check_same_algebra("join", b);
  using Scalar = typename A::Scalar;
  auto basis = factorize_blade(a);
  const auto added = factorize_blade(b);
  if (basis.scale < Scalar(0) && basis.vectors.cols() > 0) basis.vectors.col(0) *= Scalar(-1);
  for (Index j = 0; j < added.vectors.cols(); ++j) {
    auto v = added.vectors.col(j).eval();
    detail::orthogonalize(basis.vectors, basis.vectors.cols(), v);
    const Scalar length = v.norm();
    if (!(length > tolerance)) continue;
    basis.vectors.conservativeResize(Eigen::NoChange, basis.vectors.cols() + 1);
    basis.vectors.col(basis.vectors.cols() - 1) = v / length;
  }
  return detail::outer_product_of<detail::MultivectorOf<A>>(a.signature(), basis.vectors);
}

/// The subspace that two blades have in common: (b onto j^-1) onto a for their join j, so that a and b may be
/// scaled; a scalar where they have no direction in common.
/// \throws std::invalid_argument as `factorize_blade` does.
template <AlgebraElement A, AlgebraElement B>
requires std::floating_point<typename A::Scalar> detail::MultivectorOf<A> meet(
    const A& a, const B& b,
    typename A::Scalar tolerance = std::sqrt(std::numeric_limits<typename A::Scalar>::epsilon())) {
  using M = detail::MultivectorOf<A>;
  const auto j = detail::euclidean(join(a, b, tolerance));
  const auto left = detail::euclidean(M(a)), right = detail::euclidean(M(b));
  const auto common = left_contraction(left_contraction(right, j.reversed()), left);
  return {a.signature(), common.coeffs()};
}

/// v = scale v_1 v_2 ... v_k with unit coefficients of the vectors, for a versor of any signature: what is
/// divided off last is a vector of the highest grade that has an inverse.
/// \throws std::invalid_argument where v is zero, not finite, no versor, or its vectors are null.
template <AlgebraElement V>
requires std::floating_point<typename V::Scalar> Factors<typename V::Scalar, V::static_dimension>
factorize_versor(const V& versor) {
  using std::abs;
  using Scalar = typename V::Scalar;
  using M = detail::MultivectorOf<V>;
  using Vector = typename detail::ElementRebind<V>::template type<Part::vector>;
  const int n = versor.dimension();
  const Scalar largest = detail::largest_coefficient(versor);
  if (!(largest > Scalar(0)) || !versor.all_finite()) {
    detail::throw_invalid("factorize_versor: the element of ", versor.signature(), " is zero or not finite");
  }
  const Scalar noise = detail::rounding_noise<Scalar>();
  Factors<Scalar, V::static_dimension> factors;
  M rest = M(versor) / largest;
  for (int grade = largest_grade(rest, noise); grade > 0; --grade) {
    M top = rest.grade_part(grade);
    if (is_zero(top, noise)) continue;
    const auto basis = factorize_blade(top).vectors;
    Vector best(versor.signature());
    Scalar best_square(0);
    const auto offer = [&](const Vector& candidate) {
      const Vector unit = candidate / candidate.coeffs().norm();
      const Scalar square = abs(scalar_product(unit, unit));
      if (!(square > best_square * Scalar(1.01))) return;
      best = unit;
      best_square = square;
    };
    for (Index i = 0; i < basis.cols(); ++i) {
      offer(Vector(versor.signature(), basis.col(i)));
      for (Index j = 0; j < i; ++j) {
        offer(Vector(versor.signature(), basis.col(i) + basis.col(j)));
        offer(Vector(versor.signature(), basis.col(i) - basis.col(j)));
      }
    }
    if (!(best_square > noise)) {
      detail::throw_invalid("factorize_versor: the vectors of the highest grade, ", grade,
                            ", of the element of ", versor.signature(), " are null: they have no inverse");
    }
    rest = rest / best;
    factors.vectors.conservativeResize(n, factors.vectors.cols() + 1);
    factors.vectors.col(factors.vectors.cols() - 1) = best.coeffs();
  }
  const Scalar scale = rest.scalar_part();
  rest[0] = Scalar(0);
  if (!is_zero(rest, Scalar(noise * std::max(Scalar(1), abs(scale))))) {
    detail::throw_invalid("factorize_versor: the element of ", versor.signature(),
                          " is no versor; vectors divided off leave ", rest);
  }
  factors.vectors = factors.vectors.rowwise().reverse().eval();
  if (factors.vectors.cols() == 0) factors.vectors.resize(n, 0);
  factors.scale = scale * largest;
  return factors;
}

}  // namespace rotorlin
