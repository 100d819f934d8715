// SPDX-License-Identifier: MIT
/// \file
/// y = D h + b, h the first `rank` features of a rotor layer of x: low rank whose encoder costs next to
/// nothing.
///
/// A low-rank layer spends rank (in + out) parameters, half of them (in = out) on finding the directions that
/// matter. Rotors find nearly as good ones with a few hundred. The decoder D is linear, so the best one for
/// given rotors is known in closed form (`solve_linear`), and fits move the rotors alone (variable
/// projection, Golub and Pereyra 1973).
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/options.hpp"
#include "rotorlin/layers/rotor_linear.hpp"

namespace rotorlin {

struct RotorEncoderLinearOptions {
  Index rank = 8;   ///< features between encoder and decoder
  Index width = 1;  ///< rotor pairs in parallel for each chunk of rank features, rounded up to a power of two
  bool bias = true;
  std::uint64_t seed = 0;

  static constexpr auto fields() {
    using O = RotorEncoderLinearOptions;
    return std::tuple(option_field("rank", &O::rank, 1), option_field("width", &O::width, 1),
                      option_field("bias", &O::bias));
  }
};

/// A layer of rank <= `rank`. Parameters: those of the encoder, a RotorLinear in -> the power of two next to
/// rank without a bias; D (out x rank, column-major); the bias (out).
template <class S>
class RotorEncoderLinear : public OptionsLayer<RotorEncoderLinear<S>, S, RotorEncoderLinearOptions> {
  using Base = OptionsLayer<RotorEncoderLinear, S, RotorEncoderLinearOptions>;
  using Uninitialised = typename Base::Uninitialised;
  friend Base;
  using Rotors = RotorLinear<S>;

 public:
  static constexpr const char* type_name = "RotorEncoderLinear";
  using Options = RotorEncoderLinearOptions;
  /// Holds rotors of its own, made for the parameters that it met last.
  class Workspace {
    friend class RotorEncoderLinear;
    std::optional<Rotors> rotors_;
    typename Rotors::Workspace passes_;
    VectorX<S> features_, grad_features_;
  };

  /// Rotors as of RotorLinear, D uniform at the scale of DenseLinear, bias zero. \throws
  /// std::invalid_argument for in < 2, out < 1, width < 1, or a rank of less than 1 or more than in or out.
  RotorEncoderLinear(Index in, Index out, const Options& options = {})
      : RotorEncoderLinear(Uninitialised{}, in, out, options) {
    this->parameters().head(encoder_size()) = make_rotors(in, options).parameters();
    const double bound = std::sqrt(6.0 / static_cast<double>(rank()));
    Random(options.seed).fill_uniform(decoder(), -bound, bound);
  }

  /// The number of features between the encoder and the dense matrix.
  Index rank() const { return this->options().rank; }
  /// Parameters of the encoder: where D begins.
  Index encoder_size() const { return this->bias_offset() - this->out_features() * rank(); }
  /// A copy of the encoder with its present parameters.
  Rotors encoder() const {
    Rotors rotors = make_rotors(this->in_features(), this->options());
    rotors.parameters() = this->parameters().head(encoder_size());
    return rotors;
  }
  /// D, out x rank.
  Eigen::Map<Matrix<S>> decoder() { return decoder_of(this->parameters().data()); }
  Eigen::Map<const Matrix<S>> decoder() const {
    return {this->parameters().data() + encoder_size(), this->out_features(), rank()};
  }
  ParameterRange linear_parameters() const { return {encoder_size(), decoder().size()}; }
  Matrix<S> to_dense() const { return decoder() * encoder().to_dense().topRows(rank()); }

  /// Sets D to the least squares for outputs y (out x batch) at inputs x (in x batch), with the bias as it
  /// is; directions of h of less than 1e-9 of its mean square are damped. Throws as `forward`.
  void solve_linear(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& y, Workspace& workspace);

  using Base::forward;
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const;

  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace);

 private:
  RotorEncoderLinear(Uninitialised tag, Index in, Index out, const Options& options)
      : Base(tag, in, out, options) {}

