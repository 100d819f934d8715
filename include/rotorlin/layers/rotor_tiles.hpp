// SPDX-License-Identifier: MIT
/// \file
/// A RotorLinear on tiles, for layers that take a tile through several rotors before they go back to the
/// batch. A tile holds features in packs of `lanes` samples, or one sample as it lies in memory (W = 1).
#pragma once

#include <algorithm>

#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/rotor_linear.hpp"

namespace rotorlin::detail {

/// A view of a layer without bias, on which `prepare` must have been called since its parameters changed. The
/// other calls do not throw, and may run on several threads at once. `memory` is scratch.
template <class S>
class RotorTiles {
  using Layer = RotorLinear<S>;
  using Arena = typename Layer::Arena;
  using Prepared = typename Layer::Prepared;
  static constexpr int W = native_lanes<S>;

 public:
  using Wide = typename Layer::Wide;
  static constexpr int lanes = W;

  explicit RotorTiles(const Layer& layer) : layer_(layer), weights_(layer.prepared_) {}

  /// Makes the kernels' weights, for `backward` too where `adjoint` is true.
  static void prepare(const Layer& layer, bool adjoint) { layer.prepared(adjoint); }

  /// How many samples one by one take as long as a whole tile.
  Index singles_per_tile() const {
    return with_kernel([&]<class K>(K, const auto&) { return K::singles_per_tile(layer_.dimension()); },
                       [] { return Index{0}; });
  }

  /// Scalars of scratch that any call here needs.
  Index memory() const {
    return with_kernel(
        [&]<class K>(K, const auto&) {
          return std::max(layer_.template forward_memory<K>(W), layer_.template backward_memory<K>());
        },
        [] { return Index{0}; });
  }

  /// Scalars of a tile in the domain of the kernel: every input chunk in the form that it works on.
  Index domain_size() const {
    if (dense()) return layer_.in_features() * W;
    return layer_.options().in_chunks * Arena::rounded(layer_.options().chunk * W);
  }

  /// Takes a tile to the domain, for all layers of this one's shape and kernel; null where `forward` and
  /// `backward` have no use for that.
  template <int Lanes>
  const S* enter(const S* x_tile, S* domain, S* memory) const {
    return with_kernel(
        [&]<class K>(K, const auto&) -> const S* {
          if (!K::transforms) return nullptr;
          S* chunk = memory;
          S* scratch = memory + Arena::rounded(layer_.options().chunk * Lanes);
          layer_.template enter_tile<K, Lanes>(x_tile, domain, chunk, scratch);
          return domain;
        },
        []() -> const S* { return nullptr; });
  }

  /// y_tile = layer(x_tile). `entered` is what `enter` made of x_tile, or null.
  template <int Lanes>
  void forward(const S* x_tile, const S* entered, S* y_tile, S* memory) const {
    with_kernel(
        [&]<class K>(K, const auto& operators) {
          Arena arena(memory);
          layer_.template forward_tile<K, Lanes>(operators, x_tile, entered, y_tile, arena);
        },
        [&] {
          const Eigen::Map<const Matrix<S>> x(x_tile, Lanes, layer_.in_features());
          Eigen::Map<Matrix<S>> y(y_tile, Lanes, layer_.out_features());
          y.noalias() = x * weights_.dense.transpose();
        });
  }

  /// Scalars in which the gradients of the parameters are summed over tiles.
  Index sums_size() const {
    return with_kernel(
        [&]<class K>(K, const auto&) { return layer_.num_pairs() * K::gradient_size(layer_.dimension()); },
        [&] { return layer_.in_features() * layer_.out_features(); });
  }

  /// Given dL/dy, adds `scale` dL/dx to `grad_domain` (leave_gradient reads it off), and the gradients of the
  /// parameters to `sums`.
  void backward(const S* x_tile, const S* entered, const S* grad_y_tile, S scale, S* grad_domain, S* sums,
                S* memory) const {
    with_kernel(
        [&]<class K>(K, const auto& operators) {
          layer_.template backward_tile<K>(operators, x_tile, entered, grad_y_tile, scale, grad_domain, sums,
                                           Arena(memory));
        },
        [&] {
          const Index in = layer_.in_features(), out = layer_.out_features();
          const Eigen::Map<const Matrix<S>> x(x_tile, W, in), g(grad_y_tile, W, out);
          Eigen::Map<Matrix<S>>(grad_domain, W, in).noalias() += scale * g * weights_.dense;
          Eigen::Map<Matrix<S>>(sums, out, in).noalias() += g.transpose() * x;
        });
  }

  /// The gradient of x that `backward` of this layer, and of others of its shape and kernel, added up.
  void leave_gradient(const S* grad_domain, S* grad_x_tile, S* memory) const {
    with_kernel(
        [&]<class K>(K, const auto&) {
          layer_.template leave_gradient<K>(grad_domain, grad_x_tile, Arena(memory));
        },
        [&] { std::copy(grad_domain, grad_domain + domain_size(), grad_x_tile); });
  }

  /// Values that `finish` makes of the sums, pair by pair: <gx x~>_2, <gx~ x>_2, <gx, x>.
  Index partial_size() const { return layer_.num_pairs() * pair_size(); }
  void finish(const S* sums, Wide* partial, PackBuffer<S>& memory, PackBuffer<Wide>& wide) const {
    with_kernel([&]<class K>(K, const auto&) { layer_.template finish_all<K>(sums, partial, wide); },
                [&] {
                  const Eigen::Map<const Matrix<S>> outer(sums, layer_.out_features(), layer_.in_features());
                  layer_.finish_dense(weights_, outer, partial, memory, wide);
                });
  }

  /// <g, y> over all samples, out of `finish`: y is linear in every alpha.
  Wide output_dot(const Wide* partial) const {
    Wide sum(0);
    for (Index p = 0; p < layer_.num_pairs(); ++p) {
      sum += static_cast<Wide>(layer_.alpha()[p]) * partial[p * pair_size() + pair_size() - 1];
    }
    return sum;
  }

  /// Adds to layer.gradients() what `finish` made, summed over all tiles.
  static void add_gradients(Layer& layer, const Wide* partial) {
    layer.add_gradients(layer.prepared_, partial);
  }

 private:
  bool dense() const { return layer_.kernel() == Kernel::dense; }
  Index pair_size() const { return 2 * layer_.bivector_size() + 1; }

  template <class F, class D>
  auto with_kernel(F&& body, D&& dense_body) const {
    switch (layer_.kernel()) {
      case Kernel::dense:
        return dense_body();
      case Kernel::parity_blocks:
        return body(ParityKernel<S>{}, weights_.parity);
      case Kernel::shears:
        return body(ShearKernel<S>{}, weights_.shears);
      default:
        return body(SpinorKernel<S>{}, weights_.spinor);
    }
  }

  const Layer& layer_;
  const Prepared& weights_;
};

}  // namespace rotorlin::detail
