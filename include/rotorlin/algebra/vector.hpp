// SPDX-License-Identifier: MIT
/// \file
/// Vectors: the elements of grade 1.
#pragma once

#include "rotorlin/algebra/element.hpp"

namespace rotorlin {

/// n coefficients, of e1, ..., en.
template <class Scalar, int P, int Q, int R>
class Vector : public detail::Element<Vector, Part::vector, Scalar, P, Q, R> {
  using Base = detail::Element<rotorlin::Vector, Part::vector, Scalar, P, Q, R>;

 public:
  using Base::Base;

  /// The basis vector e_k, k = 1 ... n.
  /// \throws std::invalid_argument for another k.
  static Vector basis(const typename Base::SignatureType& signature, int k) {
    if (k < 1 || k > signature.n()) {
      detail::throw_invalid("Vector::basis: e", k, " of ", signature, ", expected e1 ... e", signature.n());
    }
    Vector result(signature);
    result[k - 1] = Scalar(1);
    return result;
  }
  static Vector basis(int k) requires(Base::SignatureType::is_static) {
    return basis(typename Base::SignatureType{}, k);
  }
};

}  // namespace rotorlin
