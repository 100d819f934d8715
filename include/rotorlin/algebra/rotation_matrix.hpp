// SPDX-License-Identifier: MIT
/// \file
/// Between rotors and rotation matrices. For n = 2 and 3 in closed form; else the matrix is a table of scalar
/// products, and the rotor a product of reflections that take the matrix to a diagonal of signs.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "rotorlin/algebra/element.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/simd.hpp"

namespace rotorlin::detail {

/// N x N; column j is the image of e_j.
template <class Scalar, int N>
using SmallSquare = Eigen::Matrix<Scalar, N, N, Eigen::ColMajor, N == Dynamic ? max_dimension : N,
                                  N == Dynamic ? max_dimension : N>;

inline constexpr int octet = 8;

/// An even (or odd) element in binary order: entry m >> 1 belongs to blade m, whose lowest bit follows from
/// its parity. Column h of eight rows holds the entries 8h .. 8h+7. On the heap where n is large or known at
/// run time: up to 2^13 coefficients are too much for many a thread's stack.
template <class Scalar, int N>
using Octets = Eigen::Matrix<Scalar, octet, (N == Dynamic || N > 8) ? Dynamic : (N > 4 ? 1 << (N - 4) : 1),
                             Eigen::ColMajor>;

/// +1 or -1, by the number of set bits.
inline int parity_sign(unsigned mask) { return std::popcount(mask) & 1 ? -1 : 1; }

/// A sum of multiples of octets: in vector registers, where the scalar has them.
template <class Scalar, bool = has_vectors<Scalar>>
class OctetSum {
 public:
  void add(const Scalar* values, const Scalar& factor) {
    for (int i = 0; i < octet; ++i) sum_[i] += factor * values[i];
  }
  void store(Scalar* to) const { std::copy(sum_, sum_ + octet, to); }

 private:
  Scalar sum_[octet] = {};
};
template <class Scalar>
class OctetSum<Scalar, true> {
 public:
  void add(const Scalar* values, Scalar factor) {
    Pack<Scalar, octet> pack;
    std::memcpy(&pack, values, sizeof(pack));
    sum_ += pack * factor;
  }
  void store(Scalar* to) const { std::memcpy(to, &sum_, sizeof(sum_)); }

