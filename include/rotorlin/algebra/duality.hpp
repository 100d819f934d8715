// SPDX-License-Identifier: MIT
/// \file
/// Duals and complements: grade k to grade n - k.
#pragma once

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/algebra/element.hpp"
#include "rotorlin/algebra/parts.hpp"
#include "rotorlin/algebra/products.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

namespace detail {

template <AlgebraElement A>
auto times_pseudoscalar(const char* who, const A& a) {
  if (a.signature().r() > 0)
    throw_invalid(who, ": the pseudoscalar of ", a.signature(), " has no inverse; use complement");
  typename ElementRebind<A>::template type<Part::all> result(a.signature());
  const Blades from = a.blades(), to = result.blades();
  const unsigned all = (1u << a.dimension()) - 1u;
  for (Index i = 0; i < from.size; ++i) {
    const unsigned blade = from.mask[i];
    result[to.index[all ^ blade]] =
        a.signature().product_sign(blade, all) > 0 ? a[i] : typename A::Scalar(-a[i]);
  }
  return result;
}

}  // namespace detail

/// a I, where I = e_12...n: the inverse of `dual`.
/// \throws std::invalid_argument in degenerate algebras (r > 0), where I has no inverse: use `complement`.
template <AlgebraElement A>
auto undual(const A& a) {
  return detail::times_pseudoscalar("undual", a);
}
/// The dual a I^-1, of grade n - k for grade k.
/// \throws std::invalid_argument in degenerate algebras, as `undual` does.
template <AlgebraElement A>
auto dual(const A& a) {
  const unsigned all = (1u << a.dimension()) - 1u;
  return detail::times_pseudoscalar("dual", a.signature().product_sign(all, all) > 0 ? a : A(-a));
}
/// The right complement, in any signature: linear, with e ^ complement(e) = I for every basis blade e.
template <AlgebraElement A>
auto complement(const A& a) {
  using M = typename detail::ElementRebind<A>::template type<Part::all>;
  using Scalar = typename A::Scalar;
  M result(a.signature());
  const detail::Blades from = a.blades(), to = result.blades();
  const unsigned all = (1u << a.dimension()) - 1u;
  for (Index i = 0; i < from.size; ++i) {
    const unsigned blade = from.mask[i];
    result[to.index[all ^ blade]] = reorder_sign(blade, all ^ blade) > 0 ? a[i] : Scalar(-a[i]);
  }
  return result;
}

}  // namespace rotorlin
