// SPDX-License-Identifier: MIT
/// \file
/// What is made of products: quotients and sums with scalars, norms as questions, the regressive product,
/// projections, the action of versors, and linear maps on all grades. Blades as subspaces: subspaces.hpp.
#pragma once

#include <cmath>
#include <type_traits>
#include <vector>

#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/algebra/versor.hpp"

namespace rotorlin {

namespace detail {

template <class A>
using MultivectorOf = typename ElementRebind<A>::template type<Part::all>;

/// The smallest type that holds an element and a scalar.
template <class A>
using WithScalar = typename ElementRebind<A>::template type<A::part == Part::vector     ? Part::all
                                                            : A::part == Part::bivector ? Part::even
                                                                                        : A::part>;

/// The largest coefficient, NaN where one is.
template <class A>
typename A::Scalar largest_coefficient(const A& a) {
  using std::abs;
  typename A::Scalar largest(0);
  for (Index i = 0; i < a.size(); ++i) {
    const typename A::Scalar size = abs(a[i]);
    if (size > largest || size != size) largest = size;
  }
  return largest;
}

}  // namespace detail

/// a / b = a b^-1 for a versor b.
/// \throws std::invalid_argument as `inverse` does.
template <AlgebraElement A, AlgebraElement B>
auto operator/(const A& a, const B& b) {
  return a * inverse(b);
}

/// Scalar plus element: a Rotor for a bivector, a Multivector for a vector.
template <AlgebraElement A>
auto operator+(const A& a, const std::type_identity_t<typename A::Scalar>& scalar) {
  auto sum = a.template projected<detail::WithScalar<A>>();
  sum[0] += scalar;
  return sum;
}
template <AlgebraElement A>
auto operator+(const std::type_identity_t<typename A::Scalar>& scalar, const A& a) {
  return a + scalar;
}
template <AlgebraElement A>
auto operator-(const A& a, const std::type_identity_t<typename A::Scalar>& scalar) {
  return a + typename A::Scalar(-scalar);
}
template <AlgebraElement A>
auto operator-(const std::type_identity_t<typename A::Scalar>& scalar, const A& a) {
  return -a + scalar;
}

/// Whether no coefficient is larger than `tolerance`.
template <AlgebraElement A>
bool is_zero(const A& a, const typename A::Scalar& tolerance = typename A::Scalar(0)) {
  return detail::largest_coefficient(a) <= tolerance;
}
/// Whether |<a a~>_0| = 1, to `tolerance`.
template <AlgebraElement A>
bool is_unit(const A& a,
             const typename A::Scalar& tolerance = typename A::Scalar(64) *
                                                   Eigen::NumTraits<typename A::Scalar>::epsilon()) {
  using std::abs;
  const typename A::Scalar deviation = abs(a.squared_norm());
  const typename A::Scalar difference = abs(deviation - typename A::Scalar(1));
  return difference <= tolerance;
}
/// Whether <a a~>_0 = 0, to `tolerance` times the sum of the squared coefficients. Zero is null.
template <AlgebraElement A>
bool is_null(const A& a,
             const typename A::Scalar& tolerance = typename A::Scalar(64) *
                                                   Eigen::NumTraits<typename A::Scalar>::epsilon()) {
  using std::abs;
  const typename A::Scalar largest = detail::largest_coefficient(a);
  if (largest == typename A::Scalar(0)) return true;
  const A scaled = a / largest;
  typename A::Scalar sum(0);
  for (Index i = 0; i < scaled.size(); ++i) sum += scaled[i] * scaled[i];
  const typename A::Scalar square = abs(scaled.squared_norm());
  return square <= tolerance * sum;
}
/// The largest grade with a coefficient above `tolerance`; -1 where there is none.
template <AlgebraElement A>
int largest_grade(const A& a, const typename A::Scalar& tolerance = typename A::Scalar(0)) {
  using std::abs;
  const detail::Blades blades = a.blades();
  int grade = -1;
  for (Index i = 0; i < a.size(); ++i) {
    const typename A::Scalar size = abs(a[i]);
    if (!(size <= tolerance)) grade = std::max(grade, std::popcount(unsigned{blades.mask[i]}));
  }
  return grade;
}

/// Hestenes' inner product: the inner product without the scalar parts of its factors.
template <AlgebraElement A, AlgebraElement B>
auto hestenes_product(const A& a, const B& b) {
  A left = a;
  B right = b;
  if constexpr (A::part == Part::all || A::part == Part::even) left[0] = typename A::Scalar(0);
  if constexpr (B::part == Part::all || B::part == Part::even) right[0] = typename A::Scalar(0);
  return inner_product(left, right);
}

/// The left complement: linear, with left_complement(e) ^ e = I for every basis blade e, and the inverse of
/// `complement`.
template <AlgebraElement A>
auto left_complement(const A& a) {
  using Scalar = typename A::Scalar;
  detail::MultivectorOf<A> result(a.signature());
  const detail::Blades from = a.blades(), to = result.blades();
  const unsigned all = (1u << a.dimension()) - 1u;
  for (Index i = 0; i < from.size; ++i) {
    const unsigned blade = from.mask[i];
    result[to.index[all ^ blade]] = reorder_sign(all ^ blade, blade) > 0 ? a[i] : Scalar(-a[i]);
  }
  return result;
}

/// The regressive product a & b, of grade s + t - n: complement(a & b) = complement(a) ^ complement(b). It
/// does not use the metric and is for degenerate algebras too. In projective geometry, where vectors are
/// planes, a ^ b is where they meet and a & b joins points to lines and planes.
template <AlgebraElement A, AlgebraElement B>
auto regressive_product(const A& a, const B& b) {
  a.check_same_algebra("regressive_product", b);
  return left_complement(outer_product(complement(a), complement(b)));
}
template <AlgebraElement A, AlgebraElement B>
auto operator&(const A& a, const B& b) {
  return regressive_product(a, b);
}

/// The part of x in the subspace of an invertible blade b: (x onto b^-1) onto b.
/// \throws std::invalid_argument as `inverse` does.
template <AlgebraElement X, AlgebraElement B>
X projection(const X& x, const B& b) {
  return left_contraction(left_contraction(x, inverse(b)), b).template projected<X>();
}
/// x - projection(x, b); for a vector, the part at right angles to b.
template <AlgebraElement X, AlgebraElement B>
X rejection(const X& x, const B& b) {
  return x - projection(x, b);
}

/// The action of a versor, even or odd: v x v^-1, and of an odd one v x' v^-1, where x' is the grade
/// involution of x. A vector v reflects in the hyperplane at right angles to v; products act one after the
/// other.
/// \throws std::invalid_argument where v has even and odd parts, and as `inverse` does.
template <AlgebraElement V, AlgebraElement X>
X versor_action(const V& v, const X& x) {
  v.check_same_algebra("versor_action", x);
  bool odd = V::part == Part::vector;
  if constexpr (V::part == Part::all) {
    const typename V::Scalar size = detail::largest_coefficient(v);
    const V involuted = v.involuted();
    const typename V::Scalar noise = typename V::Scalar(64) * Eigen::NumTraits<typename V::Scalar>::epsilon();
    odd = is_zero(V(v + involuted), typename V::Scalar(noise * size));
    if (!odd && !is_zero(V(v - involuted), typename V::Scalar(noise * size))) {
      detail::throw_invalid("versor_action: the element of ", v.signature(),
                            " has even and odd parts, expected a versor");
    }
  }
  const X image = odd ? x.involuted() : x;
  return ((v * image) * inverse(v)).template projected<X>();
}

namespace detail {

/// f of the coefficients, in binary order, of the blades of the vectors from `first` on: x = x_0 + e x_1 with
/// e = e_first goes to f(x_0) + f(e) ^ f(x_1).
template <class Scalar, class M>
std::vector<Scalar> outermorphism_from(const M& map, int n, int first, const Scalar* x) {
  const std::size_t size = std::size_t{1} << n;
  std::vector<Scalar> result(size, Scalar(0));
  if (first == n) {
    result[0] = x[0];
    return result;
  }
  const std::size_t rest = std::size_t{1} << (n - first - 1);
  std::vector<Scalar> without(rest), with(rest);
  bool any = false;
  for (std::size_t i = 0; i < rest; ++i) {
    without[i] = x[2 * i];
    with[i] = x[2 * i + 1];
    any = any || !(with[i] == Scalar(0));
  }
  result = outermorphism_from<Scalar>(map, n, first + 1, without.data());
  if (!any) return result;
  const std::vector<Scalar> image = outermorphism_from<Scalar>(map, n, first + 1, with.data());
  for (int k = 0; k < n; ++k) {
    const unsigned vector = 1u << k;
    for (unsigned blade = 0; blade < size; ++blade) {
      if ((blade & vector) != 0) continue;
      const Scalar term = map(k, first) * image[blade];
      if (reorder_sign(vector, blade) > 0) {
        result[blade | vector] += term;
      } else {
        result[blade | vector] -= term;
      }
    }
  }
  return result;
}

}  // namespace detail

/// A linear map of vectors on all grades: f(a ^ b) = f(a) ^ f(b), f(1) = 1, f(I) = det(f) I. Column j of the
/// n x n matrix is the image of e_j.
/// \throws std::invalid_argument where the matrix is not n x n.
template <class M, AlgebraElement X>
X outermorphism(const Eigen::MatrixBase<M>& map, const X& x) {
  using Scalar = typename X::Scalar;
  const int n = x.dimension();
  if (map.rows() != n || map.cols() != n) {
    detail::throw_invalid("outermorphism: matrix of ", detail::shape(map), " on an element of ",
                          x.signature(), ", expected ", n, " x ", n);
  }
  const auto& matrix = map.derived().eval();
  const detail::Blades blades = x.blades();
  std::vector<Scalar> coeffs(std::size_t{1} << n, Scalar(0));
  for (Index i = 0; i < x.size(); ++i) coeffs[blades.mask[i]] = x[i];
  const std::vector<Scalar> image = detail::outermorphism_from<Scalar>(matrix, n, 0, coeffs.data());
  X result(x.signature());
  for (Index i = 0; i < x.size(); ++i) result[i] = image[blades.mask[i]];
  return result;
}

}  // namespace rotorlin
