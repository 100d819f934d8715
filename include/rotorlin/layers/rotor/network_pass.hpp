// SPDX-License-Identifier: MIT
/// \file
/// A rotor network on one tile of a batch, from end to end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "rotorlin/core/arena.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/activation.hpp"
#include "rotorlin/layers/normalized_activation.hpp"
#include "rotorlin/layers/rotor/chunking.hpp"
#include "rotorlin/layers/rotor/network_options.hpp"
#include "rotorlin/layers/rotor/pass.hpp"
#include "rotorlin/layers/rotor/weights.hpp"

namespace rotorlin::detail {

/// The rotor layers of a network: number 0 from in to hidden features, then the branches of the hidden
/// blocks, then what makes y. Their parameters lie one behind the other, then the branch weights.
template <class S>
struct RotorNetworkShape {
  RotorNetworkOptions options;
  RotorChunking<S> first, hidden, last;

  /// Of options that `complete` made.
  RotorNetworkShape(Index in, Index out, const RotorNetworkOptions& completed)
      : options(completed),
        first(chunking(in, completed.hidden)),
        hidden(chunking(completed.hidden, completed.hidden)),
        last(chunking(completed.hidden, out)) {}

  Index output_rotor() const { return num_inner_rotors(options); }
  Index num_rotors() const { return output_rotor() + num_output_rotors(options); }
  Index branch(Index block, Index number) const { return 1 + block * options.width + number; }
  const RotorChunking<S>& of(Index rotor) const {
    return rotor == 0 ? first : rotor < output_rotor() ? hidden : last;
  }
  /// Where the parameters of a rotor layer begin; behind the last one, the branch weights.
  Index offset(Index rotor) const {
    if (rotor == 0) return 0;
    const Index inner = std::min(rotor, output_rotor()) - 1;
    return first.parameters() + inner * hidden.parameters() + (rotor - 1 - inner) * last.parameters();
  }
  bool residual_input() const { return options.residual && first.in == options.hidden; }
  bool residual_output() const {
    return options.residual && !options.parallel_output && last.out == options.hidden;
  }

 private:
  RotorChunking<S> chunking(Index from, Index to) const {
    return RotorChunking<S>(from, to, complete(from, to, rotor_options(options)));
  }
};

/// Of every rotor layer.
template <class S>
using NetworkWeights = std::vector<RotorWeights<S>>;

/// A view of a network, valid as long as its parameters stay as they are. All calls are const.
template <class S>
class RotorNetworkPass {
  using Pass = RotorPass<S>;
  using Between = NormalizedActivation<S>;
  static constexpr int lanes = native_lanes<S>;

 public:
  RotorNetworkPass(const RotorNetworkShape<S>& shape, const NetworkWeights<S>& weights, const S* parameters,
                   const std::vector<Permutation>& permutations)
      : shape_(shape),
        options_(shape.options),
        weights_(weights),
        parameters_(parameters),
        permutations_(permutations) {}

  Pass rotor(Index number) const {
    const RotorChunking<S>& shape = shape_.of(number);
    const S* alpha = parameters_ + shape_.offset(number) + shape.alpha_offset();
    return Pass({shape, weights_[static_cast<std::size_t>(number)], alpha, nullptr});
  }

 private:
  const std::int32_t* order_of(Index number) const {
    return permutations_.empty() ? nullptr : permutations_[static_cast<std::size_t>(number)].data();
  }
  const S* behind_rotors() const { return parameters_ + shape_.offset(shape_.num_rotors()); }
  S branch_weight(Index number) const { return behind_rotors()[number]; }
  Between between() const {
    const S slope =
        options_.activation == Activation::prelu ? behind_rotors()[num_branch_weights(options_)] : S(0);
    return {options_.hidden, options_.normalize, static_cast<S>(options_.epsilon), options_.activation,
            slope};
  }

  /// The largest that `size(pass)` is for a rotor layer; those of one shape are alike.
  template <class F>
  Index largest(const F& size) const {
    Index result = 0;
    for (const Index i : {Index{0}, Index{1}, shape_.output_rotor()}) {
      if (i < shape_.num_rotors()) result = std::max(result, size(rotor(i)));
    }
    return result;
  }

 public:
  Index singles_per_tile() const { return rotor(0).singles_per_tile(); }
  /// What `forward` takes from an arena.
  Index forward_memory() const {
    return measure<S>([&](Arena<S>& arena) { Forward(*this, arena); });
  }
  struct Forward {
    S *z, *h, *next, *domain;
    Arena<S> rest;
    Forward(const RotorNetworkPass& network, Arena<S>& arena) {
      const Index hidden = network.options_.hidden;
      z = arena.take(std::max(hidden, network.shape_.last.out) * lanes);
      h = arena.take(hidden * lanes);
      next = arena.take(hidden * lanes);
      domain = arena.take(network.largest([](const Pass& pass) { return pass.domain_size(); }));
      rest = arena;
      arena.take(network.largest([](const Pass& pass) { return pass.forward_memory(lanes); }));
    }
  };

