// SPDX-License-Identifier: MIT
/// \file
/// A rotor layer on one tile, through a sandwich kernel: chunks enter the domain of the kernel, rotor pairs
/// act there, results leave it.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "rotorlin/core/arena.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/rotor/chunking.hpp"
#include "rotorlin/layers/rotor/weights.hpp"

namespace rotorlin::detail {

/// What a pass works on, for as long as the layer's parameters stay as they are.
template <class S>
struct RotorView {
  const RotorChunking<S>& shape;
  const RotorWeights<S>& weights;
  const S* alpha;  ///< one a pair
  const S* bias;   ///< one a feature of y, or null
  S bias_scale = S(1);
};

/// The calls of a pass; RotorPass (pass.hpp) says what each of them does. W is native_lanes<S>, or 1 in what
/// has it as a parameter.
template <class K, class S>
class KernelPass {
  static constexpr int lanes = native_lanes<S>;

 public:
  explicit KernelPass(const RotorView<S>& view)
      : shape_(view.shape),
        pairs_(view.weights.template of<K>()),
        alpha_(view.alpha),
        bias_(view.bias),
        bias_scale_(view.bias_scale) {}

  Index singles_per_tile() const { return K::singles_per_tile(shape_.n); }
  Index domain_size() const { return shape_.in_chunks * padded(lanes); }

  template <int W>
  const S* enter(const S* x_tile, S* domain, Arena<S> arena) const {
    if (!K::transforms) return nullptr;
    S* chunk = arena.take(shape_.chunk * W);
    enter_all<W>(x_tile, domain, chunk, arena.take(K::scratch_size(shape_.n) * W));
    return domain;
  }

  Index forward_memory(int width) const {
    return measure<S>([&](Arena<S>& arena) { Forward(*this, width, arena); });
  }
  template <int W>
  void forward(const S* x_tile, const S* entered, S* y_tile, Arena<S> arena) const {
    const Forward memory(*this, W, arena);
    if (entered == nullptr && K::transforms && shape_.out_chunks > 1) {
      enter_all<W>(x_tile, memory.domains, memory.chunk, memory.scratch);
      entered = memory.domains;
    }
    // y = sum of alpha r x s~ over all that acts on output chunk o, in the domain
    const auto apply = [&](Index o, S* y) {
      for (Index i = 0; i < shape_.in_chunks; ++i) {
        // where kernel K leaves the coefficients as they are, contiguous chunks are used in place
        const S* x = entered != nullptr ? entered + i * padded(W)
                                        : enter_one<W>(x_tile, i, memory.domains + i * padded(W),
                                                       memory.chunk, memory.scratch);
        for (Index w = 0; w < shape_.width; ++w) {
          const auto& op = pairs_[static_cast<std::size_t>(shape_.pair(i, o, w))].forward;
          if (i == 0 && w == 0) {
            K::template apply<W, false>(shape_.n, op, x, y, memory.scratch);
          } else {
            K::template apply<W, true>(shape_.n, op, x, y, memory.scratch);
          }
        }
      }
    };
    if (shape_.in_chunks == 1 && shape_.out_chunks == 1) {
      S* domain = K::transforms ? memory.result : y_tile;
      apply(0, domain);
      K::template leave<W>(shape_.n, domain, y_tile, memory.scratch);
      if (bias_ == nullptr) return;
      for (Index f = 0; f < shape_.out; ++f) {
        store<S, W>(y_tile + f * W, load<S, W>(y_tile + f * W) + bias_scale_ * bias_[f]);
      }
      return;
    }
    for (Index f = 0; f < shape_.out; ++f) {
      store<S, W>(y_tile + f * W, Pack<S, W>{} + (bias_ == nullptr ? S(0) : bias_scale_ * bias_[f]));
    }
    for (Index o = 0; o < shape_.out_chunks; ++o) {
      apply(o, memory.result);
      const S* y = K::template leave<W>(shape_.n, memory.result, memory.chunk, memory.scratch);
      shape_.template scatter_scaled<W>(y, o, y_tile);
    }
  }

