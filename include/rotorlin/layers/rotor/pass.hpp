// SPDX-License-Identifier: MIT
/// \file
/// A rotor layer on one tile of a batch: what RotorLinear does once for every tile, and RotorNetwork several
/// times before it goes back to the batch.
#pragma once

#include "rotorlin/core/arena.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/rotor/chunking.hpp"
#include "rotorlin/layers/rotor/dense_pass.hpp"
#include "rotorlin/layers/rotor/kernel_pass.hpp"
#include "rotorlin/layers/rotor/weights.hpp"

namespace rotorlin::detail {

/// Through the kernel that the layer has chosen. A tile holds features in packs of native_lanes<S> samples,
/// or one sample as it lies in memory (W = 1). No call throws, and all are const.
template <class S>
class RotorPass {
 public:
  explicit RotorPass(const RotorView<S>& view) : RotorPass(view, view.shape.kernel) {}
  /// Through shape.kernel or, forward only, shape.sample_kernel.
  RotorPass(const RotorView<S>& view, Kernel kernel) : view_(view), kernel_(kernel) {}

  /// body(DensePass or KernelPass<K, S>).
  template <class F>
  auto visit(F&& body) const {
    if (kernel_ == Kernel::dense) return body(DensePass<S>(view_));
    return visit_kernel<S>(kernel_, [&]<class K>(K) { return body(KernelPass<K, S>(view_)); });
  }

  /// How many samples one by one take as long as a whole tile.
  Index singles_per_tile() const {
    return visit([](const auto& pass) { return pass.singles_per_tile(); });
  }

  /// Scalars of a tile in the domain of the kernel: every input chunk in the form that it works on.
  Index domain_size() const {
    return visit([](const auto& pass) { return pass.domain_size(); });
  }

  /// Takes a tile to the domain, for all layers of this one's shape and kernel; null where `forward` and
  /// `backward` have no use for that. Needs no more of the arena than `forward`.
  template <int W>
  const S* enter(const S* x_tile, S* domain, Arena<S> arena) const {
    return visit([&](const auto& pass) { return pass.template enter<W>(x_tile, domain, arena); });
  }

  /// What `forward` takes from an arena, for packs of `width` samples.
  Index forward_memory(int width) const {
    return visit([&](const auto& pass) { return pass.forward_memory(width); });
  }
  /// y_tile = layer(x_tile). `entered` is what `enter` made of x_tile, or null.
  template <int W>
  void forward(const S* x_tile, const S* entered, S* y_tile, Arena<S> arena) const {
    visit([&](const auto& pass) { pass.template forward<W>(x_tile, entered, y_tile, arena); });
  }

  /// What `backward` and `leave_gradient` take from an arena.
  Index backward_memory() const {
    return visit([](const auto& pass) { return pass.backward_memory(); });
  }
  /// Scalars in which the gradients of the parameters are summed over tiles.
  Index sums_size() const {
    return visit([](const auto& pass) { return pass.sums_size(); });
  }
  /// How many samples one by one take as long as a whole tile, backward; 0 where only tiles are taken.
  Index singles_of_gradient() const {
    return visit([](const auto& pass) { return pass.singles_of_gradient(); });
  }
  /// Given dL/dy, adds `scale` dL/dx to `grad_domain` (leave_gradient reads it off), and the gradients of the
  /// parameters to `sums`.
  template <int W>
  void backward(const S* x_tile, const S* entered, const S* grad_y_tile, S scale, S* grad_domain, S* sums,
                Arena<S> arena) const {
    visit([&](const auto& pass) {
      pass.template backward<W>(x_tile, entered, grad_y_tile, scale, grad_domain, sums, arena);
    });
  }
  /// The gradient of x that `backward` of this layer, and of others of its shape and kernel, added up.
  template <int W>
  void leave_gradient(const S* grad_domain, S* grad_x_tile, Arena<S> arena) const {
    visit([&](const auto& pass) { pass.template leave_gradient<W>(grad_domain, grad_x_tile, arena); });
  }

  /// Values that `finish` makes of the sums, pair by pair: <gx x~>_2, <gx~ x>_2, <gx, x>. It uses the memory
  /// of the sums up.
  Index partial_size() const { return view_.shape.pairs() * pair_size(); }
  void finish(S* sums, Wide<S>* partial, PackBuffer<Wide<S>>& wide) const {
    visit([&](const auto& pass) { pass.finish(sums, partial, wide); });
  }

  /// <g, y> over all samples, out of `finish`: y is linear in every alpha.
  Wide<S> output_dot(const Wide<S>* partial) const {
    Wide<S> sum(0);
    for (Index p = 0; p < view_.shape.pairs(); ++p)
      sum += static_cast<Wide<S>>(view_.alpha[p]) * partial[(p + 1) * pair_size() - 1];
    return sum;
  }

  /// Adds what `finish` made, summed over all tiles, to the gradients of the rotor parameters: dL/db_left =
  /// alpha phi(ad_b) <gx x~>_2, dL/db_right = alpha phi(ad_c) <gx~ x>_2, dL/dalpha = <gx, x>, exact at every
  /// point.
  void add_gradients(const Wide<S>* partial, S* gradients) const {
    const RotorChunking<S>& shape = view_.shape;
    const Index size = shape.bivector_size();
    Bivector<Wide<S>, Dynamic> h(shape.n);
    for (Index p = 0; p < shape.pairs(); ++p, partial += pair_size()) {
      const auto scale = static_cast<Wide<S>>(view_.alpha[p]);
      const auto add = [&](const auto& decomposition, Index offset) {
        const auto change = decomposition.phi(h, 1);
        for (Index k = 0; k < size; ++k)
          gradients[offset + p * size + k] += static_cast<S>(scale * change[k]);
      };
      if (shape.single_rotor) {
        for (Index k = 0; k < size; ++k) h[k] = partial[k] + partial[size + k];
        add(view_.weights.left(p), 0);
      } else {
        for (Index k = 0; k < size; ++k) h[k] = partial[k];
        add(view_.weights.left(p), 0);
        for (Index k = 0; k < size; ++k) h[k] = partial[size + k];
        add(view_.weights.right(p), shape.right_offset());
      }
      gradients[shape.alpha_offset() + p] += static_cast<S>(partial[2 * size]);
    }
  }

 private:
  Index pair_size() const { return 2 * view_.shape.bivector_size() + 1; }

  RotorView<S> view_;
  Kernel kernel_;
};

}  // namespace rotorlin::detail
