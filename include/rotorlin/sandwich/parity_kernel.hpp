// SPDX-License-Identifier: MIT
/// \file
/// The sandwich x -> alpha r x s~ as two dense matrices. Rotors are even, so the map keeps even and odd
/// blades apart: two blocks of 2^(n-1) x 2^(n-1). For n <= 5 nothing is cheaper.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/sandwich/sandwich_kernel.hpp"
#include "rotorlin/sandwich/spinor_kernel.hpp"

namespace rotorlin::detail {

/// Positions, in graded order, of the even blades and then of the odd ones.
struct ParityOrder {
  std::vector<std::uint16_t> blade;
};

inline std::unique_ptr<const ParityOrder> make_parity_order(int n) {
  auto order = std::make_unique<ParityOrder>();
  const BladeTable& blades = blade_table(n);
  for (int parity : {0, 1}) {
    for (std::size_t i = 0; i < blades.mask.size(); ++i) {
      if (std::popcount(blades.mask[i]) % 2 == parity) order->blade.push_back(static_cast<std::uint16_t>(i));
    }
  }
  return order;
}

inline const std::vector<std::uint16_t>& parity_order(int n) {
  return once_per_dimension<ParityOrder, make_parity_order>(n).blade;
}

/// The kernel of dense parity blocks: `W` samples side by side, or one sample by itself (W = 1).
template <class S>
struct ParityKernel {
  struct Operator {
    VectorX<S> panels;  ///< even, odd: 2^(n-1) x 2^(n-1) in panels
    VectorX<S> rows;    ///< even, odd: the transposes, unpacked, row after row, for a single sample
  };
  struct Weights {
    Operator forward;
    Operator adjoint;
    Matrix<S> blocks;                          ///< 2^(n-1) x 2^n: even, odd, without alpha
    typename SpinorKernel<S>::Weights spinor;  ///< from which the blocks are made
    PackBuffer<S> memory;
  };

  static constexpr std::string_view name = "parity_blocks";
  static constexpr bool single_rotor_only = false;
  static constexpr bool transforms = true;
  static constexpr bool fastest(int n, bool, Index) { return n <= 5; }
  static double work(int n) { return std::ldexp(1.0, 2 * n); }
  static Index scratch_size(int) { return 0; }
  static Index singles_per_tile(int) { return 2; }

  template <class Wide>
  static void prepare(const RotorPair<Wide>& pair, Wide alpha, bool with_adjoint, Weights& weights,
                      PackBuffer<Wide>& memory) {
    const Index size = Index{1} << pair.n;
    const Index block = size / 2;
    const std::vector<std::uint16_t>& order = parity_order(pair.n);
    using Spinor = SpinorKernel<S>;
    Spinor::prepare(pair, Wide(1), false, weights.spinor, memory);
    S* x = weights.memory.reserve(4 * size);
    S* domain = x + size;
    S* y = domain + size;
    S* scratch = y + size;
    weights.blocks.resize(block, size);
    for (Index column = 0; column < size; ++column) {
      std::fill(x, x + size, S(0));
      x[order[static_cast<std::size_t>(column)]] = S(1);
      Spinor::template enter<1>(pair.n, x, domain, scratch);
      Spinor::template apply<1, false>(pair.n, weights.spinor.forward, domain, y, scratch);
      Spinor::template leave<1>(pair.n, y, x, scratch);
      const auto* rows = order.data() + (column < block ? 0 : block);
      for (Index row = 0; row < block; ++row) weights.blocks(row, column) = x[rows[row]];
    }
    fill(weights.blocks, static_cast<S>(alpha), false, weights.forward);
    if (with_adjoint) fill(weights.blocks, S(1), true, weights.adjoint);
  }

  template <int W>
  static const S* enter(int n, const S* coefficients, S* domain, S*) {
    const std::vector<std::uint16_t>& order = parity_order(n);
    for (Index i = 0; i < Index{1} << n; ++i) {
      store<S, W>(domain + i * W, load<S, W>(coefficients + Index{order[static_cast<std::size_t>(i)]} * W));
    }
    return domain;
  }
  template <int W>
  static const S* leave(int n, const S* domain, S* coefficients, S*) {
    const std::vector<std::uint16_t>& order = parity_order(n);
    for (Index i = 0; i < Index{1} << n; ++i) {
      store<S, W>(coefficients + Index{order[static_cast<std::size_t>(i)]} * W, load<S, W>(domain + i * W));
    }
    return coefficients;
  }

