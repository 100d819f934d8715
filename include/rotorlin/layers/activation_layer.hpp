// SPDX-License-Identifier: MIT
/// \file
/// y = a(norm(x)): what stands between linear layers, as a layer of its own (see Sequential).
#pragma once

#include <limits>
#include <tuple>

#include "rotorlin/core/arena.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/activation.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/normalized_activation.hpp"
#include "rotorlin/layers/options.hpp"

namespace rotorlin {

struct ActivationLayerOptions {
  Activation activation = Activation::relu;  ///< none for a normalisation alone
  bool normalize = false;  ///< first every sample to mean 0 and variance 1, (x - mean) / sqrt(var + epsilon)
  double epsilon = 1e-5;   ///< > 0
  double slope = 0.01;     ///< of leaky_relu below zero; that of prelu is a parameter and starts at 0.25

  static constexpr auto fields() {
    return std::tuple(
        option_field("activation", &ActivationLayerOptions::activation),
        option_field("normalize", &ActivationLayerOptions::normalize),
        option_field("epsilon", &ActivationLayerOptions::epsilon, std::numeric_limits<double>::min()),
        option_field("slope", &ActivationLayerOptions::slope, std::numeric_limits<double>::lowest()));
  }
};

/// The normalisation (Ba, Kiros, Hinton 2016, without its affine part) and activation of `features` features.
/// One parameter with prelu, the slope below zero; otherwise none.
template <class S>
class ActivationLayer : public LayerBase<ActivationLayer<S>, S> {
  using Base = LayerBase<ActivationLayer, S>;
  using Function = detail::NormalizedActivation<S>;
  static constexpr int lanes = detail::native_lanes<S>;

 public:
  static constexpr const char* type_name = "ActivationLayer";
  static constexpr Index least_parameters = 0;
  using Options = ActivationLayerOptions;
  class Workspace {
    friend class ActivationLayer;
    detail::BatchScratch<S> scratch_;
  };

  /// \throws std::invalid_argument for features < 1, epsilon <= 0, a slope that is not finite, or an unknown
  /// activation.
  explicit ActivationLayer(Index features, const Options& options = {})
      : Base(features, features, options.activation == Activation::prelu ? 1 : 0, false), options_(options) {
    check(options);
    this->parameters().setConstant(S(0.25));
  }

  const Options& options() const { return options_; }

  using Base::forward;
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const;

  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace);

  Description describe() const {
    return detail::describe_options(this->in_features(), this->out_features(), options_);
  }
  static ActivationLayer from_description(const Description& description) {
    count_parameters(description);
    return ActivationLayer(detail::option<Index>(description, "in"),
                           detail::parse_options<Options>(description));
  }
  static Index count_parameters(const Description& description) {
    const auto in = detail::option<Index>(description, "in"), out = detail::option<Index>(description, "out");
    if (in != out || in < 1) {
      detail::throw_invalid(type_name, ": in = ", in, ", out = ", out,
                            "; expected the same number, at least 1");
    }
    const auto options = detail::parse_options<Options>(description);
    check(options);
    return options.activation == Activation::prelu ? 1 : 0;
  }

 private:
  struct Memory {
    S *y, *grad_x;
  };

  static void check(const Options& options) {
    if (!is_activation(options.activation)) {
      detail::throw_invalid(type_name, ": activation = ", static_cast<int>(options.activation),
                            ", which is none of them");
    }
    detail::check_options(type_name, options);
    if (!detail::is_finite(options.slope))
      detail::throw_invalid(type_name, ": slope = ", options.slope, ", expected a finite number");
  }

  /// leaky_relu of any slope is prelu of a weight that is not trained.
  Function function() const {
    const bool leaky = options_.activation == Activation::leaky_relu;
    return {this->in_features(), options_.normalize, static_cast<S>(options_.epsilon),
            leaky ? Activation::prelu : options_.activation,
            this->num_parameters() == 1 ? this->parameters()[0] : static_cast<S>(options_.slope)};
  }

  Options options_;
};

template <class S>
void ActivationLayer<S>::forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
  detail::check_forward(*this, x, y);
  detail::check_parameters(*this, "forward");
  const Function f = function();
  detail::map_batch<S>(
      x, y, lanes, workspace.scratch_, [](int) { return Index{0}; },
      [&](auto width, const S* x_tile, S* y_tile, const detail::Arena<S>&) {
        f.template forward<decltype(width)::value>(x_tile, nullptr, S(1), false, y_tile);
      });
}

template <class S>
void ActivationLayer<S>::backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                                  MatrixRef<S> grad_x, Workspace& workspace) {
  detail::check_backward(*this, x, grad_y, grad_x);
  detail::check_parameters(*this, "backward");
  const Function f = function();
  const Index size = this->in_features() * lanes;
  const detail::Wide<S>* slope = detail::reduce_batch<S>(
      x, grad_y, grad_x, 1, lanes / 2, workspace.scratch_,
      [&](detail::Arena<S>& arena) {
        return Memory{arena.take(size), arena.take(size)};
      },
      [&](auto width, Memory& memory, detail::Wide<S>* partial, const S* x_tile, const S* grad_y_tile) {
        constexpr int W = decltype(width)::value;
        const auto norm = f.template forward<W>(x_tile, nullptr, S(1), false, memory.y);
        detail::Wide<S> unused(0);
        f.template backward<W>(x_tile, norm, nullptr, S(1), grad_y_tile, memory.grad_x, unused, *partial);
        return memory.grad_x;
      },
      [](Memory&, detail::Wide<S>*, auto&) {});
  if (this->num_parameters() == 1) this->gradients()[0] += static_cast<S>(*slope);
}

static_assert(Layer<ActivationLayer<float>> && DescribedLayer<ActivationLayer<double>>);

ROTORLIN_COMPILED_LAYER(ActivationLayer)

}  // namespace rotorlin
