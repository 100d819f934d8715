// SPDX-License-Identifier: MIT
/// \file
/// The geometric product by a table of 4^n signs and positions, as most libraries have it.
#pragma once

#include <cstdint>
#include <vector>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/types.hpp"

namespace bench {

using rotorlin::Index;

/// c = a b in Cl(n), all in graded order: c_k = sum_i sign(i, k) a_i b_position(i, k), row i of the table
/// after row i - 1, so that the inner loop runs along memory and can be vectorised.
template <class S>
class TableProduct {
 public:
  explicit TableProduct(int n) : size_(Index{1} << n), position_(count()), sign_(count()) {
    const rotorlin::BladeTable& blades = rotorlin::blade_table(n);
    std::size_t entry = 0;
    for (const unsigned a : blades.mask) {
      for (const unsigned c : blades.mask) {
        position_[entry] = blades.index[a ^ c];
        sign_[entry++] = static_cast<S>(rotorlin::reorder_sign(a, a ^ c));
      }
    }
  }

  void multiply(const S* a, const S* b, S* __restrict c) const {
    for (Index k = 0; k < size_; ++k) c[k] = 0;
    const std::uint16_t* position = position_.data();
    const S* sign = sign_.data();
    for (Index i = 0; i < size_; ++i, position += size_, sign += size_) {
      for (Index k = 0; k < size_; ++k) c[k] += a[i] * sign[k] * b[position[k]];
    }
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(size_ * size_); }
  Index size_;
  std::vector<std::uint16_t> position_;
  std::vector<S> sign_;
};

}  // namespace bench