  static Index count_weights(Index in, Index out, const Options& options) {
    if (in < 2 || options.rank > in || options.rank > out) {
      detail::throw_invalid(type_name, ": in = ", in, ", out = ", out, ", rank = ", options.rank,
                            "; expected in >= 2 and a rank of at most in and out");
    }
    Description rotors = make_rotors(2, {.rank = 2}).describe();
    rotors["in"] = detail::option_text(in);
    rotors["out"] = detail::option_text(features(options));
    rotors["width"] = detail::option_text(options.width);
    rotors["chunk"] = rotors["in_chunks"] = rotors["out_chunks"] = "0";
    return detail::checked_sum(Rotors::count_parameters(rotors), detail::checked_product(out, options.rank));
  }

  static Index features(const Options& options) {
    const auto power = static_cast<Index>(std::bit_ceil(static_cast<std::size_t>(options.rank)));
    return power < 2 ? 2 : power;
  }
  static Rotors make_rotors(Index in, const Options& options) {
    return Rotors(in, features(options), {.width = options.width, .bias = false, .seed = options.seed});
  }

  Eigen::Map<Matrix<S>> decoder_of(S* data) const {
    return {data + encoder_size(), this->out_features(), rank()};
  }

  /// The encoder's features, in the workspace; its rotors follow the parameters.
  Eigen::Map<Matrix<S>> encode(const ConstMatrixRef<S>& x, Workspace& workspace) const;
};

template <class S>
void RotorEncoderLinear<S>::solve_linear(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& y,
                                         Workspace& workspace) {
  detail::check_shape(*this, "solve_linear", "y", y, this->out_features(),
                      detail::checked_batch(*this, "solve_linear", x));
  const Matrix<double> h = encode(x, workspace).topRows(rank()).template cast<double>();
  Matrix<double> target = y.template cast<double>();
  if (this->has_bias()) target.colwise() -= this->bias().template cast<double>();
  const double size = std::sqrt(h.squaredNorm() / static_cast<double>(rank()));
  if (!(size > 0)) return;
  Matrix<double> normal = (h / size) * (h / size).transpose();
  normal.diagonal().array() += 1e-9;
  const Matrix<double> moments = (h / size) * target.transpose();
  decoder() = (normal.llt().solve(moments).transpose() / size).template cast<S>();
}

template <class S>
void RotorEncoderLinear<S>::forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
  detail::check_forward(*this, x, y);
  const auto features = encode(x, workspace);
  y.noalias() = decoder() * features.topRows(rank());
  if (this->has_bias()) y.colwise() += this->bias();
  detail::check_result(*this, "forward", y);
}

template <class S>
void RotorEncoderLinear<S>::backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                                     MatrixRef<S> grad_x, Workspace& workspace) {
  detail::check_backward(*this, x, grad_y, grad_x);
  const auto features = encode(x, workspace);
  auto grad_features = detail::scratch(workspace.grad_features_, features.rows(), x.cols());
  grad_features.topRows(rank()).noalias() = decoder().transpose() * grad_y;
  grad_features.bottomRows(features.rows() - rank()).setZero();
  detail::check_result(*this, "backward", grad_features);
  Rotors& rotors = *workspace.rotors_;
  rotors.zero_gradients();
  rotors.backward(x, grad_features, grad_x, workspace.passes_);
  this->gradients().head(encoder_size()) += rotors.gradients();
  decoder_of(this->gradients().data()).noalias() += grad_y * features.topRows(rank()).transpose();
  if (this->has_bias()) this->bias_gradients() += grad_y.rowwise().sum();
}

template <class S>
Eigen::Map<Matrix<S>> RotorEncoderLinear<S>::encode(const ConstMatrixRef<S>& x, Workspace& workspace) const {
  const auto values = this->parameters().head(encoder_size());
  if (!detail::all_finite(values)) detail::check_parameters(*this, "forward");
  std::optional<Rotors>& rotors = workspace.rotors_;
  if (!rotors || rotors->in_features() != this->in_features() ||
      rotors->out_features() != features(this->options()) ||
      rotors->options().width != this->options().width) {
    rotors = make_rotors(this->in_features(), this->options());
  }
  rotors->parameters() = values;
  auto result = detail::scratch(workspace.features_, features(this->options()), x.cols());
  rotors->forward(x, result, workspace.passes_);
  return result;
}

static_assert(LinearLayer<RotorEncoderLinear<float>> && DescribedLayer<RotorEncoderLinear<double>>);

ROTORLIN_COMPILED_LAYER(RotorEncoderLinear)

}  // namespace rotorlin