 private:
  Pack<Scalar, octet> sum_ = {};
};

/// out = x * v for a vector v of n coefficients. Entry j of the result takes v_k times entry j ^ 2^(k-1) (for
/// k = 0: entry j), signed by the bits of j from k on. The bits within an octet make an 8 x 8 matrix.
template <class Scalar, int N>
void multiply_by_vector(const Octets<Scalar, N>& x, const Scalar* v, Index n, Octets<Scalar, N>& out) {
  Scalar low[octet][octet] = {};  // [column][row]
  for (unsigned j = 0; j < octet; ++j) {
    low[j][j] = Scalar(parity_sign(j)) * v[0];
    for (unsigned k = 1; k < 4 && k < n; ++k)
      low[j ^ (1u << (k - 1))][j] = Scalar(parity_sign(j >> k)) * v[k];
  }
  for (unsigned h = 0; h < x.cols(); ++h) {
    OctetSum<Scalar> sum;
    const Scalar* own = x.data() + h * octet;
    for (int j = 0; j < octet; ++j) sum.add(low[j], Scalar(parity_sign(h)) * own[j]);
    for (unsigned k = 4; k < n; ++k)
      sum.add(x.data() + (h ^ (1u << (k - 4))) * octet, Scalar(parity_sign(h >> (k - 3))) * v[k]);
    sum.store(out.data() + h * octet);
  }
}

/// Even coefficients in graded order from octets.
template <class Scalar, int N, class Coeffs>
void copy_even(const Octets<Scalar, N>& from, int n, Coeffs&& coeffs) {
  const Blades even = blades_of<Part::even, N>(n);
  for (Index i = 0; i < even.size; ++i) coeffs[i] = from.data()[even.mask[i] >> 1];
}

/// x e_1, ..., x e_n (or e_1 x, ..., e_n x) for even coefficients x in graded order, as columns: entry m >> 1
/// belongs to the odd blade m.
enum class VectorSide { left, right };
template <VectorSide side, class Scalar, int N>
auto times_basis_vectors(const Scalar* x, int n) {
  constexpr bool small = N != Dynamic && N <= max_inline_dimension;
  const Blades even = blades_of<Part::even, N>(n);
  Eigen::Matrix<Scalar, small ? static_cast<int>(part_size(Part::even, N)) : Dynamic, small ? N : Dynamic,
                Eigen::ColMajor>
      products(even.size, n);
  for (unsigned k = 0; k < static_cast<unsigned>(n); ++k) {
    const unsigned vector = 1u << k;
    for (Index i = 0; i < even.size; ++i) {
      const unsigned blade = even.mask[i];
      const int sign = side == VectorSide::left ? reorder_sign(vector, blade) : reorder_sign(blade, vector);
      products((blade ^ vector) >> 1, k) = sign > 0 ? x[i] : Scalar(-x[i]);
    }
  }
  return products;
}

/// M_ij = <(e_i r)(r e_j)~>_0, the matrix of v -> r v r~.
template <class Scalar, int N>
SmallSquare<Scalar, N> rotation_matrix(const Scalar* r, int n) {
  if constexpr (N == 2) {
    const Scalar cos = r[0] * r[0] - r[1] * r[1], sin = Scalar(2) * r[0] * r[1];
    SmallSquare<Scalar, N> matrix;
    matrix(0, 0) = matrix(1, 1) = cos;
    matrix(0, 1) = sin;
    matrix(1, 0) = Scalar(-sin);
    return matrix;
  } else if constexpr (N == 3) {
    const Scalar w = r[0], e12 = r[1], e13 = r[2], e23 = r[3];
    const Scalar t12 = e12 + e12, t13 = e13 + e13, t23 = e23 + e23;
    const Scalar w12 = t12 * w, w13 = t13 * w, w23 = t23 * w;
    const Scalar x = t12 * e13, y = t12 * e23, z = t13 * e23;
    const Scalar a = w * w - e12 * e12, b = e13 * e13 - e23 * e23;
    const Scalar c = w * w + e12 * e12, d = e13 * e13 + e23 * e23;
    SmallSquare<Scalar, N> matrix;
    Scalar* column = matrix.data();
    column[0] = a - b;
    column[1] = Scalar(-(w12 + z));
    column[2] = y - w13;
    column[3] = w12 - z;
    column[4] = a + b;
    column[5] = Scalar(-(w23 + x));
    column[6] = w13 + y;
    column[7] = w23 - x;
    column[8] = c - d;
    return matrix;
  } else {
    const auto left = times_basis_vectors<VectorSide::left, Scalar, N>(r, n);
    const auto right = times_basis_vectors<VectorSide::right, Scalar, N>(r, n);
    return left.transpose().lazyProduct(right);  // Eigen's blocked product takes 128 KiB of stack
  }
}

/// Four scalars, in a vector register where it has room for them.
template <class Scalar, bool = (native_lanes<Scalar> >= 4)>
struct FourOf {
  Scalar lane[4];
  FourOf() = default;
  ROTORLIN_INLINE explicit FourOf(const Scalar& x) : lane{x, x, x, x} {}
  ROTORLIN_INLINE FourOf(const Scalar& a, const Scalar& b, const Scalar& c, const Scalar& d)
      : lane{a, b, c, d} {}
  ROTORLIN_INLINE static FourOf load(const Scalar* from) { return {from[0], from[1], from[2], from[3]}; }
  ROTORLIN_INLINE void store(Scalar* to) const { std::copy(lane, lane + 4, to); }
  template <int... From>
  ROTORLIN_INLINE static FourOf shuffle(const FourOf& a, const FourOf& b) {
    return {(From < 4 ? a.lane[From & 3] : b.lane[From & 3])...};
  }
  ROTORLIN_INLINE friend FourOf operator+(const FourOf& a, const FourOf& b) {
    return {a.lane[0] + b.lane[0], a.lane[1] + b.lane[1], a.lane[2] + b.lane[2], a.lane[3] + b.lane[3]};
  }
  ROTORLIN_INLINE friend FourOf operator-(const FourOf& a, const FourOf& b) {
    return {a.lane[0] - b.lane[0], a.lane[1] - b.lane[1], a.lane[2] - b.lane[2], a.lane[3] - b.lane[3]};
  }
  ROTORLIN_INLINE friend FourOf operator*(const FourOf& a, const FourOf& b) {
    return {a.lane[0] * b.lane[0], a.lane[1] * b.lane[1], a.lane[2] * b.lane[2], a.lane[3] * b.lane[3]};
  }
};
template <class Scalar>
struct FourOf<Scalar, true> {
  Pack<Scalar, 4> lanes;
  FourOf() = default;
  ROTORLIN_INLINE explicit FourOf(Scalar x) : lanes{x, x, x, x} {}
  ROTORLIN_INLINE explicit FourOf(const Pack<Scalar, 4>& pack) : lanes(pack) {}
  ROTORLIN_INLINE static FourOf load(const Scalar* from) { return FourOf(detail::load<Scalar, 4>(from)); }
  ROTORLIN_INLINE void store(Scalar* to) const { detail::store<Scalar, 4>(to, lanes); }
  template <int... From>
  ROTORLIN_INLINE static FourOf shuffle(const FourOf& a, const FourOf& b) {
    return FourOf(__builtin_shufflevector(a.lanes, b.lanes, From...));
  }
  ROTORLIN_INLINE friend FourOf operator+(const FourOf& a, const FourOf& b) {
    return FourOf(a.lanes + b.lanes);
  }
  ROTORLIN_INLINE friend FourOf operator-(const FourOf& a, const FourOf& b) {
    return FourOf(a.lanes - b.lanes);
  }
  ROTORLIN_INLINE friend FourOf operator*(const FourOf& a, const FourOf& b) {
    return FourOf(a.lanes * b.lanes);
  }
};

/// The rotor of a 3 x 3 rotation, scalar part >= 0; false unless the matrix is one to rounding, which the
/// caller is to look into: r is the rotor next to it then, but for its length.
///
/// K = 4 q q^T is linear in the matrix, and every row of it is a multiple of q. That of one of the larger
/// diagonal entries is taken (Shepperd, Quaternion from rotation matrix, 1978): half a turn about axis i
/// before, two signs of columns, makes it the first row. The other entries tell whether K has rank one, as
/// rotations have it and nothing else. There are no branches, which random rotations would mislead.
template <class Scalar>
ROTORLIN_INLINE bool rotor_of_rotation(const SmallSquare<Scalar, 3>& m, Scalar* r) {
  using Four = FourOf<Scalar>;
  // of the six entries beside the diagonal and of the entries on it; lane 0 is empty
  static constexpr Scalar upper_signs[4][4] = {{0, 1, 1, 1}, {0, -1, -1, -1}, {0, -1, -1, 1}, {0, 1, 1, -1}};
  static constexpr Scalar lower_signs[4][4] = {{0, 1, 1, 1}, {0, -1, 1, 1}, {0, 1, -1, -1}, {0, -1, -1, -1}};
  static constexpr Scalar diagonal_signs[4][4] = {
      {0, 1, 1, 1}, {0, 1, -1, -1}, {0, -1, 1, -1}, {0, -1, -1, 1}};
  static constexpr Scalar signs[4][4] = {{1, 1, 1, 1}, {-1, -1, 1, 1}, {-1, 1, 1, -1}, {-1, 1, -1, 1}};
  const Scalar* c = m.data();
  const int negative = -static_cast<int>(c[8] < 0), second = static_cast<int>(c[0] <= c[4]),
            third = -static_cast<int>(c[0] < -c[4]);
  const int i = (negative & (1 + second)) | (~negative & third & 3);  // K_ii >= 1
  const Four first = Four::load(c), middle = Four::load(c + 3), last = Four::load(c + 5);
  const Four upper = Four::template shuffle<0, 2, 1, 4>(last, middle) * Four::load(upper_signs[i]);
  const Four lower_signed = Four::load(lower_signs[i]);
  const Four lower = Four::template shuffle<0, 4, 2, 1>(first, last) * lower_signed;
  const Four diagonal =
      Four::template shuffle<0, 0, 5, 7>(first, Four::template shuffle<0, 1, 6, 7>(middle, last)) *
      Four::load(diagonal_signs[i]);
  Four half = diagonal + Four::template shuffle<2, 3, 0, 1>(diagonal, diagonal);
  const Four w = half + Four::template shuffle<1, 0, 3, 2>(half, half) + Four(1);
  // in the order 1, e23, e13, e12, each lane i xor its own
  const Four q = Four::template shuffle<0, 5, 6, 7>(w, upper - lower);
  const Four squares = q * q;
  constexpr Scalar pair_signs[4] = {0, 1, -1, 1}, no_first[4] = {0, 1, 1, 1};
  const Four rest_of_diagonal = (w * (diagonal + diagonal + (Four(2) - w)) - squares) * Four::load(no_first);
  const Four pairs = Four::template shuffle<0, 2, 3, 1>(q, q) * Four::template shuffle<0, 3, 1, 2>(q, q);
  const Four rest = w * (upper + lower) + pairs * Four::load(pair_signs);
  const Four rests = rest * rest + rest_of_diagonal * rest_of_diagonal;
  const Four both = rests + Four::template shuffle<2, 3, 0, 1>(rests, rests);
  Scalar lanes[4], total[4];
  q.store(lanes);
  both.store(total);
  const Scalar* sign = signs[i];
  const Scalar factor = std::copysign(Scalar(0.5), sign[0] * lanes[i]) / std::sqrt(lanes[0]);
  r[0] = factor * (sign[0] * lanes[i]);
  r[1] = factor * (sign[1] * lanes[3 ^ i]);
  r[2] = factor * (sign[2] * lanes[2 ^ i]);
  r[3] = factor * (sign[3] * lanes[1 ^ i]);
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
  return false;  // comparisons don't see NaN
#else
  constexpr Scalar rounding = 64 * std::numeric_limits<Scalar>::epsilon();
  return total[0] + total[1] <= rounding * rounding;
#endif
}

template <class Scalar>
Scalar determinant(const SmallSquare<Scalar, 3>& m) {
  const Scalar* c = m.data();
  return c[0] * (c[4] * c[8] - c[7] * c[5]) + c[3] * (c[7] * c[2] - c[1] * c[8]) +
         c[6] * (c[1] * c[5] - c[4] * c[2]);
}

/// The even coefficients of a rotation matrix in graded order, of the sign that falls out; false where the
/// determinant is -1. By reflections that take the matrix to a diagonal of signs: exact to rounding for every
/// rotation, by pi or by equal angles too.
template <class Square>
bool rotor_of_rotation(Square rest, typename Square::Scalar* coeffs) {
  using Scalar = typename Square::Scalar;
  constexpr int N = Square::RowsAtCompileTime, max_n = Square::MaxRowsAtCompileTime;
  const int n = static_cast<int>(rest.rows());
  using Octets = detail::Octets<Scalar, N>;
  using Column = Eigen::Matrix<Scalar, N, 1, Eigen::ColMajor, max_n, 1>;
  Octets rotor = Octets::Zero(octet, n > 4 ? Index{1} << (n - 4) : 1), product = rotor;
  rotor(0, 0) = Scalar(1);
  int reflections = 0;
  const auto multiply = [&](const Column& vector) {
    multiply_by_vector<Scalar, N>(rotor, vector.data(), n, product);
    rotor.swap(product);
    ++reflections;
  };
  Column w;
  for (int j = 0; j + 1 < n; ++j) {  // the reflection in w takes column j to e_j or -e_j, the farther one
    w.setZero(n);
    w.tail(n - j) = rest.col(j).tail(n - j);
    w[j] += std::copysign(w.norm(), w[j]);
    w.normalize();
    const Column image = Scalar(2) * rest.transpose().lazyProduct(w);
    rest -= w.lazyProduct(image.transpose());
    multiply(w);
  }
  for (int j = 0; j < n; ++j) {
    if (rest(j, j) < Scalar(0)) multiply(Column::Unit(n, j));
  }
  copy_even<Scalar, N>(rotor, n, coeffs);
  return reflections % 2 == 0;
}

/// |M^T M - 1| at (i, j).
template <class M>
ROTORLIN_INLINE typename M::Scalar orthogonality_error(const M& matrix, Index i, Index j) {
  typename M::Scalar product(i == j ? -1 : 0);
  for (Index k = 0; k < matrix.rows(); ++k) product += matrix.coeff(k, i) * matrix.coeff(k, j);
  return std::abs(product);
}

template <class M>
[[noreturn, gnu::noinline, gnu::cold]] void throw_not_orthogonal(const char* who, const M& matrix) {
  if (!detail::all_finite(matrix)) throw_domain(who, ": the matrix has NaN or infinite entries");
  typename M::Scalar error(0);
  for (Index j = 0; j < matrix.cols(); ++j) {
    for (Index i = 0; i <= j; ++i) error = std::max(error, orthogonality_error(matrix, i, j));
  }
  throw_invalid(who, ": the matrix is not orthogonal, |M^T M - 1| = ", error);
}

/// Throws, in the name of `who`, unless a square matrix is orthogonal to the square root of the rounding
/// unit, and the determinant positive.
template <class M>
void check_rotation(const char* who, const M& matrix, const typename M::Scalar& determinant) {
  using Scalar = typename M::Scalar;
  const Scalar tolerance = std::sqrt(std::numeric_limits<Scalar>::epsilon());
  bool orthogonal = true;
  for (Index j = 0; j < matrix.cols(); ++j) {
    for (Index i = 0; i <= j; ++i) {
      orthogonal = orthogonal && orthogonality_error(matrix, i, j) <= tolerance;
    }
  }
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
  orthogonal = orthogonal && detail::all_finite(matrix);  // comparisons don't see NaN
#endif
  if (!orthogonal) throw_not_orthogonal(who, matrix);
  if (determinant < Scalar(0)) throw_invalid(who, ": the determinant is -1, expected 1");
}

}  // namespace rotorlin::detail
