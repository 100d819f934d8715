// SPDX-License-Identifier: MIT
/// \file
/// The rotor layer: a linear layer whose weights are bivectors.
///
/// A chunk of 2^n features is read as a multivector x of Cl(n), coefficients in graded order. A rotor pair
/// maps it to alpha r x s~ with r = exp(b_left), s = exp(b_right) (Pence, Yamada, Singh 2025, arXiv
/// 2507.11688); a single rotor has s = r. n(n-1)/2 numbers a bivector stand in for the 4^n of a dense matrix.
///
/// Chunks: input chunk i covers the features floor(i in / in_chunks) + 0 .. 2^n - 1 modulo in, output chunks
/// likewise. Every input chunk acts on every output chunk through `width` rotor pairs, whose results are
/// summed. An output feature is the sum of all that lands on it, divided by in_chunks times the number of
/// output chunks that cover it, plus its bias.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "rotorlin/core/arena.hpp"
#include "rotorlin/core/cached.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/options.hpp"
#include "rotorlin/layers/rotor/chunking.hpp"
#include "rotorlin/layers/rotor/options.hpp"
#include "rotorlin/layers/rotor/pass.hpp"
#include "rotorlin/layers/rotor/standing_matrix.hpp"
#include "rotorlin/layers/rotor/weights.hpp"
#include "rotorlin/sandwich/kernel.hpp"

namespace rotorlin {

/// The planes that one rotor of a RotorLinear turns. The rotor is exp(b), b = sum_p angle_p u_p v_p: as a
/// single rotor it turns the plane (u_p, v_p) of vectors by 2 angle_p.
template <class Scalar>
struct RotorPlanes {
  Index in_chunk;
  Index out_chunk;
  Index branch;            ///< 0 .. width - 1
  bool left;               ///< r (left) or s (right)
  Matrix<Scalar> basis;    ///< n x 2 floor(n/2), orthonormal columns u_1, v_1, u_2, v_2, ...
  VectorX<Scalar> angles;  ///< floor(n/2) radians >= 0, descending
};

/// The rotor layer. Parameters, flat: left bivectors (n(n-1)/2 each, one after another), right bivectors
/// (unless single), alpha (one a rotor pair), bias. Rotor pair number (i * out_chunks + o) * width + w is
/// branch w from input chunk i to output chunk o.
///
/// `forward` is const and may run on several threads at once, each with a workspace of its own. Parameters
/// may be changed at any time between calls; the kernels' weights follow by themselves.
template <class S>
class RotorLinear : public LayerBase<RotorLinear<S>, S> {
  using Base = LayerBase<RotorLinear, S>;
  using Weights = detail::RotorWeights<S>;
  using Arena = detail::Arena<S>;
  using Wide = detail::Wide<S>;

 public:
  static constexpr const char* type_name = "RotorLinear";
  using Options = RotorLinearOptions;

  /// Scratch memory of one call.
  class Workspace {
    friend class RotorLinear;
    detail::BatchScratch<S> scratch_;
  };

  /// \throws std::invalid_argument for in or out < 2, a chunk that is no power of two, larger than a
  /// dimension or than 2^14, chunks that leave a feature out, width < 1, shears with double rotors.
  RotorLinear(Index in, Index out, const Options& options = {})
      : RotorLinear(in, out, detail::complete(in, out, options), Completed{}) {
    Random random(options.seed);
    auto values = this->parameters();
    for (Index i = 0; i < alpha_offset(); ++i) values[i] = static_cast<S>(random.normal());
    alpha().setConstant(static_cast<S>(1 / std::sqrt(static_cast<double>(options_.width))));
  }

  const Options& options() const { return options_; }
  int dimension() const { return shape_.n; }  ///< n
  /// Rotor pairs: in_chunks * out_chunks * width.
  Index num_pairs() const { return shape_.pairs(); }
  /// n(n-1)/2.
  Index bivector_size() const { return shape_.bivector_size(); }
  /// The kernel in use; never `automatic`.
  Kernel kernel() const { return shape_.kernel; }
  /// What `forward` of `batch` samples goes through once parameters stand still: the kernel, or `dense` where
  /// the layer's matrix is faster, fits into options().matrix_bytes, and no kernel was named. The matrix is
  /// made when in_features samples have gone through with the same parameters.
  Kernel forward_kernel(Index batch) const;

