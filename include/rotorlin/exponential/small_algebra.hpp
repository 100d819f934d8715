// SPDX-License-Identifier: MIT
/// \file
/// Even elements of at most five dimensions in any signature: a number, a bivector b and a part of grade 4,
/// q. Squares of bivectors, b^2 = s + q, and everything made of them add and multiply like numbers s + t q
/// with q^2 = m, a number (Study's numbers for Cl(3, 0, 1), where m = 0): that is what makes closed forms of
/// exp and log. Here are the products that they need, on plain arrays of coefficients in graded order, with
/// every sign known at compile time, and the metric too where the type says it.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <utility>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/algebra/element.hpp"
#include "rotorlin/algebra/products.hpp"
#include "rotorlin/algebra/signature.hpp"
#include "rotorlin/core/simd.hpp"

namespace rotorlin::detail {

/// The product of the squares of a blade's factors.
template <class Algebra>
constexpr int metric_of(const Algebra& algebra, unsigned blade) {
  if (blade & algebra.null_mask()) return 0;
  return std::popcount(blade & algebra.negative_mask()) & 1 ? -1 : 1;
}

/// x times the metric of a blade; a constant 0 where the type says so.
template <unsigned blade, class Algebra, class Scalar>
ROTORLIN_INLINE Scalar with_metric(const Algebra& algebra, const Scalar& x) {
  if constexpr (Algebra::is_static) {
    constexpr int sign = metric_of(Algebra{}, blade);
    if constexpr (sign == 0) return Scalar(0);
    return sign > 0 ? x : -x;
  } else {
    return Scalar(metric_of(algebra, blade)) * x;
  }
}

/// A sum of products. Where it may cancel down to a part of its terms that counts (the square of a conformal
/// translator and a small turn, say) it is kept in twice the precision: by an error term that every product
/// and sum leaves (Ogita, Rump, Oishi 2005, Dot2).
template <class Scalar, bool cancels>
class ProductSum {
 public:
  template <int sign>
  ROTORLIN_INLINE void add(const Scalar& a, const Scalar& b) {
    if constexpr (sign == 0) return;
    const Scalar product = sign > 0 ? a * b : -a * b;
    if constexpr (cancels) {
      const Scalar product_error = std::fma(sign > 0 ? a : -a, b, -product);
      const Scalar sum = sum_ + product, back = sum - sum_;
      error_ += ((sum_ - (sum - back)) + (product - back)) + product_error;
      sum_ = sum;
    } else {
      sum_ += product;
    }
  }
  ROTORLIN_INLINE Scalar value() const { return sum_ + error_; }

 private:
  Scalar sum_{0}, error_{0};
};

/// What the functions of even elements of N <= 5 dimensions are made of.
template <int N, class Algebra, class Scalar>
class SmallAlgebra {
  static_assert(N >= 0 && N <= 5);

 public:
  static constexpr std::size_t bivectors = static_cast<std::size_t>(N * (N - 1) / 2);
  static constexpr std::size_t quadvectors = N == 4 ? 1 : N == 5 ? 5 : 0;
  using Bivector = std::array<Scalar, bivectors>;
  using Quadvector = std::array<Scalar, quadvectors>;  ///< the part of grade 4

  explicit SmallAlgebra(const Algebra& given) : algebra(given) {}

  const Algebra algebra;

  /// Whether all basis vectors square to +1, or all to -1: no square of a bivector cancels.
  constexpr bool is_definite() const { return algebra.r() == 0 && (algebra.p() == 0 || algebra.q() == 0); }

  /// <b^2>_0.
  Scalar square(const Bivector& b) const {
    return metric_sum<bivectors>([&](auto i) ROTORLIN_INLINE_LAMBDA { return -b[i]; }, b,
                                 [](auto i) { return bivector_mask(i); });
  }
  /// q^2.
  Scalar quad_square(const Quadvector& q) const { return dot(q, q); }
  /// <q p>_0.
  Scalar dot(const Quadvector& q, const Quadvector& p) const {
    return metric_sum<quadvectors>([&](auto k) ROTORLIN_INLINE_LAMBDA { return q[k]; }, p,
                                   [](auto k) { return quadvector_mask(k); });
  }

