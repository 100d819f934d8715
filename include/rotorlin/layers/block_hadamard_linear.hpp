// SPDX-License-Identifier: MIT
/// \file
/// y = B H x + b with a block-diagonal B and the Walsh-Hadamard matrix H: the block-Hadamard baseline of
/// depth 1 of Pence, Yamada, Singh 2025 (arXiv 2507.11688).
///
/// x is padded with zeros to D features, the next power of two; H is D x D, H_ij = (-1)^popcount(i & j) /
/// sqrt(D), orthogonal and its own inverse, in D log2 D additions. Block k of K maps the features k D/K ..
/// (k+1) D/K - 1 to the outputs floor(k out / K) .. floor((k+1) out / K) - 1: out * D/K weights. The paper's
/// BH1 has 128 blocks, 16 x 16 at width 2048. Its released code leaves H away at depth 1: `hadamard` = false.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/options.hpp"

namespace rotorlin {

namespace detail {

/// values <- H values, without the factor 1 / sqrt(size); size is a power of two.
template <class S>
void walsh_hadamard(S* values, Index size) {
  for (Index step = size / 2; step > 0; step /= 2) {
    for (Index i = 0; i < size; i += 2 * step) {
      S* first = values + i;
      S* second = first + step;
      for (Index j = 0; j < step; ++j) {
        const S sum = first[j] + second[j];
        second[j] = first[j] - second[j];
        first[j] = sum;
      }
    }
  }
}

}  // namespace detail

struct BlockHadamardLinearOptions {
  Index blocks = 0;        ///< K, a power of two, at most D and at most out
  bool hadamard = true;    ///< without it, y = B x + b
  bool bias = true;        ///< add a bias to every output feature
  std::uint64_t seed = 0;  ///< of the initial weights

  static constexpr auto fields() {
    using O = BlockHadamardLinearOptions;
    return std::tuple(option_field("blocks", &O::blocks), option_field("hadamard", &O::hadamard),
                      option_field("bias", &O::bias));
  }
};

/// A block-Hadamard layer. Parameters: for each output the D/K weights of its block's features, then the bias
/// (out).
template <class S>
class BlockHadamardLinear : public OptionsLayer<BlockHadamardLinear<S>, S, BlockHadamardLinearOptions> {
  using Base = OptionsLayer<BlockHadamardLinear, S, BlockHadamardLinearOptions>;
  using Uninitialised = typename Base::Uninitialised;
  friend Base;

 public:
  static constexpr const char* type_name = "BlockHadamardLinear";
  struct Workspace {
    VectorX<S> hidden, grad_hidden;
  };

  /// Weights uniform in +-sqrt(6 K / D): the scale of DenseLinear. Bias zero. \throws std::invalid_argument
  /// unless `blocks` is a power of two, at most D and at most out.
  BlockHadamardLinear(Index in, Index out, const BlockHadamardLinearOptions& options)
      : BlockHadamardLinear(Uninitialised{}, in, out, options) {
    const double bound = std::sqrt(6.0 / static_cast<double>(block_width()));
    Random(options.seed).fill_uniform(weights(), -bound, bound);
  }
  /// Of so many blocks, the other options as they are by default.
  BlockHadamardLinear(Index in, Index out, Index blocks)
      : BlockHadamardLinear(in, out, BlockHadamardLinearOptions{.blocks = blocks}) {}

  /// K, and whether a Hadamard transform stands before the blocks.
  Index blocks() const { return this->options().blocks; }
  bool hadamard() const { return this->options().hadamard; }
  /// D, the features in between.
  Index hidden_features() const { return padded(this->in_features()); }
  /// D/K.
  Index block_width() const { return hidden_features() / blocks(); }

  /// D/K x out: column o has the weights of output o.
  Eigen::Map<Matrix<S>> weights() { return {this->parameters().data(), block_width(), this->out_features()}; }
  Eigen::Map<const Matrix<S>> weights() const {
    return {this->parameters().data(), block_width(), this->out_features()};
  }
  ParameterRange linear_parameters() const { return {0, this->bias_offset()}; }

  Matrix<S> to_dense() const;

  using Base::forward;
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const;

  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace);

 private:
  BlockHadamardLinear(Uninitialised tag, Index in, Index out, const BlockHadamardLinearOptions& options)
      : Base(tag, in, out, options) {}