  template <int W>
  void forward(const S* x, S* y, Arena<S> arena) const {
    const Index hidden = options_.hidden;
    const Index out = shape_.last.out;
    Forward memory(*this, arena);
    const Between between = this->between();
    S *z = memory.z, *h = memory.h, *next = memory.next;
    rotor(0).template forward<W>(x, nullptr, z, memory.rest);
    between.template forward<W>(z, order_of(0), S(1), false, h);
    if (shape_.residual_input()) add_tile<S, W>(hidden, x, S(1), true, h);
    for (Index block = 0; block < options_.depth; ++block) {
      const S* entered = rotor(shape_.branch(block, 0)).template enter<W>(h, memory.domain, memory.rest);
      // once h is in the domain, its memory is free for the sum over branches
      S* sum = entered != nullptr ? h : next;
      for (Index b = 0; b < options_.width; ++b) {
        const Index number = shape_.branch(block, b);
        rotor(number).template forward<W>(h, entered, z, memory.rest);
        between.template forward<W>(z, order_of(number), branch_weight(block * options_.width + b), b > 0,
                                    sum);
      }
      if (sum == next) std::swap(h, next);
    }
    if (options_.parallel_output) {
      const S* entered = rotor(shape_.output_rotor()).template enter<W>(h, memory.domain, memory.rest);
      for (Index b = 0; b < options_.width; ++b) {
        rotor(shape_.output_rotor() + b).template forward<W>(h, entered, z, memory.rest);
        add_tile<S, W>(out, z, branch_weight(options_.depth * options_.width + b), b > 0, y);
      }
      return;
    }
    rotor(shape_.output_rotor()).template forward<W>(h, nullptr, y, memory.rest);
    if (shape_.residual_output()) add_tile<S, W>(out, h, S(1), true, y);
  }

  // ---- backward. Partial sums of one group: what RotorPass::finish makes of every rotor layer, then the
  // branch weights, then the weight of the activation.

  Index partial_size() const {
    Index size = num_branch_weights(options_) + 1;
    for (Index i = 0; i < shape_.num_rotors(); ++i) size += rotor(i).partial_size();
    return size;
  }

  /// As RotorPass has it, of all rotor layers.
  Index singles_of_gradient() const {
    Index least = lanes;
    for (const Index i : {Index{0}, Index{1}, shape_.output_rotor()}) {
      if (i < shape_.num_rotors()) least = std::min(least, rotor(i).singles_of_gradient());
    }
    return least;
  }

  struct Backward {
    S *grad_x, *h, *z, *grad_h, *grad_z, *domain, *grad_domain;  // z: what the rotors make of h
    S* norms;
    S* sums;
    Index domain_size;
    Arena<S> rest;
    Backward(const RotorNetworkPass& network, Arena<S>& arena) {
      const Index hidden = network.options_.hidden * lanes, inner = network.shape_.output_rotor();
      grad_x = arena.take(network.shape_.first.in * lanes);
      h = arena.take((network.options_.depth + 1) * hidden);
      z = arena.take(inner * hidden);
      norms = arena.take(inner * 2 * lanes);
      grad_h = arena.take(hidden);
      grad_z = arena.take(hidden);
      domain_size = network.largest([](const Pass& pass) { return pass.domain_size(); });
      domain = arena.take(domain_size);
      grad_domain = arena.take(domain_size);
      sums = arena.take_zeros(network.sums_offset(network.shape_.num_rotors()));
      rest = arena;
      arena.take(network.largest(
          [](const Pass& pass) { return std::max(pass.forward_memory(lanes), pass.backward_memory()); }));
    }
  };
  /// Where the sums of a rotor layer begin.
  Index sums_offset(Index end) const {
    Index size = 0;
    for (Index i = 0; i < end; ++i) size += Arena<S>::rounded(rotor(i).sums_size());
    return size;
  }

