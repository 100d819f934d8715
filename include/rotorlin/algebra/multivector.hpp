// SPDX-License-Identifier: MIT
/// \file
/// Multivectors: any element of the algebra, one coefficient for each of its 2^n blades.
#pragma once

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/algebra/duality.hpp"
#include "rotorlin/algebra/element.hpp"
#include "rotorlin/algebra/products.hpp"
#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/algebra/vector.hpp"

namespace rotorlin {

/// 2^n coefficients, grade by grade, lexicographic within a grade: 1, e1, e2, e3, e12, e13, e23, e123.
/// Vectors, bivectors and rotors convert to it; `vector_part()` and its like convert back.
template <class Scalar, int P, int Q, int R>
class Multivector : public detail::Element<Multivector, Part::all, Scalar, P, Q, R> {
  using Base = detail::Element<rotorlin::Multivector, Part::all, Scalar, P, Q, R>;

 public:
  using Base::Base;
  using typename Base::SignatureType;

  template <AlgebraElement Other>
  requires(Other::part != Part::all && std::same_as<typename Other::Scalar, Scalar> &&
           std::same_as<typename Other::SignatureType, SignatureType>) Multivector(const Other& other)
      : Multivector(other.template projected<Multivector>()) {}

  /// The scalar `value`.
  static Multivector scalar(const SignatureType& signature, const Scalar& value) {
    return blade(signature, 0, value);
  }
  /// `value` times the basis blade of a mask: bit k-1 is the factor e_k.
  /// \throws std::invalid_argument where the mask has more than n bits.
  static Multivector blade(const SignatureType& signature, unsigned mask, const Scalar& value = Scalar(1)) {
    if (mask >> signature.n() != 0) {
      detail::throw_invalid("Multivector::blade: mask ", mask, " of ", signature, ", expected less than ",
                            1u << signature.n());
    }
    Multivector result(signature);
    result[blade_table(signature.n()).index[mask]] = value;
    return result;
  }
  /// I = e_12...n.
  static Multivector pseudoscalar(const SignatureType& signature) {
    return blade(signature, (1u << signature.n()) - 1u);
  }
};

}  // namespace rotorlin
