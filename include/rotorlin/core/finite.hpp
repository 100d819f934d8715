// SPDX-License-Identifier: MIT
/// \file
/// "Is there a NaN or an infinity in here?", answered by bit patterns: std::isfinite and x == x are constants
/// to a compiler under -ffast-math. The library asks nowhere else.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// Whether the compiler takes every number for finite (-ffast-math): then NaN in an argument is no reason for
/// NaN in a result, and the argument itself has to be looked at.
#if defined(ROTORLIN_ALLOW_FAST_MATH)
inline constexpr bool results_show_nan = false;
#else
inline constexpr bool results_show_nan = true;
#endif

/// The exponent's bits; all of them are set in NaN and infinities, and only there.
inline constexpr std::uint32_t float_exponent = 0x7f800000u;
inline constexpr std::uint64_t double_exponent = 0x7ff0000000000000u;

/// Whether x is neither NaN nor infinite. For scalars other than float, double and long double it is their
/// own isfinite, found by its namespace.
template <class S>
bool is_finite(const S& x) {
  if constexpr (std::is_integral_v<S>) {
    return true;
  } else if constexpr (std::is_same_v<S, float>) {
    return (std::bit_cast<std::uint32_t>(x) & float_exponent) != float_exponent;
  } else if constexpr (std::is_same_v<S, double>) {
    return (std::bit_cast<std::uint64_t>(x) & double_exponent) != double_exponent;
  } else if constexpr (std::is_same_v<S, long double> && std::endian::native == std::endian::little) {
    if constexpr (std::numeric_limits<S>::digits == 53) {
      return is_finite(static_cast<double>(x));
    } else {  // x87: sign and exponent are bytes 8 and 9; IEEE quadruple: bytes 14 and 15
      std::uint16_t top;
      constexpr int at = std::numeric_limits<S>::digits == 64 ? 8 : 14;
      std::memcpy(&top, reinterpret_cast<const char*>(&x) + at, sizeof(top));
      return (top & 0x7fffu) != 0x7fffu;
    }
  } else if constexpr (std::is_floating_point_v<S>) {
    return std::isfinite(x);
  } else {  // Eigen's AutoDiffScalar and its like
    const S zero = x - x;
    return zero == S(0);
  }
}

/// The same of n numbers side by side.
template <class S>
bool all_finite(const S* x, Index n) {
  if constexpr (std::is_same_v<S, float> || std::is_same_v<S, double>) {
    // Without branches: adding one to an exponent of nothing but ones carries into the sign.
    using Bits = std::conditional_t<std::is_same_v<S, float>, std::uint32_t, std::uint64_t>;
    constexpr Bits exponent = static_cast<Bits>(std::is_same_v<S, float> ? float_exponent : double_exponent);
    constexpr Bits one = exponent & (~exponent + 1);
    constexpr Index side = 8;
    Bits carry[side] = {};
    Index i = 0;
    for (; i + side <= n; i += side) {
      for (Index k = 0; k < side; ++k) carry[k] |= (std::bit_cast<Bits>(x[i + k]) & exponent) + one;
    }
    for (; i < n; ++i) carry[0] |= (std::bit_cast<Bits>(x[i]) & exponent) + one;
    Bits any = 0;
    for (Index k = 0; k < side; ++k) any |= carry[k];
    return (any >> (8 * sizeof(Bits) - 1)) == 0;
  } else {
    for (Index i = 0; i < n; ++i) {
      if (!is_finite(x[i])) return false;
    }
    return true;
  }
}

/// Whether every entry is finite, of a matrix, map, reference or block without a copy, of an expression by
/// its value.
template <class Derived>
bool all_finite(const Eigen::DenseBase<Derived>& m) {
  const Derived& values = m.derived();
  if constexpr ((Derived::Flags & Eigen::DirectAccessBit) != 0) {
    if (values.size() == 0) return true;
    if (values.innerStride() == 1) {
      if (values.innerSize() == values.outerStride() || values.outerSize() == 1)
        return all_finite(values.data(), values.size());
      for (Index j = 0; j < values.outerSize(); ++j) {
        if (!all_finite(values.data() + j * values.outerStride(), values.innerSize())) return false;
      }
      return true;
    }
    for (Index j = 0; j < values.outerSize(); ++j) {
      for (Index i = 0; i < values.innerSize(); ++i) {
        if (!is_finite(values.data()[j * values.outerStride() + i * values.innerStride()])) return false;
      }
    }
    return true;
  } else {
    return all_finite(values.eval());
  }
}

}  // namespace rotorlin::detail