  /// n(n-1)/2 x num_pairs() views into the parameters; for a single rotor the right ones are the left ones.
  Eigen::Map<Matrix<S>> bivectors_left() { return {this->parameters().data(), bivector_size(), num_pairs()}; }
  Eigen::Map<const Matrix<S>> bivectors_left() const {
    return {this->parameters().data(), bivector_size(), num_pairs()};
  }
  Eigen::Map<Matrix<S>> bivectors_right() {
    return {this->parameters().data() + right_offset(), bivector_size(), num_pairs()};
  }
  Eigen::Map<const Matrix<S>> bivectors_right() const {
    return {this->parameters().data() + right_offset(), bivector_size(), num_pairs()};
  }
  Eigen::Map<VectorX<S>> alpha() { return {this->parameters().data() + alpha_offset(), num_pairs()}; }
  Eigen::Map<const VectorX<S>> alpha() const {
    return {this->parameters().data() + alpha_offset(), num_pairs()};
  }
  /// Where the right bivectors and alpha begin in parameters().
  Index right_offset() const { return shape_.right_offset(); }
  Index alpha_offset() const { return shape_.alpha_offset(); }
  ParameterRange linear_parameters() const { return {alpha_offset(), num_pairs()}; }

  /// What an output feature is divided by (out values).
  VectorX<S> divisor() const { return shape_.scale.cwiseInverse(); }

  /// Makes what `forward` needs for the present parameters now: the kernels' weights, and the layer's matrix
  /// where it is faster for one sample or for many (forward_kernel).
  /// \throws std::domain_error where a parameter is NaN or infinite.
  void prepare() const;

  using Base::forward;
  /// y (out x batch) = M x + bias for x (in x batch).
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const;

  /// Adds dL/dp to gradients() and writes dL/dx (in x batch), given x and dL/dy (out x batch). With g the
  /// gradient of one pair's result and gx = r~ g s: dL/db_left = alpha phi(ad_b) <gx x~>_2, dL/db_right =
  /// alpha phi(ad_c) <gx~ x>_2, dL/dalpha = <gx, x>, exact at every point.
  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace);

  /// M (out x in), without the bias.
  Matrix<S> to_dense() const;

  /// The planes of every rotor, pair by pair, left before right; a single rotor has only left ones.
  std::vector<RotorPlanes<S>> planes() const;

  Description describe() const {
    return detail::describe_options(this->in_features(), this->out_features(), options_);
  }
  static RotorLinear from_description(const Description& description) {
    return RotorLinear(detail::option<Index>(description, "in"), detail::option<Index>(description, "out"),
                       detail::parse_options<Options>(description));
  }
  /// Number of parameters of that layer, without making it.
  static Index count_parameters(const Description& description) {
    const auto in = detail::option<Index>(description, "in");
    const auto out = detail::option<Index>(description, "out");
    const Options options = detail::complete(in, out, detail::parse_options<Options>(description));
    return detail::checked_sum(detail::count_rotor_parameters(options), options.bias ? out : 0);
  }

 private:
  struct Completed {};

  RotorLinear(Index in, Index out, const Options& options, Completed)
      : Base(in, out, detail::count_rotor_parameters(options), options.bias),
        options_(options),
        shape_(in, out, options) {}

  S bias_scale() const { return options_.bias_inside_alpha ? alpha()[0] : S(1); }

  void check_bias(const char* function) const {
    if (!detail::all_finite(this->bias())) detail::check_parameters(*this, function);
  }

  /// The weights for the present parameters. The bias is in none of them.
  const Weights& weights(bool adjoint, const char* function) const;

  detail::RotorView<S> view_of(const Weights& weights) const {
    return {shape_, weights, alpha().data(), this->has_bias() ? this->bias().data() : nullptr, bias_scale()};
  }

  void forward_tiles(const detail::RotorView<S>& view, const ConstMatrixRef<S>& x, MatrixRef<S>& y,
                     detail::BatchScratch<S>& scratch) const;

  /// The layer's matrix where it is faster for `batch` samples and ready, or null.
  const Matrix<S>* standing_matrix(Index batch) const;
  const Matrix<S>* standing_matrix(Index samples, const char* function) const;

  /// The sums of all pairs (RotorPass::finish), then those of grad_y for the bias.
  const Wide* backward_tiles(const detail::RotorPass<S>& pass, const ConstMatrixRef<S>& x,
                             const ConstMatrixRef<S>& grad_y, MatrixRef<S>& grad_x,
                             Workspace& workspace) const;

  /// The same for a layer that runs as its matrix.
  const Wide* backward_dense(const detail::DensePass<S>& pass, const ConstMatrixRef<S>& x,
                             const ConstMatrixRef<S>& grad_y, MatrixRef<S>& grad_x,
                             Workspace& workspace) const;

