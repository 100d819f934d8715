// SPDX-License-Identifier: MIT
/// \file
/// The products. The geometric product is bilinear and takes blade a times blade b to +-1 or 0 times blade a
/// xor b; every other product keeps some of its terms:
///
///     geometric_product     a * b   all
///     outer_product         a ^ b   a and b have no factor in common
///     left_contraction              the factors of a are among those of b
///     right_contraction             the factors of b are among those of a
///     inner_product         a | b   either: <a b> of grade |s - t| for grades s and t, scalars included
///     commutator_product            a and b anticommute: (a b - b a) / 2
///     scalar_product                a = b: <a b>_0, a Scalar
///
/// (Hestenes' inner product is inner_product without the scalars.) The operators ^ and | bind more weakly
/// than in mathematics: write parentheses. Operands of different algebras are an error of compilation where
/// the type says so, else std::invalid_argument.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "rotorlin/algebra/element.hpp"
#include "rotorlin/algebra/lane_product.hpp"
#include "rotorlin/algebra/matrix_product.hpp"

namespace rotorlin {

/// The bilinear products of an algebra, each a sum over pairs of blades.
enum class Product { geometric, outer, left_contraction, right_contraction, inner, commutator, scalar };

namespace detail {

/// Whether `product` has the term blade a times blade b.
template <Product product>
constexpr bool has_term(unsigned a, unsigned b) {
  switch (product) {
    case Product::outer:
      return (a & b) == 0;
    case Product::left_contraction:
      return (a & ~b) == 0;
    case Product::right_contraction:
      return (b & ~a) == 0;
    case Product::inner:
      return (a & ~b) == 0 || (b & ~a) == 0;
    case Product::commutator:
      return ((std::popcount(a) * std::popcount(b) - std::popcount(a & b)) & 1) != 0;
    case Product::scalar:
      return a == b;
    case Product::geometric:
      break;
  }
  return true;
}

/// What a product of two parts is known to lie in, where that has a type of its own.
constexpr Part product_part(Product product, Part a, Part b) {
  const bool vectors = a == Part::vector && b == Part::vector;
  const bool with_bivector = a == Part::bivector || b == Part::bivector;
  const bool with_vector = a == Part::vector || b == Part::vector;
  const bool bivectors = a == Part::bivector && b == Part::bivector;
  switch (product) {
    case Product::geometric:
      return a == Part::even && b == Part::even ? Part::even : Part::all;
    case Product::outer:
      return vectors ? Part::bivector : Part::all;
    case Product::left_contraction:
      return a == Part::vector && b == Part::bivector ? Part::vector : Part::all;
    case Product::right_contraction:
      return a == Part::bivector && b == Part::vector ? Part::vector : Part::all;
    case Product::inner:
      return with_vector && with_bivector ? Part::vector : Part::all;
    case Product::commutator:
      return bivectors || vectors ? Part::bivector : with_bivector && with_vector ? Part::vector : Part::all;
    case Product::scalar:
      break;
  }
  return Part::all;
}

template <class Scalar, int P, int Q, int R, Part part>
using ElementOf = std::conditional_t<
    part == Part::all, Multivector<Scalar, P, Q, R>,
    std::conditional_t<
        part == Part::even, Rotor<Scalar, P, Q, R>,
        std::conditional_t<part == Part::bivector, Bivector<Scalar, P, Q, R>, Vector<Scalar, P, Q, R>>>>;

template <class T>
struct ElementRebind;
template <template <class, int, int, int> class E, class Scalar, int P, int Q, int R>
struct ElementRebind<E<Scalar, P, Q, R>> {
  template <Part part>
  using type = ElementOf<Scalar, P, Q, R, part>;
};

/// c += sign a b, without making use of more than the scalar's own operators.
template <int sign, class Scalar>
void add_term(Scalar& c, const Scalar& a, const Scalar& b) {
  if constexpr (sign > 0) {
    c += a * b;
  } else if constexpr (sign < 0) {
    c -= a * b;
  }
}

// ---- products of few terms: signs and positions are compiled in

/// The terms of a product sorted by the coefficient of the result that they add to: those of coefficient k
/// are terms[first[k]] ... terms[first[k + 1] - 1].
template <std::size_t Terms, std::size_t Targets>
struct TermTable {
  struct Term {
    int sign = 0;
    std::uint16_t a = 0;
    std::uint16_t b = 0;
  };
  std::array<Term, Terms> terms{};
  std::array<std::size_t, Targets + 1> first{};
};

template <Product product, class Algebra, Part A, Part B, Part C>
inline constexpr auto product_terms = [] {
  constexpr int n = Algebra::static_dimension;
  constexpr auto& a = part_masks<n, A>;
  constexpr auto& b_positions = part_positions<n, B>;
  constexpr auto& c = part_masks<n, C>;
  TermTable<a.size() * std::min(part_masks<n, B>.size(), c.size()), c.size()> table{};
  std::size_t count = 0;
  for (std::size_t k = 0; k < c.size(); ++k) {
    table.first[k] = count;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const unsigned blade = a[i] ^ c[k];
      if (!part_contains(B, blade) || !has_term<product>(a[i], blade)) continue;
      const int sign = Algebra{}.product_sign(a[i], blade);
      if (sign != 0) table.terms[count++] = {sign, static_cast<std::uint16_t>(i), b_positions[blade]};
    }
  }
  table.first[c.size()] = count;
  return table;
}();

template <const auto& table, std::size_t first, class Scalar, std::size_t... Term>
ROTORLIN_INLINE Scalar sum_terms(const Scalar* a, const Scalar* b, std::index_sequence<Term...>) {
  Scalar sum = a[table.terms[first].a] * b[table.terms[first].b];
  if constexpr (table.terms[first].sign < 0) sum = Scalar(-sum);
  (add_term<table.terms[first + 1 + Term].sign>(sum, a[table.terms[first + 1 + Term].a],
                                                b[table.terms[first + 1 + Term].b]),
   ...);
  return sum;
}

template <const auto& table, std::size_t k, class Scalar>
ROTORLIN_INLINE Scalar sum_terms([[maybe_unused]] const Scalar* a, [[maybe_unused]] const Scalar* b) {
  constexpr std::size_t first = table.first[k], count = table.first[k + 1] - first;
  if constexpr (count == 0) {
    return Scalar(0);
  } else {
    return sum_terms<table, first, Scalar>(a, b, std::make_index_sequence<count - 1>{});
  }
}

/// c = a b, summed before anything is written: the compiler need not ask whether c is a or b.
template <const auto& table, class Scalar, std::size_t... Target>
ROTORLIN_INLINE void multiply_unrolled(const Scalar* a, const Scalar* b, Scalar* c,
                                       std::index_sequence<Target...>) {
  const Scalar sums[sizeof...(Target)] = {sum_terms<table, Target, Scalar>(a, b)...};
  ((c[Target] = sums[Target]), ...);
}

/// Whether the terms of a product of a static algebra are few enough to be written out.
template <class Algebra, Part A, Part B>
inline constexpr bool has_few_terms = [] {
  constexpr int n = Algebra::static_dimension;
  return n >= 0 && n <= 6 && part_size(A, n) * part_size(B, n) <= 1024;
}();

/// c = the part C of the product of a and b in a static algebra of few terms.
template <Product product, class Algebra, Part A, Part B, Part C, class Scalar>
void multiply_static(const Scalar* a, const Scalar* b, Scalar* c) {
  if constexpr (product == Product::geometric && multiplies_lanes<Scalar, Algebra, A, B>) {
    lane_product<Algebra, A, B, C>(a, b, c);
  } else if constexpr (part_size(C, Algebra::static_dimension) > 0) {
    multiply_unrolled<product_terms<product, Algebra, A, B, C>, Scalar>(
        a, b, c,
        std::make_index_sequence<static_cast<std::size_t>(part_size(C, Algebra::static_dimension))>{});
  }
}

/// body(Signature<n>), which returns a bool, for a Euclidean algebra of 3 to 5 vectors that is known at run
/// time; false for others.
template <int P, int Q, int R, class Body>
bool with_static_algebra(const Signature<P, Q, R>& algebra, Body body) {
  if constexpr (!Signature<P, Q, R>::is_never_euclidean) {
    if (!algebra.is_euclidean()) return false;
    switch (algebra.n()) {
      case 3:
        return body(Signature<3>{});
      case 4:
        return body(Signature<4>{});
      case 5:
        return body(Signature<5>{});
      default:
        break;
    }
  }
  return false;
}

// ---- products at run time

/// c += the part C of the product of a and b, given by their coefficients: what all products of large or
/// run-time n come to, and the place for a faster one. Loops over the blades of a and over those of b or of
/// c, whichever are fewer.
template <Product product, Part A, Part B, Part C, class Scalar, int P, int Q, int R>
void multiply(const Signature<P, Q, R>& algebra, const Scalar* a, const Scalar* b, Scalar* c) {
  constexpr int N = Signature<P, Q, R>::static_dimension;
  const Blades blades_a = blades_of<A, N>(algebra.n());
  const Blades blades_b = blades_of<B, N>(algebra.n());
  const Blades blades_c = blades_of<C, N>(algebra.n());
  constexpr bool over_b = part_size(B, max_dimension) <= part_size(C, max_dimension);
  const Blades& inner = over_b ? blades_b : blades_c;
  for (Index i = 0; i < blades_a.size; ++i) {
    const unsigned blade_a = blades_a.mask[i];
    const unsigned flips = crossing_mask(blade_a) ^ (blade_a & algebra.negative_mask());
    for (Index j = 0; j < inner.size; ++j) {
      const unsigned other = blade_a ^ inner.mask[j];
      const unsigned blade_b = over_b ? inner.mask[j] : other;
      if (!part_contains(over_b ? C : B, other) || !has_term<product>(blade_a, blade_b)) continue;
      if (R != 0 && (blade_a & blade_b & algebra.null_mask()) != 0) continue;
      const Scalar& factor = over_b ? b[j] : b[blades_b.index[other] - blades_b.first];
      Scalar& sum = over_b ? c[blades_c.index[other] - blades_c.first] : c[j];
      const bool negative = std::popcount(blade_b & flips) & 1;
      if constexpr (std::is_arithmetic_v<Scalar>) {
        sum += Scalar(negative ? -1 : 1) * a[i] * factor;
      } else if (negative) {
        sum -= a[i] * factor;
      } else {
        sum += a[i] * factor;
      }
    }
  }
}

/// The part `C` of a product.
template <Product product, Part C, class A, class B>
auto product_part_of(const char* name, const A& a, const B& b) {
  a.check_same_algebra(name, b);
  using Scalar = typename A::Scalar;
  using Algebra = typename A::SignatureType;
  typename ElementRebind<A>::template type<C> c(Uninitialized{}, a.signature());
  if constexpr (has_few_terms<Algebra, A::part, B::part>) {
    multiply_static<product, Algebra, A::part, B::part, C>(a.coeffs().data(), b.coeffs().data(),
                                                           c.coeffs().data());
  } else {
    constexpr bool wide = (A::part == Part::all || A::part == Part::even) &&
                          (B::part == Part::all || B::part == Part::even) && product == Product::geometric &&
                          std::is_floating_point_v<Scalar>;
    if constexpr (wide && !Algebra::is_static && has_vectors<Scalar>) {
      if (with_static_algebra(a.signature(), [&](auto algebra) {
            // few registers: code of moderate size
            constexpr bool small = (1 << decltype(algebra)::static_dimension) <= 4 * native_lanes<Scalar>;
            if constexpr (small) {
              multiply_static<product, decltype(algebra), A::part, B::part, C>(
                  a.coeffs().data(), b.coeffs().data(), c.coeffs().data());
            }
            return small;
          })) {
        return c;
      }
    }
    if constexpr (wide && Algebra::is_always_euclidean && C == product_part(product, A::part, B::part)) {
      if (a.dimension() >= matrix_product_from) {
        matrix_product<A::part, B::part>(a.dimension(), a.coeffs().data(), b.coeffs().data(),
                                         c.coeffs().data());
        return c;
      }
    }
    c.set_zero();
    multiply<product, A::part, B::part, C>(a.signature(), a.coeffs().data(), b.coeffs().data(),
                                           c.coeffs().data());
  }
  return c;
}

template <Product product, class A, class B>
auto product_of(const char* name, const A& a, const B& b) {
  return product_part_of<product, product_part(product, A::part, B::part)>(name, a, b);
}

}  // namespace detail

