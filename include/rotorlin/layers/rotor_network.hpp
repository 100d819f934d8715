// SPDX-License-Identifier: MIT
/// \file
/// The rotor network: rotor layers with permutations, normalisation and activations between them, which
/// together stand in for one large linear layer (Pence, Yamada, Singh 2025, arXiv 2507.11688).
///
/// A branch is B(h) = a(norm(rotor(h)[p])): a rotor layer, a fixed permutation (feature j of the result is
/// feature p[j] of the argument), normalisation of every sample to mean 0 and variance 1 (LayerNorm of Ba,
/// Kiros, Hinton 2016, without its affine part), z -> (z - mean) / sqrt(variance + epsilon), and an
/// activation. Then
///
///     h_0     = B_0(x)                                     from in to hidden features
///     h_(k+1) = sum_b v_kb B_kb(h_k)                       k < depth, b < width: hidden to hidden
///     y       = rotor(h_depth)                             from hidden to out features
///
/// with trainable branch weights v. Gradients are exact: the hidden features are recomputed tile by tile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/arena.hpp"
#include "rotorlin/core/cached.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/self_move.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/activation.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/rotor/network_options.hpp"
#include "rotorlin/layers/rotor/network_pass.hpp"
#include "rotorlin/layers/rotor_linear.hpp"

namespace rotorlin {

/// The rotor network. Rotor layers are numbered: 0 is the first, 1 + k * width + b is branch b of hidden
/// block k, the last one (with parallel_output, the last `width`) makes y. They have no bias. Parameters,
/// flat: those of every rotor layer, in this order; the branch weights v, block by block, then those of a
/// parallel output; the weight of the activation, one for the whole network, where it is prelu.
///
/// `forward` is const and may run on several threads at once, each with a workspace of its own. Parameters
/// may be changed at any time between calls.
template <class S>
class RotorNetwork : public LayerBase<RotorNetwork<S>, S> {
  using Base = LayerBase<RotorNetwork, S>;
  using Weights = detail::NetworkWeights<S>;
  using Pass = detail::RotorNetworkPass<S>;
  using Arena = detail::Arena<S>;
  using Wide = detail::Wide<S>;

 public:
  static constexpr const char* type_name = "RotorNetwork";
  using Options = RotorNetworkOptions;
  /// Feature j of the result is feature p[j] of the argument.
  using Permutation = detail::Permutation;

  /// Scratch memory of one call.
  class Workspace {
    friend class RotorNetwork;
    detail::BatchScratch<S> scratch_;
  };

  /// Alphas and branch weights are 1, the weight of prelu 0.25. \throws std::invalid_argument for in, out or
  /// hidden < 2, depth < 0, width < 1, epsilon <= 0, or an unknown activation or kernel.
  RotorNetwork(Index in, Index out, const Options& options = {})
      : RotorNetwork(in, out, detail::complete(in, out, options), Completed{}) {
    Random random(options.seed);
    this->parameters().setOnes();
    for (Index i = 0; i < num_rotors(); ++i) {
      auto values = rotor_parameters(i);
      const Index bivectors = shape_.of(i).alpha_offset();
      for (Index k = 0; k < bivectors; ++k) values[k] = static_cast<S>(random.normal());
    }
    for (Permutation& permutation : permutations_) random.shuffle(permutation);
    if (options.activation == Activation::prelu) prelu_weight() = S(0.25);
  }

  const Options& options() const { return shape_.options; }
  /// The width between its layers, and the rotors of all of them.
  Index hidden_features() const { return options().hidden; }
  Index num_rotors() const { return shape_.num_rotors(); }
  /// Number of the rotor layer of a branch of a hidden block.
  Index branch(Index block, Index branch) const { return shape_.branch(block, branch); }
  /// Number of the (first) rotor layer that makes y.
  Index output_rotor() const { return shape_.output_rotor(); }

