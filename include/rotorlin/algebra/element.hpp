// SPDX-License-Identifier: MIT
/// \file
/// What all elements of an algebra have in common: coefficients over a set of blades, the vector space that
/// they form, the involutions that only change signs, comparison and text.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <type_traits>
#include <utility>

#include "rotorlin/algebra/parts.hpp"
#include "rotorlin/algebra/signature.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

template <class Scalar, int P, int Q = 0, int R = 0>
class Multivector;
template <class Scalar, int P, int Q = 0, int R = 0>
class Vector;
template <class Scalar, int P, int Q = 0, int R = 0>
class Bivector;
template <class Scalar, int P, int Q = 0, int R = 0>
class Rotor;

namespace detail {

/// Coefficients: inside the object where they are few, on the heap for the 2^n of large or run-time n.
template <class Scalar, Part part, int N>
struct ElementStorage {
  static constexpr bool grows_slowly = part == Part::vector || part == Part::bivector;
  static constexpr Index max_size = grows_slowly ? part_size(part, N == Dynamic ? max_dimension : N)
                                    : N == Dynamic || N > max_inline_dimension ? Dynamic
                                                                               : part_size(part, N);
  static constexpr Index size = N == Dynamic ? Dynamic : max_size;
  using type =
      Eigen::Matrix<Scalar, static_cast<int>(size), 1, Eigen::ColMajor, static_cast<int>(max_size), 1>;
};

/// -1 for the blades of a part in whose grade Flips{} is true, else 1.
template <class Scalar, int N, Part part, class Flips>
inline constexpr auto grade_signs = [] {
  constexpr auto& masks = part_masks<N, part>;
  std::array<Scalar, masks.size()> signs{};
  for (std::size_t i = 0; i < masks.size(); ++i) {
    signs[i] = Flips{}(std::popcount(unsigned{masks[i]})) ? Scalar(-1) : Scalar(1);
  }
  return signs;
}();

struct ElementTag {};

/// For results whose coefficients are all about to be written.
struct Uninitialized {};

/// Coefficients of `Derived` over the blades of `part`, in graded order. The operations of the vector space
/// are those of the coefficients; two operands must have the same signature.
template <template <class, int, int, int> class Derived_, Part part_, class Scalar_, int P, int Q, int R>
class Element : public ElementTag {
 public:
  using Scalar = Scalar_;
  using SignatureType = Signature<P, Q, R>;
  using Derived = Derived_<Scalar, P, Q, R>;
  static constexpr Part part = part_;
  static constexpr int static_dimension = SignatureType::static_dimension;
  using Coefficients = typename ElementStorage<Scalar, part, static_dimension>::type;

  /// Zero, of the algebra of the template arguments; n = 0 where they are Dynamic.
  Element() : Element(SignatureType{}) {}

  /// Zero of the algebra `signature`; for a Dynamic P, the number n does as well.
  explicit Element(const SignatureType& signature) : signature_(signature) {
    coeffs_.setZero(part_size(part, dimension()));
  }

  Element(Uninitialized, const SignatureType& signature) : signature_(signature) {
    if constexpr (Coefficients::SizeAtCompileTime == Dynamic) coeffs_.resize(part_size(part, dimension()));
  }

  /// \throws std::invalid_argument unless there is one coefficient for each blade.
  template <class Coeffs>
  Element(const SignatureType& signature, const Eigen::MatrixBase<Coeffs>& coeffs) : signature_(signature) {
    static_assert(Coeffs::ColsAtCompileTime == 1, "the coefficients are a column vector");
    check_size(coeffs.size());
    coeffs_ = coeffs;
  }

  Element(const SignatureType& signature, std::initializer_list<Scalar> coeffs) : signature_(signature) {
    check_size(static_cast<Index>(coeffs.size()));
    coeffs_.resize(static_cast<Index>(coeffs.size()));
    std::copy(coeffs.begin(), coeffs.end(), coeffs_.data());
  }

  template <class Coeffs>
  requires(SignatureType::is_static) explicit Element(const Eigen::MatrixBase<Coeffs>& coeffs)
      : Element(SignatureType{}, coeffs) {}

  Element(std::initializer_list<Scalar> coeffs) requires(SignatureType::is_static)
      : Element(SignatureType{}, coeffs) {}

  constexpr const SignatureType& signature() const { return signature_; }
  /// Number n of basis vectors of the algebra.
  constexpr int dimension() const { return signature_.n(); }
  /// Number of coefficients.
  constexpr Index size() const {
    return has_run_time_size ? coeffs_.size() : part_size(part, static_dimension);
  }

  /// The coefficients in graded order; their number is fixed by the signature and must be left as it is.
  const Coefficients& coeffs() const {
    check_not_moved();
    return coeffs_;
  }
  Coefficients& coeffs() { return coeffs_; }
  const Scalar& operator[](Index i) const { return coeffs_[i]; }
  Scalar& operator[](Index i) { return coeffs_[i]; }

