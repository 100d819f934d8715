// SPDX-License-Identifier: MIT
/// \file
/// Rotors: even elements r with r r~ = 1. The sandwich r x r~ is a rotation, and r and -r are the same
/// rotation.
#pragma once

#include "rotorlin/algebra/element.hpp"

namespace rotorlin {

/// 2^(n-1) coefficients: the blades of even grade in graded order. The type holds any even element (a
/// gradient with respect to a rotor, say); what makes it a rotor is r r~ = 1.
template <class Scalar, int P, int Q = 0, int R = 0>
class Rotor : public detail::Element<Rotor, Part::even, Scalar, P, Q, R> {
  using Base = detail::Element<rotorlin::Rotor, Part::even, Scalar, P, Q, R>;

 public:
  using Base::Base;
  using typename Base::SignatureType;

  /// The identity.
  Rotor() : Rotor(SignatureType{}) {}
  explicit Rotor(const SignatureType& signature) : Base(signature) { this->coeffs()[0] = Scalar(1); }
};

}  // namespace rotorlin