  Index sums_size() const { return shape_.pairs() * K::gradient_size(shape_.n); }
  Index backward_memory() const {
    return measure<S>([&](Arena<S>& arena) { Backward(*this, arena); });
  }
  Index singles_of_gradient() const { return K::singles_of_gradient(shape_.n); }
  template <int W>
  void backward(const S* x_tile, const S* entered, const S* grad_y_tile, S scale, S* grad_domain, S* sums,
                Arena<S> arena) const {
    const Index size = shape_.chunk * W;
    const Backward memory(*this, arena);
    if (entered == nullptr && K::transforms) {
      enter_all<W>(x_tile, memory.domains, memory.chunk, memory.scratch);
      entered = memory.domains;
    }
    for (Index o = 0; o < shape_.out_chunks; ++o) {
      shape_.template gather_scaled<W>(grad_y_tile, o, memory.grad_chunk);
      const S* g = K::template enter<W>(shape_.n, memory.grad_chunk, memory.grad_domain, memory.scratch);
      for (Index i = 0; i < shape_.in_chunks; ++i) {
        const S* x = entered != nullptr
                         ? entered + i * padded(W)
                         : enter_one<W>(x_tile, i, memory.domains, memory.chunk, memory.scratch);
        S* grad_input = grad_domain + i * padded(W);
        for (Index w = 0; w < shape_.width; ++w) {
          const Index p = shape_.pair(i, o, w);
          const auto& op = pairs_[static_cast<std::size_t>(p)].adjoint;
          K::template apply<W, false>(shape_.n, op, g, memory.product, memory.scratch);
          const S factor = scale * alpha_[p];
          for_each_pack(size, [&](auto width, Index k) {
            constexpr int L = decltype(width)::value;
            store<S, L>(grad_input + k, load<S, L>(grad_input + k) + load<S, L>(memory.product + k) * factor);
          });
          K::template gradient<W>(shape_.n, memory.product, x, sums + p * K::gradient_size(shape_.n),
                                  memory.scratch);
        }
      }
    }
  }

  template <int W>
  void leave_gradient(const S* grad_domain, S* grad_x_tile, Arena<S> arena) const {
    S* chunk = arena.take(shape_.chunk * W);
    S* scratch = arena.take(K::scratch_size(shape_.n) * W);
    std::fill(grad_x_tile, grad_x_tile + shape_.in * W, S(0));
    for (Index i = 0; i < shape_.in_chunks; ++i) {
      const S* gx = K::template leave<W>(shape_.n, grad_domain + i * padded(W), chunk, scratch);
      shape_.template scatter<W>(gx, i, grad_x_tile);
    }
  }

  void finish(S* sums, Wide<S>* partial, PackBuffer<Wide<S>>& wide) const {
    const Index bivectors = shape_.bivector_size();
    for (Index p = 0; p < shape_.pairs(); ++p, partial += 2 * bivectors + 1) {
      K::finish_gradient(shape_.n, sums + p * K::gradient_size(shape_.n), partial, partial + bivectors,
                         partial[2 * bivectors], wide);
    }
  }

 private:
  /// body(integral_constant<int, L>, k) for packs of L scalars from position k of `size` scalars.
  template <class F>
  static void for_each_pack(Index size, const F& body) {
    Index k = 0;
    for (; k + lanes <= size; k += lanes) body(std::integral_constant<int, lanes>{}, k);
    for (; k < size; ++k) body(std::integral_constant<int, 1>{}, k);
  }

  /// Scalars from one chunk in the domain to the next.
  Index padded(int width) const { return Arena<S>::rounded(shape_.chunk * width); }

  struct Forward {
    S *domains, *result, *chunk, *scratch;
    Forward(const KernelPass& pass, int width, Arena<S>& arena)
        : domains(arena.take(pass.shape_.in_chunks * pass.padded(width))),
          result(arena.take(pass.shape_.chunk * width)),
          chunk(arena.take(pass.shape_.chunk * width)),
          scratch(arena.take(K::scratch_size(pass.shape_.n) * width)) {}
  };
  struct Backward {
    S *domains, *grad_domain, *product, *grad_chunk, *scratch;
    S* chunk;
    Backward(const KernelPass& pass, Arena<S>& arena)
        : domains(arena.take(pass.shape_.in_chunks * pass.padded(lanes))),
          grad_domain(arena.take(pass.shape_.chunk * lanes)),
          product(arena.take(pass.shape_.chunk * lanes)),
          grad_chunk(K::transforms ? product : arena.take(pass.shape_.chunk * lanes)),
          scratch(arena.take(
              std::max(K::scratch_size(pass.shape_.n), K::gradient_scratch_size(pass.shape_.n)) * lanes)),
          chunk(product) {}  // both are done with before the first product: less memory stays in the cache
  };

  template <int W>
  const S* enter_one(const S* x_tile, Index i, S* domain, S* chunk, S* scratch) const {
    const S* features = shape_.template gather<W>(x_tile, i, K::transforms ? chunk : domain);
    return K::template enter<W>(shape_.n, features, domain, scratch);
  }
  template <int W>
  void enter_all(const S* x_tile, S* domains, S* chunk, S* scratch) const {
    for (Index i = 0; i < shape_.in_chunks; ++i)
      enter_one<W>(x_tile, i, domains + i * padded(W), chunk, scratch);
  }

  const RotorChunking<S>& shape_;
  const std::vector<typename K::Weights>& pairs_;
  const S *alpha_, *bias_;
  S bias_scale_;
};

}  // namespace rotorlin::detail