  Options options_;
  detail::RotorChunking<S> shape_;
  mutable detail::Cached<S, Weights> weights_;
  mutable detail::StandingMatrix<S> matrix_;
};

template <class S>
Kernel RotorLinear<S>::forward_kernel(Index batch) const {
  if (options_.kernel != Kernel::automatic || shape_.kernel == Kernel::dense) return shape_.kernel;
  if (shape_.in * shape_.out > options_.matrix_bytes / static_cast<Index>(sizeof(S))) return shape_.kernel;
  return detail::matrix_is_faster(shape_, batch) ? Kernel::dense : shape_.kernel;
}

template <class S>
const Matrix<S>* RotorLinear<S>::standing_matrix(Index batch) const {
  if (shape_.kernel == Kernel::dense || forward_kernel(batch) != Kernel::dense) return nullptr;
  return standing_matrix(batch, "forward");
}

template <class S>
const Matrix<S>* RotorLinear<S>::standing_matrix(Index samples, const char* function) const {
  const Index in = this->in_features(), out = this->out_features();
  return matrix_.get(this->parameters().data(), shape_.parameters(), samples, in, [&](Matrix<S>& matrix) {
    detail::RotorView<S> view = view_of(weights(false, function));
    view.bias = nullptr;
    matrix.resize(out, in);
    detail::BatchScratch<S> scratch;
    constexpr Index together = 8 * detail::native_lanes<S>;
    Matrix<S> columns(in, together);
    for (Index first = 0; first < in; first += together) {
      const Index count = std::min(together, in - first);
      columns.setZero();
      for (Index k = 0; k < count; ++k) columns(first + k, k) = S(1);
      MatrixRef<S> images = matrix.middleCols(first, count);
      forward_tiles(view, columns.leftCols(count), images, scratch);
    }
  });
}

template <class S>
void RotorLinear<S>::prepare() const {
  weights(false, "prepare");
  if (shape_.kernel == Kernel::dense) return;
  if (forward_kernel(1) == Kernel::dense || forward_kernel(1 << 20) == Kernel::dense)
    standing_matrix(this->in_features(), "prepare");
}

template <class S>
Matrix<S> RotorLinear<S>::to_dense() const {
  Matrix<S> dense = Base::forward(Matrix<S>::Identity(this->in_features(), this->in_features()));
  if (this->has_bias()) dense.colwise() -= bias_scale() * this->bias();
  return dense;
}

template <class S>
std::vector<RotorPlanes<S>> RotorLinear<S>::planes() const {
  const Weights& rotors = weights(true, "planes");
  std::vector<RotorPlanes<S>> result;
  for (Index pair = 0; pair < num_pairs(); ++pair) {
    const Index chunks = pair / options_.width;
    for (const bool left : {true, false}) {
      if (!left && options_.single_rotor) continue;
      const auto& d = left ? rotors.left(pair) : rotors.right(pair);
      result.push_back({chunks / options_.out_chunks, chunks % options_.out_chunks, pair % options_.width,
                        left, d.basis().leftCols(2 * d.num_planes()).template cast<S>(),
                        d.angles().template cast<S>()});
    }
  }
  return result;
}

template <class S>
auto RotorLinear<S>::weights(bool adjoint, const char* function) const -> const Weights& {
  detail::check_not_moved(*this, function);
  check_bias(function);
  const S* parameters = this->parameters().data();
  return weights_.get(parameters, shape_.parameters(), adjoint,
                      [&](Weights& state, bool with_adjoint, const auto&) {
                        detail::check_parameters(*this, function);
                        state.make(shape_, parameters, with_adjoint);
                      });
}

template <class S>
auto RotorLinear<S>::backward_tiles(const detail::RotorPass<S>& pass, const ConstMatrixRef<S>& x,
                                    const ConstMatrixRef<S>& grad_y, MatrixRef<S>& grad_x,
                                    Workspace& workspace) const -> const Wide* {
  const Index bias_size = this->bias().size(), pair_sums = pass.partial_size();
  const Index domain_size = pass.domain_size(), sums_size = pass.sums_size();
  struct State {
    S *grad_domain, *sums;
    Arena rest;
  };
  const auto lay_out = [&](Arena& arena) {
    State state{arena.take(domain_size), arena.take_zeros(sums_size), arena};
    arena.take(pass.backward_memory());
    return state;
  };
  return detail::reduce_batch<S>(
      x, grad_y, grad_x, pair_sums + bias_size, pass.singles_of_gradient(), workspace.scratch_, lay_out,
      [&](auto width, State& state, Wide* sums, S* x_tile, const S* grad_y_tile) {
        constexpr int W = decltype(width)::value;
        for (Index f = 0; f < bias_size; ++f) {
          const auto g = detail::load<S, W>(grad_y_tile + f * W);
          sums[pair_sums + f] += static_cast<Wide>(detail::sum_lanes<S, W>(g));
        }
        std::fill(state.grad_domain, state.grad_domain + domain_size, S(0));
        pass.template backward<W>(x_tile, nullptr, grad_y_tile, S(1), state.grad_domain, state.sums,
                                  state.rest);
        pass.template leave_gradient<W>(state.grad_domain, x_tile,
                                        state.rest);  // over x, which has been read
        return x_tile;
      },
      [&](State& state, Wide* sums, detail::PackBuffer<Wide>& wide) { pass.finish(state.sums, sums, wide); });
}