  /// b ^ b = <b^2>_4.
  Quadvector wedge_square(const Bivector& b) const {
    Quadvector q{};
    each<quadvectors>([&](auto k) ROTORLIN_INLINE_LAMBDA {
      each<bivectors>([&](auto i) ROTORLIN_INLINE_LAMBDA {
        each<bivectors>([&](auto j) ROTORLIN_INLINE_LAMBDA {
          constexpr unsigned a = bivector_mask(i), c = bivector_mask(j);
          if constexpr (i < j && (a & c) == 0 && (a | c) == quadvector_mask(k)) {
            add_term<reorder_sign(a, c)>(q[k], b[i], b[j]);
          }
        });
      });
    });
    for (Scalar& x : q) x *= Scalar(2);
    return q;
  }

  /// <q b>_2, which is q b for a b that commutes with q.
  Bivector times(const Quadvector& q, const Bivector& b) const {
    Bivector product{};
    each<quadvectors>([&](auto k) ROTORLIN_INLINE_LAMBDA {
      each<bivectors>([&](auto i) ROTORLIN_INLINE_LAMBDA {
        constexpr unsigned a = quadvector_mask(k), c = bivector_mask(i);
        if constexpr ((a & c) == c) {
          constexpr std::size_t target = bivector_index(a ^ c);
          product[target] += with_metric<c>(algebra, Scalar(reorder_sign(a, c)) * q[k] * b[i]);
        }
      });
    });
    return product;
  }

  /// <q b>_4 = (q b - b q)/2, zero for a rotor.
  Quadvector commutator(const Quadvector& q, const Bivector& b) const {
    Quadvector product{};
    each<quadvectors>([&](auto k) ROTORLIN_INLINE_LAMBDA {
      each<bivectors>([&](auto i) ROTORLIN_INLINE_LAMBDA {
        constexpr unsigned a = quadvector_mask(k), c = bivector_mask(i);
        if constexpr (std::popcount(a & c) == 1) {
          constexpr std::size_t target = quadvector_index(a ^ c);
          product[target] += with_metric<a & c>(algebra, Scalar(reorder_sign(a, c)) * q[k] * b[i]);
        }
      });
    });
    return product;
  }

  static constexpr unsigned bivector_mask(std::size_t i) { return part_masks<N, Part::even>[1 + i]; }
  static constexpr unsigned quadvector_mask(std::size_t k) {
    return part_masks<N, Part::even>[1 + bivectors + k];
  }

 private:
  // Numbers of one type, and cancelling sums in twice the precision; the rest costs nothing of it.
  static constexpr bool may_cancel =
      std::floating_point<Scalar> && !std::same_as<Scalar, long double> &&
      !(Algebra::is_always_euclidean || (Algebra::is_static && (Algebra{}.p() == 0 || Algebra{}.q() == 0)));

  template <std::size_t Count, class F>
  ROTORLIN_INLINE static void each(F&& body) {
    unroll_indices(std::make_index_sequence<Count>{}, body);
  }
  template <class F, std::size_t... Index>
  ROTORLIN_INLINE static void unroll_indices(std::index_sequence<Index...>, F&& body) {
    (body(std::integral_constant<std::size_t, Index>{}), ...);
  }

  /// sum_i left(i) right_i times the metric of mask(i).
  template <std::size_t Count, class Left, class Right, class Mask>
  ROTORLIN_INLINE Scalar metric_sum(Left left, const Right& right, Mask mask) const {
    ProductSum<Scalar, may_cancel> sum;
    each<Count>([&](auto i) ROTORLIN_INLINE_LAMBDA {
      constexpr unsigned blade = mask(i);
      if constexpr (Algebra::is_static) {
        sum.template add<metric_of(Algebra{}, blade)>(left(i), right[i]);
      } else {
        sum.template add<1>(with_metric<blade>(algebra, left(i)), right[i]);
      }
    });
    return sum.value();
  }

  static constexpr std::size_t bivector_index(unsigned blade) {
    std::size_t i = 0;
    while (bivector_mask(i) != blade) ++i;
    return i;
  }
  static constexpr std::size_t quadvector_index(unsigned blade) {
    std::size_t k = 0;
    while (quadvector_mask(k) != blade) ++k;
    return k;
  }
};

}  // namespace rotorlin::detail