  /// A copy of rotor layer i with its present parameters.
  RotorLinear<S> rotor(Index i) const {
    check_number("rotor", i, num_rotors());
    RotorLinear<S> result(shape_.of(i).in, shape_.of(i).out, detail::rotor_options(options()));
    result.parameters() = rotor_parameters(i);
    return result;
  }
  /// The parameters of rotor layer i, in the order of RotorLinear, as a part of parameters().
  Eigen::Map<VectorX<S>> rotor_parameters(Index i) {
    check_number("rotor_parameters", i, num_rotors());
    return {this->parameters().data() + shape_.offset(i), shape_.of(i).parameters()};
  }
  Eigen::Map<const VectorX<S>> rotor_parameters(Index i) const {
    check_number("rotor_parameters", i, num_rotors());
    return {this->parameters().data() + shape_.offset(i), shape_.of(i).parameters()};
  }

  /// Branch weights: v_kb at k * width + b, then those of a parallel output.
  Eigen::Map<VectorX<S>> branch_weights() {
    return {this->parameters().data() + rotor_parameters(), detail::num_branch_weights(options())};
  }
  Eigen::Map<const VectorX<S>> branch_weights() const {
    return {this->parameters().data() + rotor_parameters(), detail::num_branch_weights(options())};
  }
  /// The alphas of the rotor that makes y, or the weights of a parallel output; none with a residual output.
  ParameterRange linear_parameters() const {
    if (shape_.residual_output()) return {0, 0};
    if (options().parallel_output)
      return {rotor_parameters() + options().depth * options().width, options().width};
    return {shape_.offset(output_rotor()) + shape_.last.alpha_offset(), shape_.last.pairs()};
  }
  /// The last parameter, where the activation is prelu. \throws std::invalid_argument where it is not.
  S& prelu_weight() {
    check_prelu();
    return this->parameters()[this->num_parameters() - 1];
  }
  S prelu_weight() const {
    check_prelu();
    return this->parameters()[this->num_parameters() - 1];
  }

  /// The permutation behind rotor layer i < output_rotor(); only with use_permutations.
  const Permutation& permutation(Index i) const {
    check_number("permutation", i, static_cast<Index>(permutations_.size()));
    return permutations_[at(i)];
  }
  /// \throws std::invalid_argument unless it holds 0 .. hidden - 1, each once.
  void set_permutation(Index i, Permutation permutation) {
    check_number("set_permutation", i, static_cast<Index>(permutations_.size()));
    detail::check_permutation(permutation, hidden_features(), i);
    permutations_[at(i)] = std::move(permutation);
  }

  using Base::forward;
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const;

  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace);

  /// Whether y = M x: without activation and normalisation.
  bool is_linear() const { return options().activation == Activation::none && !options().normalize; }

  /// The layer y = M x that a linear network is. \throws std::invalid_argument where it is not linear.
  DenseLinear<S> collapse() const;

  Description describe() const {
    return detail::describe(this->in_features(), this->out_features(), options(), permutations_);
  }
  static RotorNetwork from_description(const Description& description) {
    RotorNetwork network(detail::option<Index>(description, "in"), detail::option<Index>(description, "out"),
                         detail::network_options_of(description));
    for (Index i = 0; i < static_cast<Index>(network.permutations_.size()); ++i)
      network.set_permutation(i, detail::permutation_of(description, i));
    return network;
  }
  /// Number of parameters of that network, without making it. Each permutation must be there in its length.
  static Index count_parameters(const Description& description) {
    const Options options = detail::network_options_of(description);
    const Index count = detail::count_parameters(detail::option<Index>(description, "in"),
                                                 detail::option<Index>(description, "out"), options);
    for (Index i = 0; options.use_permutations && i < detail::num_inner_rotors(options); ++i) {
      const std::string& text = detail::option_at(description, detail::permutation_key(i));
      const auto entries = std::count(text.begin(), text.end(), ' ') + 1;
      if (entries != options.hidden) {
        detail::throw_invalid("RotorNetwork: permutation ", i, " has ", entries, " entries, expected ",
                              options.hidden, ", the hidden features");
      }
    }
    return count;
  }

 private:
  struct Completed {};
  RotorNetwork(Index in, Index out, const Options& options, Completed)
      : Base(in, out, detail::count_parameters(in, out, options), false), shape_(in, out, options) {
    if (options.use_permutations) {
      permutations_.assign(at(output_rotor()), Permutation(at(options.hidden)));
      for (Permutation& permutation : permutations_) std::iota(permutation.begin(), permutation.end(), 0);
    }
  }

  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  /// Those of all rotor layers; the branch weights and the weight of prelu follow.
  Index rotor_parameters() const { return shape_.offset(num_rotors()); }