template <class S>
auto RotorLinear<S>::backward_dense(const detail::DensePass<S>& pass, const ConstMatrixRef<S>& x,
                                    const ConstMatrixRef<S>& grad_y, MatrixRef<S>& grad_x,
                                    Workspace& workspace) const -> const Wide* {
  detail::BatchScratch<S>& scratch = workspace.scratch_;
  scratch.threads_for(1);
  const Index pair_sums = num_pairs() * (2 * bivector_size() + 1);
  scratch.sums.assign(static_cast<std::size_t>(pair_sums + this->bias().size()), Wide(0));
  S* outer = scratch.tiles[0].reserve(pass.sums_size());
  pass.backward_batch(x, grad_y, grad_x, outer);
  pass.finish(outer, scratch.sums.data(), scratch.wide[0]);
  Wide* bias_sums = scratch.sums.data() + pair_sums;
  for (Index f = 0; f < this->bias().size(); ++f) {
    S sum(0);
    for (Index sample = 0; sample < grad_y.cols(); ++sample) sum += grad_y(f, sample);
    bias_sums[f] += static_cast<Wide>(sum);
  }
  return scratch.sums.data();
}

template <class S>
void RotorLinear<S>::forward_tiles(const detail::RotorView<S>& view, const ConstMatrixRef<S>& x,
                                   MatrixRef<S>& y, detail::BatchScratch<S>& scratch) const {
  const detail::RotorPass<S> tiles(view), samples(view, shape_.sample_kernel);
  detail::map_batch<S>(
      x, y, samples.singles_per_tile(), scratch,
      [&](int width) { return (width == 1 ? samples : tiles).forward_memory(width); },
      [&](auto width, const S* x_tile, S* y_tile, const Arena& arena) {
        constexpr int W = decltype(width)::value;
        (W == 1 ? samples : tiles).template forward<W>(x_tile, nullptr, y_tile, arena);
      });
}

template <class S>
void RotorLinear<S>::forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
  detail::check_forward(*this, x, y);
  if (const Matrix<S>* matrix = standing_matrix(x.cols())) {
    check_bias("forward");
    const S* bias = this->has_bias() ? this->bias().data() : nullptr;
    return detail::DensePass<S>::forward_batch(*matrix, bias, bias_scale(), x, y);
  }
  const detail::RotorView<S> view = view_of(weights(false, "forward"));
  if (shape_.kernel == Kernel::dense) return detail::DensePass<S>(view).forward_batch(x, y);
  forward_tiles(view, x, y, workspace.scratch_);
}

template <class S>
void RotorLinear<S>::backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                              MatrixRef<S> grad_x, Workspace& workspace) {
  detail::check_backward(*this, x, grad_y, grad_x);
  const detail::RotorView<S> view = view_of(weights(true, "backward"));
  const detail::RotorPass<S> pass(view);
  const Wide* sums = shape_.kernel == Kernel::dense
                         ? backward_dense(detail::DensePass<S>(view), x, grad_y, grad_x, workspace)
                         : backward_tiles(pass, x, grad_y, grad_x, workspace);
  pass.add_gradients(sums, this->gradients().data());
  const Wide* bias_sums = sums + pass.partial_size();
  Wide bias_along_gradient(0);
  auto gradients = this->gradients();
  for (Index f = 0; f < this->bias().size(); ++f) {
    gradients[this->bias_offset() + f] += view.bias_scale * static_cast<S>(bias_sums[f]);
    bias_along_gradient += bias_sums[f] * static_cast<Wide>(this->bias()[f]);
  }
  if (shape_.bias_inside_alpha) gradients[alpha_offset()] += static_cast<S>(bias_along_gradient);
}

static_assert(LinearLayer<RotorLinear<float>> && DescribedLayer<RotorLinear<double>>);

ROTORLIN_COMPILED_LAYER(RotorLinear)

}  // namespace rotorlin