  template <int W, bool Add>
  static void apply(int n, const Operator& op, const S* x, S* y, S*) {
    const Index block = (Index{1} << n) / 2;
    for (Index part = 0; part < 2; ++part) {
      if constexpr (W > 1) {
        multiply<S, W, Add>(op.panels.data() + part * block * block, block, block,
                            {x + part * block * W, W, 0}, 1, {y + part * block * W, W, 0});
      } else {
        with_row_lanes<S>(block, [&](auto lanes) {
          constexpr int V = decltype(lanes)::value;
          multiply_unpacked<S, V, Add>(x + part * block, block, 1, block,
                                       {op.rows.data() + part * block * block, block, V}, block / V,
                                       {y + part * block, 0, V});
        });
      }
    }
  }

  /// The matrices sum gx x^T of even and odd blades.
  static Index gradient_size(int n) { return Index{1} << (2 * n - 1); }
  static Index gradient_scratch_size(int) { return 0; }
  static Index singles_of_gradient(int) { return 0; }

  template <int W>
  static void gradient(int n, const S* gx, const S* x, S* sums, S*) {
    const Index block = (Index{1} << n) / 2;
    for (Index part = 0; part < 2; ++part) {
      const S* g = gx + part * block * W;
      const S* v = x + part * block * W;
      S* out = sums + part * block * block;
      for (Index row = 0; row < block; ++row) {
        const Pack<S, W> value = load<S, W>(g + row * W);
        for (Index column = 0; column < block; ++column) {
          out[column * block + row] += sum_lanes<S, W>(value * load<S, W>(v + column * W));
        }
      }
    }
  }

  /// The bivector parts <gx x~>_2 and <gx~ x>_2 and the scalar <gx, x> out of the matrices of sums.
  template <class Wide>
  static void finish_gradient(int n, const S* sums, Wide* left, Wide* right, Wide& dot, PackBuffer<Wide>&) {
    const BladeTable& blades = blade_table(n);
    const std::vector<std::uint16_t>& order = parity_order(n);
    const std::size_t size = order.size();
    const std::size_t block = size / 2;
    const Index bivectors = Index{n} * (n - 1) / 2;
    std::fill(left, left + bivectors, Wide(0));
    std::fill(right, right + bivectors, Wide(0));
    dot = Wide(0);
    const auto reversion = [](unsigned mask) { return std::popcount(mask) % 4 >= 2 ? -1 : 1; };
    for (std::size_t column = 0; column < size; ++column) {
      const std::size_t first = column < block ? 0 : block;
      const unsigned x = blades.mask[order[column]];
      for (std::size_t row = 0; row < block; ++row) {
        const unsigned gx = blades.mask[order[first + row]];
        const auto value = static_cast<Wide>(sums[column * block + row]);
        if (gx == x) dot += value;
        if (std::popcount(gx ^ x) != 2) continue;
        const std::size_t bivector = blades.index[gx ^ x] - static_cast<std::size_t>(n + 1);
        const int sign = reorder_sign(gx, x);
        left[bivector] += static_cast<Wide>(sign * reversion(x)) * value;
        right[bivector] += static_cast<Wide>(sign * reversion(gx)) * value;
      }
    }
  }

 private:
  static void fill(const Matrix<S>& blocks, S scale, bool adjoint, Operator& op) {
    const Index block = blocks.rows();
    op.panels.resize(2 * block * block);
    op.rows.resize(2 * block * block);
    for (Index part = 0; part < 2; ++part) {
      const auto entry = [&](Index to, Index from) {
        return scale * (adjoint ? blocks(from, part * block + to) : blocks(to, part * block + from));
      };
      pack_panels(block, block, entry, op.panels.data() + part * block * block);
      S* rows = op.rows.data() + part * block * block;
      for (Index from = 0; from < block; ++from) {
        for (Index to = 0; to < block; ++to) *rows++ = entry(to, from);
      }
    }
  }
};

static_assert(SandwichKernel<ParityKernel<float>, float>);

}  // namespace rotorlin::detail
