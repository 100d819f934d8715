// SPDX-License-Identifier: MIT
// The algebra the slow way, from its definition: a blade is a list of basis vectors, neighbours swap with a
// sign, and equal neighbours contract to their square. Nothing here uses the library's signs or masks of
// products.
#pragma once

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "rotorlin/algebra/multivector.hpp"

namespace test {

using rotorlin::Index;

/// Sign and mask of blade a times blade b.
template <class Algebra>
std::pair<int, unsigned> blade_product(const Algebra& algebra, unsigned a, unsigned b) {
  std::vector<int> factors;
  for (unsigned blade : {a, b}) {
    for (int k = 0; k < algebra.n(); ++k) {
      if ((blade >> k) & 1u) factors.push_back(k);
    }
  }
  int sign = 1;
  for (std::size_t end = factors.size(); end > 1; --end) {
    for (std::size_t i = 0; i + 1 < end; ++i) {
      if (factors[i] <= factors[i + 1]) continue;
      std::swap(factors[i], factors[i + 1]);
      sign = -sign;
    }
  }
  unsigned mask = 0;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (i + 1 < factors.size() && factors[i] == factors[i + 1]) {
      const int k = factors[i++];
      sign *= k < algebra.p() ? 1 : k < algebra.p() + algebra.q() ? -1 : 0;
    } else {
      mask |= 1u << factors[i];
    }
  }
  return {sign, mask};
}

/// Whether a product keeps a term, by the grades of its two factors and its own.
using Keeps = bool (*)(int, int, int);

/// a b, keeping only what `keeps`.
template <class M>
M product(const M& a, const M& b, Keeps keeps) {
  M result(a.signature());
  const rotorlin::BladeTable& table = rotorlin::blade_table(a.dimension());
  for (Index i = 0; i < a.size(); ++i) {
    for (Index j = 0; j < b.size(); ++j) {
      const unsigned blade_a = table.mask[static_cast<std::size_t>(i)],
                     blade_b = table.mask[static_cast<std::size_t>(j)];
      const auto [sign, mask] = blade_product(a.signature(), blade_a, blade_b);
      if (!keeps(std::popcount(blade_a), std::popcount(blade_b), std::popcount(mask))) continue;
      result[table.index[mask]] += typename M::Scalar(sign) * a[i] * b[j];
    }
  }
  return result;
}

/// An element with random coefficients of the size `scale`.
template <class E>
E random_element(const typename E::SignatureType& algebra, std::mt19937& generator, double scale = 1) {
  E element(algebra);
  std::uniform_real_distribution<double> uniform(-scale, scale);
  for (Index i = 0; i < element.size(); ++i) element[i] = static_cast<typename E::Scalar>(uniform(generator));
  return element;
}

}  // namespace test