  /// Grade projection to a type of its own: grade 0, grade 1, grade 2, the even grades.
  Scalar scalar_part() const {
    if constexpr (part == Part::vector || part == Part::bivector) {
      return Scalar(0);
    } else {
      return coeffs()[0];
    }
  }
  Vector<Scalar, P, Q, R> vector_part() const { return projected<Vector<Scalar, P, Q, R>>(); }
  Bivector<Scalar, P, Q, R> bivector_part() const { return projected<Bivector<Scalar, P, Q, R>>(); }
  Rotor<Scalar, P, Q, R> even_part() const { return projected<Rotor<Scalar, P, Q, R>>(); }
  /// Grade projection within the type: the coefficients of grade k, the others zero.
  Derived grade_part(int k) const {
    Derived result = derived();
    const Blades blades = this->blades();
    for (Index i = 0; i < size(); ++i) {
      if (std::popcount(static_cast<unsigned>(blades.mask[i])) != k) result[i] = Scalar(0);
    }
    return result;
  }

  /// The coefficients of the blades that `To` has, zero for those that this element has not.
  template <class To>
  To projected() const {
    To result(signature_);
    const Blades from = this->blades(), to = result.blades();
    for (Index i = 0; i < to.size; ++i) {
      const unsigned blade = to.mask[i];
      result[i] = part_contains(part, blade) ? coeffs_[from.index[blade] - from.first] : Scalar(0);
    }
    return result;
  }

  /// The blades that the coefficients belong to.
  constexpr Blades blades() const {
    check_not_moved();
    return blades_of<part, static_dimension>(dimension());
  }

  void set_zero() { coeffs_.setZero(part_size(part, dimension())); }
  /// Whether no coefficient is NaN or infinite.
  bool all_finite() const { return detail::all_finite(coeffs_); }

  /// The same coefficients as another scalar type.
  template <class T>
  Derived_<T, P, Q, R> cast() const {
    return Derived_<T, P, Q, R>(signature_, coeffs().template cast<T>());
  }

  Derived& operator+=(const Element& other) {
    check_same_algebra("operator+", other);
    coeffs_ += other.coeffs_;
    return derived();
  }
  Derived& operator-=(const Element& other) {
    check_same_algebra("operator-", other);
    coeffs_ -= other.coeffs_;
    return derived();
  }
  Derived& operator*=(const Scalar& factor) {
    check_not_moved();
    const Scalar copy = factor;  // it may be one of the coefficients
    for (Index i = 0; i < size(); ++i) coeffs_[i] *= copy;
    return derived();
  }
  Derived& operator/=(const Scalar& divisor) {
    check_not_moved();
    const Scalar copy = divisor;
    for (Index i = 0; i < size(); ++i) coeffs_[i] /= copy;
    return derived();
  }
  friend Derived operator+(Derived a, const Derived& b) { return std::move(a += b); }
  friend Derived operator-(Derived a, const Derived& b) { return std::move(a -= b); }
  friend Derived operator*(Derived a, const Scalar& factor) { return std::move(a *= factor); }
  friend Derived operator*(const Scalar& factor, Derived a) { return std::move(a *= factor); }
  friend Derived operator/(Derived a, const Scalar& divisor) { return std::move(a /= divisor); }
  Derived operator-() const {
    return with_signs([](int) { return true; });
  }

  /// Reversion: the factors of each blade in reverse order, (-1)^(g(g-1)/2) in grade g.
  Derived reversed() const {
    return with_signs([](int grade) { return (grade & 2) != 0; });
  }
  Derived operator~() const { return reversed(); }
  /// Grade involution, (-1)^g in grade g.
  Derived involuted() const {
    return with_signs([](int grade) { return (grade & 1) != 0; });
  }
  /// Clifford conjugation: reversion and grade involution, (-1)^(g(g+1)/2) in grade g.
  Derived conjugated() const {
    return with_signs([](int grade) { return ((grade + 1) & 2) != 0; });
  }

  /// <a a~>_0: the sum of the squared coefficients, each times the square of its blade and its reverse. In a
  /// Euclidean algebra the squared length of the coefficients; elsewhere it can be negative.
  Scalar squared_norm() const {
    if constexpr (SignatureType::is_always_euclidean && std::is_arithmetic_v<Scalar>) {
      return coeffs().squaredNorm();
    }
    const Blades blades = this->blades();
    const unsigned negative = signature_.negative_mask(), null = signature_.null_mask();
    Scalar sum(0);
    for (Index i = 0; i < size(); ++i) {
      const unsigned blade = blades.mask[i];
      if (blade & null) continue;
      const Scalar square = coeffs_[i] * coeffs_[i];
      if (std::popcount(blade & negative) & 1) {
        sum -= square;
      } else {
        sum += square;
      }
    }
    return sum;
  }
  /// sqrt(|<a a~>_0|).
  Scalar norm() const {
    using std::abs;
    using std::sqrt;
    const Scalar square = abs(squared_norm());
    return sqrt(square);
  }