  template <int W>
  void backward(const Backward& memory, Wide<S>* partial, const S* x, const S* grad_y) const {
    const Index hidden = options_.hidden;
    const Index depth = options_.depth;
    const Index width = options_.width;
    const Index inner = shape_.output_rotor();  // rotor layers before the output
    const Between between = this->between();
    Wide<S>* weight_sums = partial + partial_size() - 1 - num_branch_weights(options_);
    Wide<S>& slope_sum = partial[partial_size() - 1];
    Wide<S> unused(0);
    const auto clear_domain = [&] {
      std::fill(memory.grad_domain, memory.grad_domain + memory.domain_size, S(0));
    };
    const auto sums_of = [&](Index number) { return memory.sums + sums_offset(number); };
    const auto forward_branch = [&](Index number, const S* from, const S* entered, S weight, bool add,
                                    S* to) {
      S* own = memory.z + number * hidden * W;
      rotor(number).template forward<W>(from, entered, own, memory.rest);
      const auto norm = between.template forward<W>(own, order_of(number), weight, add, to);
      store<S, lanes>(memory.norms + number * 2 * lanes, norm.mean);
      store<S, lanes>(memory.norms + number * 2 * lanes + lanes, norm.scale);
    };
    const auto backward_branch = [&](Index number, const S* from, const S* entered, S weight,
                                     Wide<S>& weight_sum) {
      const S* own = memory.norms + number * 2 * lanes;
      const typename Between::Norm norm{load<S, lanes>(own), load<S, lanes>(own + lanes)};
      between.template backward<W>(memory.z + number * hidden * W, norm, order_of(number), weight,
                                   memory.grad_h, memory.grad_z, weight_sum, slope_sum);
      rotor(number).template backward<W>(from, entered, memory.grad_z, S(1), memory.grad_domain,
                                         sums_of(number), memory.rest);
    };
    const auto enter = [&](Index number, const S* from) {
      return rotor(number).template enter<W>(from, memory.domain, memory.rest);
    };

    forward_branch(0, x, nullptr, S(1), false, memory.h);
    if (shape_.residual_input()) add_tile<S, W>(hidden, x, S(1), true, memory.h);
    for (Index block = 0; block < depth; ++block) {
      const S* from = memory.h + block * hidden * W;
      const S* entered = enter(shape_.branch(block, 0), from);
      for (Index b = 0; b < width; ++b) {
        forward_branch(shape_.branch(block, b), from, entered, branch_weight(block * width + b), b > 0,
                       memory.h + (block + 1) * hidden * W);
      }
    }

    const S* last = memory.h + depth * hidden * W;
    const S* last_entered = options_.parallel_output ? enter(inner, last) : nullptr;
    clear_domain();
    for (Index b = 0; b < num_output_rotors(options_); ++b) {
      const S weight = options_.parallel_output ? branch_weight(depth * width + b) : S(1);
      rotor(inner + b).template backward<W>(last, last_entered, grad_y, weight, memory.grad_domain,
                                            sums_of(inner + b), memory.rest);
    }
    rotor(inner).template leave_gradient<W>(memory.grad_domain, memory.grad_h, memory.rest);
    if (shape_.residual_output()) add_tile<S, W>(hidden, grad_y, S(1), true, memory.grad_h);

    for (Index block = depth - 1; block >= 0; --block) {
      const S* from = memory.h + block * hidden * W;
      const S* entered = enter(shape_.branch(block, 0), from);
      clear_domain();
      for (Index b = 0; b < width; ++b) {
        backward_branch(shape_.branch(block, b), from, entered, branch_weight(block * width + b),
                        weight_sums[block * width + b]);
      }
      rotor(shape_.branch(block, 0))
          .template leave_gradient<W>(memory.grad_domain, memory.grad_h, memory.rest);
    }
    clear_domain();
    backward_branch(0, x, nullptr, S(1), unused);
    rotor(0).template leave_gradient<W>(memory.grad_domain, memory.grad_x, memory.rest);
    if (shape_.residual_input()) add_tile<S, W>(hidden, memory.grad_h, S(1), true, memory.grad_x);
  }

  /// The partial sums of a group out of those of its tiles.
  void finish(const Backward& memory, Wide<S>* partial, PackBuffer<Wide<S>>& wide) const {
    Wide<S>* weight_sums = partial + partial_size() - 1 - num_branch_weights(options_);
    for (Index i = 0; i < shape_.num_rotors(); ++i) {
      const Pass pass = rotor(i);
      pass.finish(memory.sums + sums_offset(i), partial, wide);
      if (i >= shape_.output_rotor() &&
          options_.parallel_output) {  // so far the gradients are those without its weight
        const Index number = options_.depth * options_.width + (i - shape_.output_rotor());
        weight_sums[number] += pass.output_dot(partial);
        for (Index k = 0; k < pass.partial_size(); ++k)
          partial[k] *= static_cast<Wide<S>>(branch_weight(number));
      }
      partial += pass.partial_size();
    }
  }

 private:
  const RotorNetworkShape<S>& shape_;
  const RotorNetworkOptions& options_;
  const NetworkWeights<S>& weights_;
  const S* parameters_;
  const std::vector<Permutation>& permutations_;
};

}  // namespace rotorlin::detail