/// a b. A Rotor where both are; otherwise a Multivector.
template <AlgebraElement A, AlgebraElement B>
auto geometric_product(const A& a, const B& b) {
  return detail::product_of<Product::geometric>("geometric_product", a, b);
}
/// a ^ b, the part of a b of grade s + t. A Bivector for two vectors.
template <AlgebraElement A, AlgebraElement B>
auto outer_product(const A& a, const B& b) {
  return detail::product_of<Product::outer>("outer_product", a, b);
}
/// a onto b, the part of a b of grade t - s. A Vector for a vector and a bivector: the row vector a^T A_b.
template <AlgebraElement A, AlgebraElement B>
auto left_contraction(const A& a, const B& b) {
  return detail::product_of<Product::left_contraction>("left_contraction", a, b);
}
/// a by b, the part of a b of grade s - t.
template <AlgebraElement A, AlgebraElement B>
auto right_contraction(const A& a, const B& b) {
  return detail::product_of<Product::right_contraction>("right_contraction", a, b);
}
/// a | b, the part of a b of grade |s - t|; the grade may be 0 or s or t.
template <AlgebraElement A, AlgebraElement B>
auto inner_product(const A& a, const B& b) {
  return detail::product_of<Product::inner>("inner_product", a, b);
}
/// (a b - b a) / 2: half of ad_a(b) = [a, b]. With a bivector a the grades of b are kept.
template <AlgebraElement A, AlgebraElement B>
auto commutator_product(const A& a, const B& b) {
  return detail::product_of<Product::commutator>("commutator_product", a, b);
}
/// <a b>_0.
template <AlgebraElement A, AlgebraElement B>
typename A::Scalar scalar_product(const A& a, const B& b) {
  a.check_same_algebra("scalar_product", b);
  const detail::Blades blades_a = a.blades(), blades_b = b.blades();
  typename A::Scalar sum(0);
  for (Index i = 0; i < blades_a.size; ++i) {
    const unsigned blade = blades_a.mask[i];
    const int sign = a.signature().product_sign(blade, blade);
    if (sign == 0 || !detail::part_contains(B::part, blade)) continue;
    const auto& factor = b[blades_b.index[blade] - blades_b.first];
    if (sign > 0) {
      sum += a[i] * factor;
    } else {
      sum -= a[i] * factor;
    }
  }
  return sum;
}

template <AlgebraElement A, AlgebraElement B>
auto operator*(const A& a, const B& b) {
  return geometric_product(a, b);
}
template <AlgebraElement A, AlgebraElement B>
auto operator^(const A& a, const B& b) {
  return outer_product(a, b);
}
template <AlgebraElement A, AlgebraElement B>
auto operator|(const A& a, const B& b) {
  return inner_product(a, b);
}

/// Sums of elements of different types are multivectors.
template <AlgebraElement A, AlgebraElement B>
requires(A::part != B::part) auto operator+(const A& a, const B& b) {
  a.check_same_algebra("operator+", b);
  using Sum = typename detail::ElementRebind<A>::template type<Part::all>;
  return Sum(a) + Sum(b);
}
template <AlgebraElement A, AlgebraElement B>
requires(A::part != B::part) auto operator-(const A& a, const B& b) {
  a.check_same_algebra("operator-", b);
  using Sum = typename detail::ElementRebind<A>::template type<Part::all>;
  return Sum(a) - Sum(b);
}

}  // namespace rotorlin