  /// Whether no coefficient differs by more than `tolerance` times the largest of 1 and all the coefficients.
  bool is_approx(const Element& other,
                 const Scalar& tolerance = Scalar(64) * Eigen::NumTraits<Scalar>::epsilon()) const {
    using std::abs;
    check_same_algebra("is_approx", other);
    Scalar scale(1);
    for (const Element* element : {this, &other}) {
      for (Index i = 0; i < size(); ++i) {
        const Scalar magnitude = abs(element->coeffs_[i]);
        if (scale < magnitude) scale = magnitude;
      }
    }
    if (!(scale <= Eigen::NumTraits<Scalar>::highest())) return false;  // infinity is near nothing
    for (Index i = 0; i < size(); ++i) {
      const Scalar difference = coeffs_[i] - other.coeffs_[i];
      const Scalar magnitude = abs(difference);
      if (!(magnitude <= tolerance * scale)) return false;
    }
    return true;
  }
  bool operator==(const Element& other) const {
    return signature_ == other.signature_ && coeffs_.size() == other.coeffs_.size() &&
           coeffs_ == other.coeffs_;
  }

  /// "1.5 + 2 e12 - e123"; "0" for zero.
  friend std::ostream& operator<<(std::ostream& out, const Derived& element) {
    const BladeTable& table = blade_table(element.dimension());
    bool first = true;
    for (Index i = 0; i < element.size(); ++i) {
      const Scalar& value = element.coeffs_[i];
      if (value == Scalar(0)) continue;
      const unsigned blade = element.blades().mask[i];
      const bool negative = value < Scalar(0);
      const Scalar magnitude = negative ? Scalar(-value) : value;
      if (first) {
        out << (negative ? "-" : "");
      } else {
        out << (negative ? " - " : " + ");
      }
      if (blade == 0) {
        out << magnitude;
      } else {
        if (magnitude != Scalar(1)) out << magnitude << ' ';
        out << table.name(table.index[blade]);
      }
      first = false;
    }
    return first ? out << '0' : out;
  }

  /// Throws std::invalid_argument where the coefficients are on the heap and have been moved to another
  /// element.
  constexpr void check_not_moved() const {
    if constexpr (has_run_time_size) {
      if (coeffs_.size() == 0 && part_size(part, dimension()) != 0) throw_moved();
    }
  }

  /// Throws std::invalid_argument, in the name of `who`, where the other operand is of another algebra.
  template <class Other>
  void check_same_algebra(const char* who, const Other& other) const {
    static_assert(
        std::same_as<SignatureType, typename Other::SignatureType>,
        "rotorlin: both operands must be of the same algebra (the same template arguments P, Q, R)");
    static_assert(std::same_as<Scalar, typename Other::Scalar>,
                  "rotorlin: both operands must have the same scalar type; use cast<T>()");
    check_not_moved();
    other.check_not_moved();
    if (!(signature_ == other.signature())) {
      throw_invalid(who, ": operands of ", signature_, " (", size(), " coefficients) and of ",
                    other.signature(), " (", other.size(), " coefficients), expected the same algebra");
    }
  }

 protected:
  Derived& derived() { return static_cast<Derived&>(*this); }
  const Derived& derived() const { return static_cast<const Derived&>(*this); }

  /// A copy with the coefficients negated in all grades that `flips`.
  template <class Flips>
  Derived with_signs(Flips flips) const {
    Derived result(Uninitialized{}, signature_);
    if constexpr (static_dimension != Dynamic && static_dimension <= max_inline_dimension &&
                  std::is_arithmetic_v<Scalar>) {
      constexpr auto& signs = grade_signs<Scalar, static_dimension, part, Flips>;
      for (std::size_t i = 0; i < signs.size(); ++i) {
        result.coeffs().data()[i] = signs[i] * coeffs_.data()[i];
      }
    } else {
      const Blades blades = this->blades();
      for (Index i = 0; i < size(); ++i) {
        const bool flip = flips(std::popcount(static_cast<unsigned>(blades.mask[i])));
        result.coeffs()[i] = flip ? Scalar(-coeffs_[i]) : coeffs_[i];
      }
    }
    return result;
  }

 private:
  static constexpr bool has_run_time_size = Coefficients::SizeAtCompileTime == Dynamic;

  [[noreturn, gnu::noinline, gnu::cold]] void throw_moved() const {
    throw_invalid("rotorlin element of ", signature_,
                  ": its coefficients have been moved to another element; assign to it before it is used");
  }

  void check_size(Index given) const {
    const Index expected = part_size(part, dimension());
    if (given != expected) {
      throw_invalid("rotorlin element of ", signature_, ": ", given, " coefficients given, expected ",
                    expected);
    }
  }

  [[no_unique_address]] SignatureType signature_;
  Coefficients coeffs_;
};

}  // namespace detail

/// Multivector, Vector, Bivector, Rotor.
template <class T>
concept AlgebraElement = std::derived_from<T, detail::ElementTag>;

}  // namespace rotorlin
