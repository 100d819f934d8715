// SPDX-License-Identifier: MIT
/// \file
/// The signature of a Clifford algebra Cl(p, q, r): the first p basis vectors square to +1, the next q to -1,
/// the last r to 0. It alone decides the sign of the product of two blades.
#pragma once

#include <bit>
#include <ostream>
#include <string>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// Mask m(a) with: the factors of blade `b` cross popcount(b & m(a)) factors of blade `a` in the product a b.
/// m(a) is the exclusive or of a >> k over all k >= 1.
constexpr unsigned crossing_mask(unsigned a) {
  a >>= 1;
  for (int shift = 1; shift < max_dimension; shift *= 2) a ^= a >> shift;
  return a;
}

namespace detail {

/// A number of basis vectors, held where the type does not say it; the tag keeps the types of empty members
/// apart, so that they take no room.
template <int N, int tag>
struct Count {
  constexpr Count(int) {}
  constexpr operator int() const { return N; }
};
template <int tag>
struct Count<Dynamic, tag> {
  constexpr Count(int number) : value(number) {}
  constexpr operator int() const { return value; }
  int value;
};

}  // namespace detail

/// P + Q + R basis vectors; each of the numbers may be Dynamic and is then held at run time.
/// `Signature<P>` is Euclidean, `Signature<Dynamic>` is Cl(n) with n known at run time, and
/// `Signature<Dynamic, Dynamic, Dynamic>` is any algebra.
template <int P, int Q = 0, int R = 0>
class Signature {
  static_assert((P >= 0 || P == Dynamic) && (Q >= 0 || Q == Dynamic) && (R >= 0 || R == Dynamic),
                "the numbers of basis vectors are not negative, or Dynamic");

 public:
  static constexpr bool is_static = P != Dynamic && Q != Dynamic && R != Dynamic;
  /// n where it is known at compile time, else Dynamic.
  static constexpr int static_dimension = is_static ? P + Q + R : Dynamic;
  /// Euclidean whatever the run-time values.
  static constexpr bool is_always_euclidean = Q == 0 && R == 0;
  static constexpr bool is_never_euclidean = Q > 0 || R > 0;
  static_assert(static_dimension <= max_dimension, "at most 14 basis vectors");

  /// The static numbers, and 0 for those that are Dynamic.
  constexpr Signature() = default;

  /// \throws std::invalid_argument where a number contradicts a static one, is negative, or n >
  /// max_dimension.
  constexpr Signature(int p, int q = known(Q), int r = known(R)) : p_(p), q_(q), r_(r) {
    if ((P != Dynamic && p != P) || (Q != Dynamic && q != Q) || (R != Dynamic && r != R)) {
      detail::throw_invalid("Signature: ", text(p, q, r), " given where the type says ", static_text());
    }
    if (p < 0 || q < 0 || r < 0 || p > max_dimension || q > max_dimension || r > max_dimension ||
        n() > max_dimension) {
      detail::throw_invalid("Signature: ", text(p, q, r),
                            ", expected p, q, r >= 0 and p + q + r <= ", max_dimension);
    }
  }

  /// How many basis vectors square to 1, to -1, to 0, and all together.
  constexpr int p() const { return p_; }
  constexpr int q() const { return q_; }
  constexpr int r() const { return r_; }
  constexpr int n() const { return p() + q() + r(); }
  constexpr bool is_euclidean() const { return q() == 0 && r() == 0; }

  /// Masks of the basis vectors that square to -1 and to 0.
  constexpr unsigned negative_mask() const { return ((1u << q()) - 1u) << p(); }
  constexpr unsigned null_mask() const { return ((1u << r()) - 1u) << (p() + q()); }

  /// Blade a times blade b is product_sign(a, b) (one of -1, 0, +1) times blade a xor b.
  constexpr int product_sign(unsigned a, unsigned b) const {
    if (a & b & null_mask()) return 0;
    return std::popcount(b & (crossing_mask(a) ^ (a & negative_mask()))) & 1 ? -1 : 1;
  }

  constexpr bool operator==(const Signature& other) const {
    return p() == other.p() && q() == other.q() && r() == other.r();
  }

  /// "Cl(3)", "Cl(3, 0, 1)".
  std::string text() const { return text(p(), q(), r()); }
  friend std::ostream& operator<<(std::ostream& out, const Signature& signature) {
    return out << signature.text();
  }

 private:
  static std::string text(int p, int q, int r) {
    return q == 0 && r == 0 ? detail::concatenate("Cl(", p, ")")
                            : detail::concatenate("Cl(", p, ", ", q, ", ", r, ")");
  }
  static constexpr int known(int number) { return number == Dynamic ? 0 : number; }
  static std::string static_text() {
    const auto name = [](int number) {
      return number == Dynamic ? std::string("?") : std::to_string(number);
    };
    return "Cl(" + name(P) + ", " + name(Q) + ", " + name(R) + ")";
  }

  [[no_unique_address]] detail::Count<P, 0> p_ = known(P);
  [[no_unique_address]] detail::Count<Q, 1> q_ = known(Q);
  [[no_unique_address]] detail::Count<R, 2> r_ = known(R);
};

}  // namespace rotorlin
