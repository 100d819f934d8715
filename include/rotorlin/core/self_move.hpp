// SPDX-License-Identifier: MIT
/// \file
/// Members of a class that stay as they are where an object is moved to itself, as numbers and Eigen's
/// matrices do: the vectors of the standard library come out empty.
#pragma once

#include <utility>

namespace rotorlin::detail {

template <class T>
class KeptOnSelfMove : public T {
 public:
  using T::T;
  using T::operator=;
  KeptOnSelfMove() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): it is a T
  KeptOnSelfMove(T value) : T(std::move(value)) {}
  KeptOnSelfMove(const KeptOnSelfMove&) = default;
  KeptOnSelfMove(KeptOnSelfMove&&) = default;
  KeptOnSelfMove& operator=(const KeptOnSelfMove&) = default;
  KeptOnSelfMove& operator=(KeptOnSelfMove&& other) noexcept {
    if (this != &other) T::operator=(static_cast<T&&>(other));
    return *this;
  }
  ~KeptOnSelfMove() = default;
};

}  // namespace rotorlin::detail