  static void check_number(const char* function, Index i, Index count) {
    if (i < 0 || i >= count)
      detail::throw_invalid("RotorNetwork::", function, ": number ", i, ", expected 0 to ", count - 1);
  }
  void check_prelu() const {
    if (options().activation != Activation::prelu) {
      detail::throw_invalid("RotorNetwork::prelu_weight: the activation is ", to_string(options().activation),
                            ", which has no weight");
    }
  }

  /// The rotor layers' weights for the present parameters: of those that have changed they are made anew.
  const Weights& weights(bool adjoint, const char* function) const;
  Pass pass_of(const Weights& weights) const {
    return Pass(shape_, weights, this->parameters().data(), permutations_);
  }

  detail::RotorNetworkShape<S> shape_;
  detail::KeptOnSelfMove<std::vector<Permutation>> permutations_;
  mutable detail::Cached<S, Weights> weights_;
};

template <class S>
void RotorNetwork<S>::forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
  detail::check_forward(*this, x, y);
  const Pass pass = pass_of(weights(false, "forward"));
  detail::map_batch<S>(
      x, y, pass.singles_per_tile(), workspace.scratch_, [&](int) { return pass.forward_memory(); },
      [&](auto width, const S* x_tile, S* y_tile, const Arena& arena) {
        pass.template forward<decltype(width)::value>(x_tile, y_tile, arena);
      });
}

template <class S>
void RotorNetwork<S>::backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                               MatrixRef<S> grad_x, Workspace& workspace) {
  detail::check_backward(*this, x, grad_y, grad_x);
  const Pass pass = pass_of(weights(true, "backward"));
  using Memory = typename Pass::Backward;
  const Wide* sums = detail::reduce_batch<S>(
      x, grad_y, grad_x, pass.partial_size(), pass.singles_of_gradient(), workspace.scratch_,
      [&](Arena& arena) { return Memory(pass, arena); },
      [&](auto width, Memory& memory, Wide* partial, const S* x_tile, const S* grad_y_tile) {
        pass.template backward<decltype(width)::value>(memory, partial, x_tile, grad_y_tile);
        return memory.grad_x;
      },
      [&](Memory& memory, Wide* partial, detail::PackBuffer<Wide>& wide) {
        pass.finish(memory, partial, wide);
      });
  S* gradients = this->gradients().data();
  for (Index i = 0; i < num_rotors(); ++i) {
    const detail::RotorPass<S> rotor = pass.rotor(i);
    rotor.add_gradients(sums, gradients + shape_.offset(i));
    sums += rotor.partial_size();
  }
  for (Index k = rotor_parameters(); k < this->num_parameters(); ++k) gradients[k] += static_cast<S>(*sums++);
}

template <class S>
DenseLinear<S> RotorNetwork<S>::collapse() const {
  if (!is_linear()) {
    detail::throw_invalid("RotorNetwork::collapse: a network with activation ",
                          to_string(options().activation), options().normalize ? " and normalisation" : "",
                          " is not linear; expected activation none and normalize = false");
  }
  return DenseLinear<S>::from_matrix(
      Base::forward(Matrix<S>::Identity(this->in_features(), this->in_features())));
}

template <class S>
auto RotorNetwork<S>::weights(bool adjoint, const char* function) const -> const Weights& {
  const S* parameters = this->parameters().data();
  const Index count = rotor_parameters();
  if (!detail::all_finite(parameters + count, this->num_parameters() - count))
    detail::check_parameters(*this, function);
  return weights_.get(parameters, count, adjoint,
                      [&](Weights& state, bool with_adjoint, const auto& changed) {
                        detail::check_parameters(*this, function);
                        state.resize(at(num_rotors()));
                        for (Index i = 0; i < num_rotors(); ++i) {
                          const Index first = shape_.offset(i);
                          if (changed(first, shape_.of(i).parameters()))
                            state[at(i)].make(shape_.of(i), parameters + first, with_adjoint);
                        }
                      });
}

static_assert(Layer<RotorNetwork<float>> && DescribedLayer<RotorNetwork<double>>);

ROTORLIN_COMPILED_LAYER(RotorNetwork)

}  // namespace rotorlin
