// SPDX-License-Identifier: MIT
/// \file
/// y = W x + b with a full matrix W: the baseline that every other layer is measured against.
#pragma once

#include <cmath>
#include <cstdint>
#include <tuple>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/options.hpp"

namespace rotorlin {

struct DenseLinearOptions {
  bool bias = true;        ///< add a bias to every output feature
  std::uint64_t seed = 0;  ///< of the initial weights

  static constexpr auto fields() { return std::tuple(option_field("bias", &DenseLinearOptions::bias)); }
};

/// A dense layer. Parameters: W (out x in, column-major), then the bias (out).
template <class S>
class DenseLinear : public OptionsLayer<DenseLinear<S>, S, DenseLinearOptions> {
  using Base = OptionsLayer<DenseLinear, S, DenseLinearOptions>;
  using Uninitialised = typename Base::Uninitialised;
  friend Base;

 public:
  static constexpr const char* type_name = "DenseLinear";
  struct Workspace {};

  /// W uniform in +-sqrt(6 / in) (He et al. 2015), which keeps the scale through ReLU layers; bias zero.
  /// \throws std::invalid_argument for in or out < 1.
  DenseLinear(Index in, Index out, const DenseLinearOptions& options = {})
      : DenseLinear(Uninitialised{}, in, out, options) {
    const double bound = std::sqrt(6.0 / static_cast<double>(in));
    Random(options.seed).fill_uniform(weight(), -bound, bound);
  }

  /// The layer y = W x.
  static DenseLinear from_matrix(const ConstMatrixRef<S>& weight) {
    DenseLinear layer(Uninitialised{}, weight.cols(), weight.rows(), {.bias = false});
    layer.weight() = weight;
    return layer;
  }

  /// The layer y = W x + b.
  static DenseLinear from_matrix(const ConstMatrixRef<S>& weight, const ConstVectorRef<S>& bias) {
    if (bias.size() != weight.rows()) {
      detail::throw_invalid("DenseLinear::from_matrix: bias is ", detail::shape(bias), ", expected ",
                            weight.rows(), " x 1 for a weight of ", detail::shape(weight));
    }
    DenseLinear layer(Uninitialised{}, weight.cols(), weight.rows(), {});
    layer.weight() = weight;
    layer.bias() = bias;
    return layer;
  }

  /// The matrix, out x in, in the parameters' memory.
  Eigen::Map<Matrix<S>> weight() {
    return {this->parameters().data(), this->out_features(), this->in_features()};
  }
  Eigen::Map<const Matrix<S>> weight() const {
    return {this->parameters().data(), this->out_features(), this->in_features()};
  }
  Matrix<S> to_dense() const;
  ParameterRange linear_parameters() const { return {0, this->bias_offset()}; }

  using Base::forward;
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace&) const;

  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x, Workspace&);

 private:
  DenseLinear(Uninitialised tag, Index in, Index out, const DenseLinearOptions& options)
      : Base(tag, in, out, options) {}

  static Index count_weights(Index in, Index out, const DenseLinearOptions&) {
    return detail::checked_product(in, out);
  }
};

template <class S>
Matrix<S> DenseLinear<S>::to_dense() const {
  return weight();
}

template <class S>
void DenseLinear<S>::forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace&) const {
  detail::check_forward(*this, x, y);
  y.noalias() = weight() * x;
  if (this->has_bias()) y.colwise() += this->bias();
  detail::check_result(*this, "forward", y);
}

template <class S>
void DenseLinear<S>::backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                              MatrixRef<S> grad_x, Workspace&) {
  detail::check_backward(*this, x, grad_y, grad_x);
  grad_x.noalias() = weight().transpose() * grad_y;
  detail::check_result(*this, "backward", grad_x);
  Eigen::Map<Matrix<S>> grad_weight(this->gradients().data(), this->out_features(), this->in_features());
  grad_weight.noalias() += grad_y * x.transpose();
  if (this->has_bias()) this->bias_gradients() += grad_y.rowwise().sum();
}

static_assert(LinearLayer<DenseLinear<float>> && DescribedLayer<DenseLinear<double>>);

ROTORLIN_COMPILED_LAYER(DenseLinear)

}  // namespace rotorlin
