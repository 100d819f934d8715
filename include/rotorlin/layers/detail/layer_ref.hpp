// SPDX-License-Identifier: MIT
/// \file
/// A layer of any type behind one interface: what fits and files do with layers is compiled once a scalar.
#pragma once

#include <Eigen/Core>
#include <algorithm>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"

namespace rotorlin::detail {

/// Refers to a layer and has a workspace for it. `linear` and `bias` are the parameters in which the output
/// is linear and those of the bias of a LinearLayer; ranges of size 0 where there are none or the layer does
/// not say.
template <class S>
class LayerRef {
 public:
  virtual ~LayerRef() = default;

  virtual void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y) = 0;
  virtual void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x) = 0;
  virtual void zero_gradients() = 0;
  /// Solves for its linear parameters; false where the layer cannot.
  virtual bool solve_linear(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& y) = 0;

  const char* type_name() const { return type_name_; }
  Index in_features() const { return in_; }
  Index out_features() const { return out_; }
  Index num_parameters() const { return size_; }
  bool is_linear() const { return is_linear_; }
  ParameterRange linear() const { return linear_; }
  ParameterRange bias() const { return bias_; }
  Eigen::Map<VectorX<S>> parameters() const { return {parameters_, size_}; }
  Eigen::Map<VectorX<S>> gradients() const { return {gradients_, size_}; }

 protected:
  template <Layer L>
  explicit LayerRef(L& layer)
      : type_name_(L::type_name),
        in_(layer.in_features()),
        out_(layer.out_features()),
        size_(layer.num_parameters()),
        parameters_(layer.parameters().data()),
        gradients_(layer.gradients().data()),
        is_linear_(LinearLayer<L>) {
    if constexpr (requires { layer.linear_parameters(); }) linear_ = layer.linear_parameters();
    if constexpr (LinearLayer<L>) {
      if (layer.bias().size() == out_) bias_ = {layer.bias_offset(), layer.bias().size()};
    }
  }

 private:
  const char* type_name_;
  Index in_, out_, size_;
  S *parameters_, *gradients_;
  bool is_linear_;
  ParameterRange linear_{0, 0}, bias_{0, 0};
};

template <Layer L>
class LayerRefTo final : public LayerRef<typename L::Scalar> {
  using S = typename L::Scalar;

 public:
  explicit LayerRefTo(L& layer) : LayerRef<S>(layer), layer_(layer) {}

  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y) override { layer_.forward(x, y, workspace_); }
  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x) override {
    layer_.backward(x, grad_y, grad_x, workspace_);
  }
  void zero_gradients() override { layer_.zero_gradients(); }
  bool solve_linear([[maybe_unused]] const ConstMatrixRef<S>& x,
                    [[maybe_unused]] const ConstMatrixRef<S>& y) override {
    if constexpr (requires { layer_.solve_linear(x, y, workspace_); }) {
      layer_.solve_linear(x, y, workspace_);
      return true;
    } else {
      return false;
    }
  }

 private:
  L& layer_;
  typename L::Workspace workspace_;
};

/// What `rotorlin::match_bias` does.
template <class S>
void match_bias(LayerRef<S>& layer, const ConstVectorRef<S>& x, const ConstVectorRef<S>& y) {
  const char* const who = "match_bias";
  if (layer.bias().size == 0) throw_invalid(layer.type_name(), "::match_bias: the layer has no bias");
  check_shape(layer.type_name(), who, "x", x.rows(), x.cols(), layer.in_features(), 1);
  check_shape(layer.type_name(), who, "y", y.rows(), y.cols(), layer.out_features(), 1);
  if (!all_finite(x) || !all_finite(y))
    throw_domain(layer.type_name(), "::match_bias: x or y has NaN or infinite entries");
  const Matrix<S> input = x;  // either may be a part of the layer, which changes now
  const VectorX<S> wanted = y;
  Matrix<S> with_ones(layer.out_features(), 1), without(layer.out_features(), 1);
  S* const bias = layer.parameters().data() + layer.bias().offset;
  std::fill(bias, bias + layer.bias().size, S(1));
  layer.forward(Matrix<S>::Zero(layer.in_features(), 1), with_ones);
  std::fill(bias, bias + layer.bias().size, S(0));
  layer.forward(input, without);
  for (Index i = 0; i < layer.bias().size; ++i)
    bias[i] = with_ones(i, 0) != 0 ? (wanted[i] - without(i, 0)) / with_ones(i, 0) : S(0);
}

#if defined(ROTORLIN_COMPILED)
extern template void match_bias<float>(LayerRef<float>&, const ConstVectorRef<float>&,
                                       const ConstVectorRef<float>&);
extern template void match_bias<double>(LayerRef<double>&, const ConstVectorRef<double>&,
                                        const ConstVectorRef<double>&);
#endif

}  // namespace rotorlin::detail

template <rotorlin::LinearLayer L>
void rotorlin::match_bias(L& layer, const ConstVectorRef<typename L::Scalar>& x,
                          const ConstVectorRef<typename L::Scalar>& y) {
  detail::LayerRefTo<L> ref(layer);
  detail::match_bias<typename L::Scalar>(ref, x, y);
}
