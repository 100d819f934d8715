// SPDX-License-Identifier: MIT
/// \file
/// Types of stored values, as safetensors files name them.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rotorlin/core/error.hpp"

namespace rotorlin {

/// The type of stored values. `DType::f32` and the other enumerators are types that the library knows by
/// name; any other name that a file has makes `DType::other`, of which values can be carried as bytes but not
/// read. Converts to the enumerators, so that `switch` works on it.
class DType {
 public:
  /// The types that the library knows by name.
  enum Known : int {
    f64,
    f32,
    f16,
    bf16,
    i64,
    i32,
    i16,
    i8,
    u64,
    u32,
    u16,
    u8,
    boolean,
    f8_e4m3,
    f8_e5m2,
    other
  };

  // NOLINTNEXTLINE(google-explicit-constructor): an enumerator is a DType
  DType(Known known) : known_(known) {
    if (known == other) detail::throw_invalid("DType: 'other' needs a name");
    if (known < f64 || known > other) {
      detail::throw_invalid("DType: ", static_cast<int>(known),
                            ", expected one of the enumeration DType::Known");
    }
  }
  /// By the name that files use: "F32", "BF16", "F4". std::invalid_argument when it is empty.
  explicit DType(std::string name);

  operator Known() const { return known_; }  // NOLINT(google-explicit-constructor)
  /// As it stands in a file, "F32".
  std::string name() const;
  /// Bits of one value, 0 where nothing is known of the type.
  unsigned bits() const;

  friend bool operator==(const DType& a, const DType& b) {
    return a.known_ == b.known_ && a.name_ == b.name_;
  }
  friend bool operator==(const DType& a, Known b) { return a.known_ == b; }

 private:
  Known known_;
  std::string name_;  // of `other`
};

namespace detail {

struct DTypeFacts {
  const char* name;
  unsigned bits;
};
/// In the order of the enumerators up to `other`; behind them, types of which the size is known.
inline constexpr DTypeFacts dtype_facts[] = {
    {"F64", 64},    {"F32", 32},    {"F16", 16},        {"BF16", 16},      {"I64", 64}, {"I32", 32},
    {"I16", 16},    {"I8", 8},      {"U64", 64},        {"U32", 32},       {"U16", 16}, {"U8", 8},
    {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8},    {"F4", 4},   {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"C64", 64},    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};

inline const DTypeFacts* find_dtype(std::string_view name) {
  return std::find_if(std::begin(dtype_facts), std::end(dtype_facts),
                      [&](const DTypeFacts& facts) { return name == facts.name; });
}

}  // namespace detail

inline DType::DType(std::string name) : known_(other) {
  if (name.empty()) detail::throw_invalid("DType: the name is empty");
  const auto place = detail::find_dtype(name) - std::begin(detail::dtype_facts);
  if (place < other) {
    known_ = static_cast<Known>(place);
  } else {
    name_ = std::move(name);
  }
}

inline std::string DType::name() const { return known_ == other ? name_ : detail::dtype_facts[known_].name; }

inline unsigned DType::bits() const {
  const auto* facts = known_ == other ? detail::find_dtype(name_)
                                      : std::begin(detail::dtype_facts) + static_cast<std::size_t>(known_);
  return facts == std::end(detail::dtype_facts) ? 0 : facts->bits;
}

/// Bytes of one value of a known type; 0 where a value is not a whole number of bytes, or nothing is known.
inline std::size_t size_of(const DType& dtype) { return dtype.bits() % 8 == 0 ? dtype.bits() / 8 : 0; }
inline std::string name_of(const DType& dtype) { return dtype.name(); }

/// The dtype that stores a C++ type: double, float, Eigen::half, Eigen::bfloat16, bool and integers.
template <class T>
constexpr DType::Known dtype_of() {
  if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, Eigen::half>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, Eigen::bfloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else {
    static_assert(std::is_integral_v<T>, "safetensors has no dtype for this type");
    constexpr DType::Known of_signed[] = {DType::i8, DType::i16, DType::i32, DType::i64};
    constexpr DType::Known of_unsigned[] = {DType::u8, DType::u16, DType::u32, DType::u64};
    return (std::is_signed_v<T> ? of_signed : of_unsigned)[std::bit_width(sizeof(T)) - 1];
  }
}

}  // namespace rotorlin