  static Index padded(Index in) { return static_cast<Index>(std::bit_ceil(static_cast<std::size_t>(in))); }

  static Index count_weights(Index in, Index out, const BlockHadamardLinearOptions& options) {
    const Index blocks = options.blocks;
    constexpr Index limit = detail::max_features;  // so that the next power of two exists
    const bool possible = in >= 1 && in <= limit && out >= 1 && blocks >= 1;
    if (!possible || !std::has_single_bit(static_cast<std::size_t>(blocks)) || blocks > padded(in) ||
        blocks > out) {
      detail::throw_invalid(type_name, ": in = ", in, ", out = ", out, ", blocks = ", blocks,
                            "; expected in and out of at least 1, and blocks a power of two, at most out and",
                            " at most the power of two that in is padded to");
    }
    return detail::checked_product(out, padded(in) / blocks);
  }

  /// body(block, its first output, its number of outputs).
  template <class F>
  void for_each_block(F&& body) const {
    for (Index k = 0; k < blocks(); ++k) {
      const Index first = k * this->out_features() / blocks();
      body(k, first, (k + 1) * this->out_features() / blocks() - first);
    }
  }

  template <class M>
  void transform(M& hidden) const {
    if (!hadamard()) return;
    for (Index j = 0; j < hidden.cols(); ++j) detail::walsh_hadamard(hidden.col(j).data(), hidden.rows());
    hidden *= static_cast<S>(1 / std::sqrt(static_cast<double>(hidden.rows())));
  }

  Eigen::Map<Matrix<S>> to_hidden(const ConstMatrixRef<S>& x, VectorX<S>& buffer) const;
};

template <class S>
Matrix<S> BlockHadamardLinear<S>::to_dense() const {
  Matrix<S> dense = Base::forward(Matrix<S>::Identity(this->in_features(), this->in_features()));
  if (this->has_bias()) dense.colwise() -= this->bias();
  return dense;
}

template <class S>
void BlockHadamardLinear<S>::forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
  detail::check_forward(*this, x, y);
  const auto hidden = to_hidden(x, workspace.hidden);
  for_each_block([&](Index k, Index first, Index rows) {
    y.middleRows(first, rows).noalias() =
        weights().middleCols(first, rows).transpose() * hidden.middleRows(k * block_width(), block_width());
  });
  if (this->has_bias()) y.colwise() += this->bias();
  detail::check_result(*this, "forward", y);
}

template <class S>
void BlockHadamardLinear<S>::backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                                      MatrixRef<S> grad_x, Workspace& workspace) {
  detail::check_backward(*this, x, grad_y, grad_x);
  const auto hidden = to_hidden(x, workspace.hidden);
  auto grad_hidden = detail::scratch(workspace.grad_hidden, hidden_features(), x.cols());
  for_each_block([&](Index k, Index first, Index rows) {
    grad_hidden.middleRows(k * block_width(), block_width()).noalias() =
        weights().middleCols(first, rows) * grad_y.middleRows(first, rows);
  });
  transform(grad_hidden);
  grad_x = grad_hidden.topRows(this->in_features());
  detail::check_result(*this, "backward", grad_hidden);
  Eigen::Map<Matrix<S>> gradient(this->gradients().data(), block_width(), this->out_features());
  for_each_block([&](Index k, Index first, Index rows) {
    gradient.middleCols(first, rows).noalias() +=
        hidden.middleRows(k * block_width(), block_width()) * grad_y.middleRows(first, rows).transpose();
  });
  if (this->has_bias()) this->bias_gradients() += grad_y.rowwise().sum();
}

template <class S>
Eigen::Map<Matrix<S>> BlockHadamardLinear<S>::to_hidden(const ConstMatrixRef<S>& x,
                                                        VectorX<S>& buffer) const {
  auto hidden = detail::scratch(buffer, hidden_features(), x.cols());
  hidden.topRows(x.rows()) = x;
  hidden.bottomRows(hidden.rows() - x.rows()).setZero();
  transform(hidden);
  return hidden;
}

static_assert(LinearLayer<BlockHadamardLinear<float>> && DescribedLayer<BlockHadamardLinear<double>>);

ROTORLIN_COMPILED_LAYER(BlockHadamardLinear)

}  // namespace rotorlin
