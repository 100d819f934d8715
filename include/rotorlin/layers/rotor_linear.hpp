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
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <vector>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/parallel.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/exponential/invariant_decomposition.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/sandwich/kernel.hpp"

namespace rotorlin {

namespace detail {
template <class S>
class RotorTiles;
}

/// What a RotorLinear looks like. Zero means "choose".
struct RotorLinearOptions {
  Index chunk = 0;       ///< 2^n features; default: the largest power of two <= min(in, out), at most 2^14
  Index in_chunks = 0;   ///< default: ceil(in / chunk)
  Index out_chunks = 0;  ///< default: ceil(out / chunk)
  Index width = 1;       ///< rotor pairs in parallel for each pair of chunks
  bool single_rotor = false;  ///< r x r~ instead of r x s~
  bool bias = true;           ///< add a bias to every output feature
  bool bias_inside_alpha =
      false;  ///< y = alpha (M x + bias), one chunk and width 1: the authors' checkpoints
  Kernel kernel = Kernel::automatic;
  std::uint64_t seed = 0;  ///< of the initial bivectors, normal with variance 1
};

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
  friend class detail::RotorTiles<S>;
  /// The rotors are made in double precision also for a float layer: it costs little and is not repeated.
  using Wide = std::conditional_t<std::is_same_v<S, float>, double, S>;
  using Decomposition = InvariantDecomposition<Wide>;
  static constexpr int tile_lanes = detail::native_lanes<S>;
  /// Tiles whose gradients are added up in one go; the unit of parallel work in `backward`.
  static constexpr Index group_tiles = 4;

 public:
  static constexpr const char* type_name = "RotorLinear";
  using Options = RotorLinearOptions;

  /// Scratch memory of one call.
  class Workspace {
    friend class RotorLinear;
    std::vector<detail::PackBuffer<S>> threads_;
    std::vector<detail::PackBuffer<Wide>> wide_;
    std::vector<Wide> partial_;
    VectorX<S> dense_;
  };

  /// \throws std::invalid_argument for in or out < 2, a chunk that is no power of two, larger than a
  /// dimension or than 2^14, chunks that leave a feature out, width < 1, shears with double rotors.
  RotorLinear(Index in, Index out, const Options& options = {})
      : RotorLinear(in, out, complete(in, out, options), Completed{}) {
    Random random(options.seed);
    auto values = this->parameters();
    for (Index i = 0; i < alpha_offset(); ++i) values[i] = static_cast<S>(random.normal());
    alpha().setConstant(static_cast<S>(1 / std::sqrt(static_cast<double>(options_.width))));
  }

  const Options& options() const { return options_; }
  int dimension() const { return n_; }  ///< n
  /// Rotor pairs: in_chunks * out_chunks * width.
  Index num_pairs() const { return options_.in_chunks * options_.out_chunks * options_.width; }
  /// n(n-1)/2.
  Index bivector_size() const { return Index{n_} * (n_ - 1) / 2; }
  /// The kernel in use; never `automatic`.
  Kernel kernel() const { return kernel_; }

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
  Index right_offset() const { return options_.single_rotor ? 0 : bivector_size() * num_pairs(); }
  Index alpha_offset() const { return (options_.single_rotor ? 1 : 2) * bivector_size() * num_pairs(); }
  ParameterRange linear_parameters() const { return {alpha_offset(), num_pairs()}; }

  /// What an output feature is divided by (out values).
  VectorX<S> divisor() const { return scale_.cwiseInverse(); }

  /// Makes the kernels' weights for the present parameters now rather than in the next `forward`.
  /// \throws std::domain_error where a parameter is NaN or infinite.
  void prepare() const { prepared(false); }

  using Base::forward;
  /// y (out x batch) = M x + bias for x (in x batch).
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
    detail::check_forward(*this, x, y);
    const Prepared& weights = prepared(false);
    if (kernel_ == Kernel::dense) {
      y.noalias() = weights.dense * x;
      for (Index sample = 0; sample < y.cols() && this->has_bias(); ++sample) {
        y.col(sample) += bias_scale() * this->bias();
      }
      return;
    }
    with_kernel(weights, [&](auto kernel, const auto& operators) {
      using K = decltype(kernel);
      const Index batch = x.cols();
      Index tiles = batch / tile_lanes;
      if (batch % tile_lanes > K::singles_per_tile(n_)) ++tiles;
      const Index singles = std::max<Index>(0, batch - tiles * tile_lanes);
      const int threads = thread_count(workspace, tiles + singles);
      detail::parallel_for(tiles + singles, threads, [&](Index part, int thread) {
        detail::PackBuffer<S>& memory = workspace.threads_[static_cast<std::size_t>(thread)];
        if (part >= tiles) {
          const Index sample = tiles * tile_lanes + (part - tiles);
          Arena arena(memory.reserve(forward_memory<K>(1)));
          forward_tile<K, 1>(operators, x.col(sample).data(), nullptr, y.col(sample).data(), arena);
          return;
        }
        const Index sample = part * tile_lanes;
        const Index count = std::min<Index>(tile_lanes, batch - sample);
        Arena arena(
            memory.reserve(forward_memory<K>(tile_lanes) +
                           tile_lanes * (this->in_features() + this->out_features() + 2 * Arena::align)));
        S* x_tile = arena.take(this->in_features() * tile_lanes);
        S* y_tile = arena.take(this->out_features() * tile_lanes);
        detail::load_tile<S, tile_lanes>(x.col(sample).data(), x.outerStride(), x.rows(), count, x_tile);
        forward_tile<K, tile_lanes>(operators, x_tile, nullptr, y_tile, arena);
        detail::store_tile<S, tile_lanes>(y_tile, y.rows(), y.col(sample).data(), y.outerStride(), count);
      });
    });
  }

  /// Adds dL/dp to gradients() and writes dL/dx (in x batch), given x and dL/dy (out x batch). With g the
  /// gradient of one pair's result and gx = r~ g s: dL/db_left = alpha phi(ad_b) <gx x~>_2, dL/db_right =
  /// alpha phi(ad_c) <gx~ x>_2, dL/dalpha = <gx, x>, exact at every point.
  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace) {
    detail::check_backward(*this, x, grad_y, grad_x);
    const Prepared& weights = prepared(true);
    const Index pairs = num_pairs();
    const Index bivectors = bivector_size();
    const Index per_pair = 2 * bivectors + 1;
    const Index per_group = pairs * per_pair + this->bias().size();
    Index groups = 1;
    if (kernel_ == Kernel::dense) {
      thread_count(workspace, 1);
      workspace.partial_.assign(static_cast<std::size_t>(per_group), Wide(0));
      backward_dense(weights, x, grad_y, grad_x, workspace);
    } else {
      with_kernel(weights, [&](auto kernel, const auto& operators) {
        using K = decltype(kernel);
        const Index batch = x.cols();
        const Index group = group_tiles * tile_lanes;
        groups = (batch + group - 1) / group;
        workspace.partial_.assign(static_cast<std::size_t>(groups * per_group), Wide(0));
        const int threads = thread_count(workspace, groups);
        detail::parallel_for(groups, threads, [&](Index part, int thread) {
          const Index first = part * group;
          const Index count = std::min(group, batch - first);
          backward_group<K>(operators, x.middleCols(first, count), grad_y.middleCols(first, count),
                            grad_x.middleCols(first, count), workspace, thread,
                            workspace.partial_.data() + part * per_group);
        });
      });
    }
    for (Index part = 1; part < groups; ++part) {
      for (Index i = 0; i < per_group; ++i) {
        workspace.partial_[static_cast<std::size_t>(i)] +=
            workspace.partial_[static_cast<std::size_t>(part * per_group + i)];
      }
    }
    add_gradients(weights, workspace.partial_.data());
  }

  /// M (out x in), without the bias.
  Matrix<S> to_dense() const {
    Matrix<S> dense = Base::forward(Matrix<S>::Identity(this->in_features(), this->in_features()));
    if (this->has_bias()) dense.colwise() -= bias_scale() * this->bias();
    return dense;
  }

  /// The planes of every rotor, pair by pair, left before right; a single rotor has only left ones.
  std::vector<RotorPlanes<S>> planes() const {
    const Prepared& weights = prepared(false);
    std::vector<RotorPlanes<S>> result;
    for (Index pair = 0; pair < num_pairs(); ++pair) {
      const Index chunks = pair / options_.width;
      for (const bool left : {true, false}) {
        if (!left && options_.single_rotor) continue;
        const Decomposition& d = (left ? weights.left : weights.right)[static_cast<std::size_t>(pair)];
        result.push_back({chunks / options_.out_chunks, chunks % options_.out_chunks, pair % options_.width,
                          left, d.basis().leftCols(2 * d.num_planes()).template cast<S>(),
                          d.angles().template cast<S>()});
      }
    }
    return result;
  }

  Description describe() const {
    return {{"in", detail::option_text(this->in_features())},
            {"out", detail::option_text(this->out_features())},
            {"chunk", detail::option_text(options_.chunk)},
            {"in_chunks", detail::option_text(options_.in_chunks)},
            {"out_chunks", detail::option_text(options_.out_chunks)},
            {"width", detail::option_text(options_.width)},
            {"single_rotor", detail::option_text(options_.single_rotor)},
            {"bias", detail::option_text(this->has_bias())},
            {"bias_inside_alpha", detail::option_text(options_.bias_inside_alpha)}};
  }
  static RotorLinear from_description(const Description& description) {
    return RotorLinear(detail::option<Index>(description, "in"), detail::option<Index>(description, "out"),
                       options_of(description));
  }
  /// Number of parameters of that layer, without making it.
  static Index count_parameters(const Description& description) {
    const auto in = detail::option<Index>(description, "in");
    const auto out = detail::option<Index>(description, "out");
    const Options options = complete(in, out, options_of(description));
    return detail::checked_sum(count_weights(options), options.bias ? out : 0);
  }

 private:
  static Options options_of(const Description& description) {
    Options options;
    options.chunk = detail::option<Index>(description, "chunk");
    options.in_chunks = detail::option<Index>(description, "in_chunks");
    options.out_chunks = detail::option<Index>(description, "out_chunks");
    options.width = detail::option<Index>(description, "width");
    options.single_rotor = detail::option<bool>(description, "single_rotor");
    options.bias = detail::option<bool>(description, "bias");
    options.bias_inside_alpha = detail::option<bool>(description, "bias_inside_alpha");
    return options;
  }

  struct Completed {};

  /// Weights of the kernels, made from `parameters`. Copies of a layer make their own.
  struct Prepared {
    Prepared() = default;
    Prepared(const Prepared&) {}
    Prepared& operator=(const Prepared&) {
      ready = false;
      return *this;
    }
    std::mutex mutex;
    bool ready = false;
    bool adjoint = false;
    VectorX<S> parameters;
    std::vector<Decomposition> left, right;
    std::vector<typename detail::SpinorKernel<S>::Weights> spinor;
    std::vector<typename detail::ShearKernel<S>::Weights> shears;
    std::vector<typename detail::ParityKernel<S>::Weights> parity;
    Matrix<S> dense;
    // scratch of preparation
    Bivector<Wide, Dynamic> bivector;
    VectorX<Wide> even_left, even_right;
    Matrix<Wide> rotation;
    detail::PackBuffer<Wide> memory;
  };

  /// Hands out parts of a workspace, each on a boundary of 64 bytes.
  class Arena {
   public:
    static constexpr Index align = 16;
    explicit Arena(S* memory) : next_(memory) {}
    S* take(Index count) {
      S* part = next_;
      next_ += rounded(count);
      return part;
    }
    static Index rounded(Index count) { return (count + align - 1) / align * align; }

   private:
    S* next_;
  };

  static Options complete(Index in, Index out, Options options) {
    constexpr Index most = detail::max_features;
    if (in < 2 || out < 2 || in > most || out > most) {
      detail::throw_invalid("RotorLinear: in = ", in, ", out = ", out,
                            "; both must be at least 2 and at most ", most);
    }
    constexpr Index largest = Index{1} << max_dimension;
    const Index smaller = std::min(in, out);
    if (options.chunk == 0) {
      options.chunk =
          static_cast<Index>(std::bit_floor(static_cast<std::size_t>(std::min(smaller, largest))));
    }
    if (options.chunk < 2 || options.chunk > largest ||
        !std::has_single_bit(static_cast<std::size_t>(options.chunk))) {
      detail::throw_invalid("RotorLinear: chunk = ", options.chunk, " for a layer ", in, " -> ", out,
                            "; a chunk is a power of two from 2 to ", largest);
    }
    if (options.chunk > smaller) {
      detail::throw_invalid("RotorLinear: chunk = ", options.chunk, " is larger than a side of the layer ",
                            in, " -> ", out, "; take a power of two, at most ",
                            std::bit_floor(static_cast<std::size_t>(smaller)));
    }
    const auto check = [&](const char* name, Index& chunks, Index features) {
      const Index needed = (features + options.chunk - 1) / options.chunk;
      if (chunks == 0) chunks = needed;
      if (chunks < needed || chunks > features) {
        detail::throw_invalid("RotorLinear: ", name, " = ", chunks, " chunks of ", options.chunk, " for ",
                              features, " features; expected ", needed, " to ", features,
                              ", so that every feature is covered");
      }
    };
    check("in_chunks", options.in_chunks, in);
    check("out_chunks", options.out_chunks, out);
    if (options.width < 1) {
      detail::throw_invalid("RotorLinear: width = ", options.width, "; expected at least 1");
    }
    if (options.bias_inside_alpha &&
        (options.in_chunks != 1 || options.out_chunks != 1 || options.width != 1)) {
      detail::throw_invalid("RotorLinear: bias_inside_alpha with ", options.in_chunks, " x ",
                            options.out_chunks, " chunks and width ", options.width,
                            "; it is defined for one chunk and width 1");
    }
    if (!is_kernel(options.kernel)) {
      detail::throw_invalid("RotorLinear: kernel = ", static_cast<int>(options.kernel),
                            "; expected one of the enumeration Kernel");
    }
    if (options.kernel == Kernel::shears && !options.single_rotor) {
      detail::throw_invalid("RotorLinear: the shears kernel needs single_rotor = true (r x r~)");
    }
    return options;
  }

  RotorLinear(Index in, Index out, const Options& options, Completed)
      : Base(in, out, count_weights(options), options.bias),
        options_(options),
        n_(std::countr_zero(static_cast<std::size_t>(options.chunk))),
        kernel_(choose(options, in, out)) {
    scale_ = VectorX<S>::Zero(out);
    for (Index o = 0; o < options_.out_chunks; ++o) {
      for (Index k = 0; k < options_.chunk; ++k) scale_[(out_start(o) + k) % out] += S(1);
    }
    scale_ = (scale_ * static_cast<S>(options_.in_chunks)).cwiseInverse().eval();
  }

  static Index count_weights(const Options& options) {
    const Index n = std::countr_zero(static_cast<std::size_t>(options.chunk));
    const Index pairs = detail::checked_product(
        detail::checked_product(options.in_chunks, options.out_chunks), options.width);
    return detail::checked_product(pairs, (options.single_rotor ? 1 : 2) * n * (n - 1) / 2 + 1);
  }

  static Kernel choose(const Options& options, Index in, Index out) {
    if (options.kernel != Kernel::automatic) return options.kernel;
    const Index n = std::countr_zero(static_cast<std::size_t>(options.chunk));
    if (n >= 6) return options.single_rotor ? Kernel::shears : Kernel::spinor;
    // parity blocks take half the multiplications of the dense matrix a chunk and branch
    const Index pairs = options.in_chunks * options.out_chunks * options.width;
    return pairs * options.chunk * options.chunk / 2 < in * out ? Kernel::parity_blocks : Kernel::dense;
  }

  Index in_start(Index chunk) const { return chunk * this->in_features() / options_.in_chunks; }
  Index out_start(Index chunk) const { return chunk * this->out_features() / options_.out_chunks; }
  S bias_scale() const { return options_.bias_inside_alpha ? alpha()[0] : S(1); }
  std::size_t pair_index(Index i, Index o, Index w) const {
    return static_cast<std::size_t>((i * options_.out_chunks + o) * options_.width + w);
  }

  int thread_count(Workspace& workspace, Index parts) const {
    const int threads = static_cast<int>(std::min<Index>(parts, num_threads()));
    if (workspace.threads_.size() < static_cast<std::size_t>(threads)) {
      workspace.threads_.resize(static_cast<std::size_t>(threads));
      workspace.wide_.resize(static_cast<std::size_t>(threads));
    }
    return threads;
  }

  template <class F>
  void with_kernel(const Prepared& weights, F&& body) const {
    switch (kernel_) {
      case Kernel::parity_blocks:
        return body(detail::ParityKernel<S>{}, weights.parity);
      case Kernel::shears:
        return body(detail::ShearKernel<S>{}, weights.shears);
      default:
        return body(detail::SpinorKernel<S>{}, weights.spinor);
    }
  }

  /// The weights for the present parameters, made anew where these have changed.
  const Prepared& prepared(bool adjoint) const {
    Prepared& state = prepared_;
    const std::lock_guard lock(state.mutex);
    const auto values = this->parameters();
    const auto bytes = [](Index count) { return static_cast<std::size_t>(count) * sizeof(S); };
    const bool same =
        state.ready && std::memcmp(values.data(), state.parameters.data(), bytes(values.size())) == 0;
    if (same && (state.adjoint || !adjoint)) return state;
    detail::check_parameters(*this, "prepare");
    const bool only_bias =
        state.ready && (state.adjoint || !adjoint) &&
        std::memcmp(values.data(), state.parameters.data(), bytes(this->bias_offset())) == 0;
    state.ready = false;
    state.adjoint |= adjoint;
    if (!only_bias) make_weights(state);
    state.parameters = values;
    state.ready = true;
    return state;
  }

  void make_weights(Prepared& state) const {
    const auto pairs = static_cast<std::size_t>(num_pairs());
    const Index half_size = options_.chunk / 2;
    state.left.resize(pairs);
    if (!options_.single_rotor) state.right.resize(pairs);
    state.even_left.resize(half_size);
    state.even_right.resize(half_size);
    if (state.bivector.dimension() != n_) state.bivector = Bivector<Wide, Dynamic>(n_);
    if (kernel_ == Kernel::spinor) state.spinor.resize(pairs);
    if (kernel_ == Kernel::shears) state.shears.resize(pairs);
    if (kernel_ == Kernel::parity_blocks || kernel_ == Kernel::dense) state.parity.resize(pairs);
    for (std::size_t p = 0; p < pairs; ++p) {
      const auto column = static_cast<Index>(p);
      const auto decompose = [&](const auto& bivectors, Decomposition& d, VectorX<Wide>& even) {
        state.bivector.coeffs() = bivectors.col(column).template cast<Wide>();
        d.compute(state.bivector);
        d.rotor(even);
      };
      decompose(bivectors_left(), state.left[p], state.even_left);
      if (!options_.single_rotor) decompose(bivectors_right(), state.right[p], state.even_right);
      if (kernel_ == Kernel::shears) rotation_of(state.left[p], state.rotation);
      const detail::RotorPair<Wide> pair{n_, state.even_left.data(),
                                         (options_.single_rotor ? state.even_left : state.even_right).data(),
                                         state.rotation.data()};
      const auto scale = static_cast<Wide>(alpha()[column]);
      if (kernel_ == Kernel::spinor) {
        detail::SpinorKernel<S>::prepare(pair, scale, state.adjoint, state.spinor[p], state.memory);
      } else if (kernel_ == Kernel::shears) {
        detail::ShearKernel<S>::prepare(pair, scale, state.adjoint, state.shears[p], state.memory);
      } else {
        detail::ParityKernel<S>::prepare(pair, scale, state.adjoint, state.parity[p], state.memory);
      }
    }
    if (kernel_ == Kernel::dense) make_dense(state);
  }

  /// The rotation of vectors v -> r v r~: every plane turned by twice its angle.
  void rotation_of(const Decomposition& d, Matrix<Wide>& rotation) const {
    using Small = Eigen::Matrix<Wide, Dynamic, Dynamic, Eigen::ColMajor, max_dimension, max_dimension>;
    Small turned = d.basis();
    for (Index p = 0; p < d.num_planes(); ++p) {
      const Wide c = std::cos(2 * d.angles()[p]);
      const Wide s = std::sin(2 * d.angles()[p]);
      turned.col(2 * p) = c * d.basis().col(2 * p) - s * d.basis().col(2 * p + 1);
      turned.col(2 * p + 1) = s * d.basis().col(2 * p) + c * d.basis().col(2 * p + 1);
    }
    rotation.resize(n_, n_);
    rotation.noalias() = turned.lazyProduct(d.basis().transpose());
  }

  /// The whole layer as a matrix, from the parity blocks of its pairs.
  void make_dense(Prepared& state) const {
    const std::vector<std::uint16_t>& order = detail::parity_order(n_);
    const Index block = options_.chunk / 2;
    state.dense.setZero(this->out_features(), this->in_features());
    for_each_pair([&](Index i, Index o, std::size_t p) {
      const S scale = alpha()[static_cast<Index>(p)];
      for_each_entry(i, o, order, block, [&](Index row, Index column, Index out, Index in) {
        state.dense(out, in) += scale * scale_[out] * state.parity[p].blocks(row, column);
      });
    });
  }

  template <class F>
  void for_each_pair(F&& body) const {
    for (Index i = 0; i < options_.in_chunks; ++i) {
      for (Index o = 0; o < options_.out_chunks; ++o) {
        for (Index w = 0; w < options_.width; ++w) body(i, o, pair_index(i, o, w));
      }
    }
  }

  /// body(row, column, out feature, in feature) for the entries of the parity blocks of chunks i and o.
  template <class F>
  void for_each_entry(Index i, Index o, const std::vector<std::uint16_t>& order, Index block,
                      F&& body) const {
    for (Index column = 0; column < 2 * block; ++column) {
      const Index in = (in_start(i) + order[static_cast<std::size_t>(column)]) % this->in_features();
      const Index first = column < block ? 0 : block;
      for (Index row = 0; row < block; ++row) {
        const Index out =
            (out_start(o) + order[static_cast<std::size_t>(first + row)]) % this->out_features();
        body(row, column, out, in);
      }
    }
  }

  template <class K>
  Index forward_memory(Index lanes) const {
    const Index chunk = options_.chunk * lanes;
    return (options_.in_chunks + 2) * Arena::rounded(chunk) + Arena::rounded(K::scratch_size(n_) * lanes) +
           Arena::rounded(this->in_features()) + Arena::rounded(this->out_features());
  }

  /// Features start .. start + chunk - 1 modulo size of `tile`, contiguous: where they lie, or copied to
  /// `copy`.
  template <int W>
  const S* gather_chunk(const S* tile, Index start, Index size, S* copy) const {
    const Index chunk = options_.chunk;
    if (start + chunk <= size) return tile + start * W;
    const Index first = size - start;
    std::copy(tile + start * W, tile + size * W, copy);
    std::copy(tile, tile + (chunk - first) * W, copy + first * W);
    return copy;
  }

  /// The input chunks in the domain of kernel K: points domains[i] at each.
  template <class K, int W>
  const S* enter_input(const S* x_tile, Index i, S* domain, S* chunk, S* scratch) const {
    const S* features =
        gather_chunk<W>(x_tile, in_start(i), this->in_features(), K::transforms ? chunk : domain);
    return K::template enter<W>(n_, features, domain, scratch);
  }

  /// All input chunks in the domain of kernel K.
  template <class K, int W>
  void enter_tile(const S* x_tile, S* domains, S* chunk, S* scratch) const {
    for (Index i = 0; i < options_.in_chunks; ++i) {
      enter_input<K, W>(x_tile, i, domains + i * Arena::rounded(options_.chunk * W), chunk, scratch);
    }
  }

  /// y_tile = layer(x_tile): features in packs of W samples. `entered` is what `enter_tile` made of x_tile,
  /// or null.
  template <class K, int W, class Operators>
  void forward_tile(const Operators& operators, const S* x_tile, const S* entered, S* y_tile,
                    Arena& arena) const {
    const Index size = options_.chunk * W;
    const Index out = this->out_features();
    S* domains = arena.take(options_.in_chunks * Arena::rounded(size));
    S* result = arena.take(size);
    S* chunk = arena.take(size);
    S* scratch = arena.take(K::scratch_size(n_) * W);
    if (entered == nullptr && K::transforms && options_.out_chunks > 1) {
      enter_tile<K, W>(x_tile, domains, chunk, scratch);
      entered = domains;
    }
    // y = sum of alpha r x s~ over all that acts on output chunk o, in the domain
    const auto apply = [&](Index o, S* y) {
      for (Index i = 0; i < options_.in_chunks; ++i) {
        // where kernel K leaves the coefficients as they are, contiguous chunks are used in place
        const S* x = entered != nullptr
                         ? entered + i * Arena::rounded(size)
                         : enter_input<K, W>(x_tile, i, domains + i * Arena::rounded(size), chunk, scratch);
        for (Index w = 0; w < options_.width; ++w) {
          const auto& op = operators[pair_index(i, o, w)].forward;
          if (i == 0 && w == 0) {
            K::template apply<W, false>(n_, op, x, y, scratch);
          } else {
            K::template apply<W, true>(n_, op, x, y, scratch);
          }
        }
      }
    };
    if (options_.in_chunks == 1 && options_.out_chunks == 1) {
      S* domain = K::transforms ? result : y_tile;
      apply(0, domain);
      K::template leave<W>(n_, domain, y_tile, scratch);
      for (Index f = 0; f < this->bias().size(); ++f) {
        const detail::Pack<S, W> sum = detail::load<S, W>(y_tile + f * W) + bias_scale() * this->bias()[f];
        detail::store<S, W>(y_tile + f * W, sum);
      }
      return;
    }
    for (Index f = 0; f < out; ++f) {
      const S value = this->has_bias() ? bias_scale() * this->bias()[f] : S(0);
      detail::store<S, W>(y_tile + f * W, detail::Pack<S, W>{} + value);
    }
    for (Index o = 0; o < options_.out_chunks; ++o) {
      apply(o, result);
      const S* y = K::template leave<W>(n_, result, chunk, scratch);
      Index f = out_start(o);
      for (Index k = 0; k < options_.chunk; ++k) {
        const detail::Pack<S, W> sum =
            detail::load<S, W>(y_tile + f * W) + detail::load<S, W>(y + k * W) * scale_[f];
        detail::store<S, W>(y_tile + f * W, sum);
        if (++f == out) f = 0;
      }
    }
  }

  template <class K>
  Index backward_memory() const {
    const Index size = Arena::rounded(options_.chunk * tile_lanes);
    const Index scratch = std::max(K::scratch_size(n_), K::gradient_scratch_size(n_)) * tile_lanes;
    return (options_.in_chunks + 4) * size + Arena::rounded(scratch);
  }

  /// One tile of `backward`: adds `scale` dL/dx to the input chunks in `grad_domains` and, per pair, what
  /// K::gradient finds to `sums`. `entered` is what `enter_tile` made of x_tile, or null.
  template <class K, class Operators>
  void backward_tile(const Operators& operators, const S* x_tile, const S* entered, const S* grad_y_tile,
                     S scale, S* grad_domains, S* sums, Arena arena) const {
    constexpr int W = tile_lanes;
    const Index size = options_.chunk * W;
    S* domains = arena.take(options_.in_chunks * Arena::rounded(size));
    S* grad_domain = arena.take(size);
    S* product = arena.take(size);
    S* chunk = product;  // both are done with before the first product: less memory stays in the cache
    S* grad_chunk = K::transforms ? product : arena.take(size);
    S* scratch = arena.take(std::max(K::scratch_size(n_), K::gradient_scratch_size(n_)) * W);
    if (entered == nullptr && K::transforms) {
      enter_tile<K, W>(x_tile, domains, chunk, scratch);
      entered = domains;
    }
    for (Index o = 0; o < options_.out_chunks; ++o) {
      Index f = out_start(o);
      for (Index k = 0; k < options_.chunk; ++k) {
        detail::store<S, W>(grad_chunk + k * W, detail::load<S, W>(grad_y_tile + f * W) * scale_[f]);
        if (++f == this->out_features()) f = 0;
      }
      const S* g = K::template enter<W>(n_, grad_chunk, grad_domain, scratch);
      for (Index i = 0; i < options_.in_chunks; ++i) {
        const S* x = entered != nullptr ? entered + i * Arena::rounded(size)
                                        : enter_input<K, W>(x_tile, i, domains, chunk, scratch);
        S* grad_input = grad_domains + i * Arena::rounded(size);
        for (Index w = 0; w < options_.width; ++w) {
          const std::size_t p = pair_index(i, o, w);
          K::template apply<W, false>(n_, operators[p].adjoint, g, product, scratch);
          const S factor = scale * alpha()[static_cast<Index>(p)];
          for (Index k = 0; k < size; k += W) {
            detail::store<S, W>(grad_input + k, detail::load<S, W>(grad_input + k) +
                                                    detail::load<S, W>(product + k) * factor);
          }
          K::template gradient<W>(n_, product, x, sums + static_cast<Index>(p) * K::gradient_size(n_),
                                  scratch);
        }
      }
    }
  }

  /// grad_x_tile from the gradients of the input chunks.
  template <class K>
  void leave_gradient(const S* grad_domains, S* grad_x_tile, Arena arena) const {
    constexpr int W = tile_lanes;
    const Index in = this->in_features();
    const Index size = options_.chunk * W;
    S* chunk = arena.take(size);
    S* scratch = arena.take(K::scratch_size(n_) * W);
    std::fill(grad_x_tile, grad_x_tile + in * W, S(0));
    for (Index i = 0; i < options_.in_chunks; ++i) {
      const S* gx = K::template leave<W>(n_, grad_domains + i * Arena::rounded(size), chunk, scratch);
      Index f = in_start(i);
      for (Index k = 0; k < options_.chunk; ++k) {
        detail::store<S, W>(grad_x_tile + f * W,
                            detail::load<S, W>(grad_x_tile + f * W) + detail::load<S, W>(gx + k * W));
        if (++f == in) f = 0;
      }
    }
  }

  /// One group of samples of `backward`: grad_x, and per pair <gx x~>_2, <gx~ x>_2, <gx, x>, then the sums of
  /// grad_y for the bias, added to `partial`.
  template <class K, class Operators, class X, class GradY, class GradX>
  void backward_group(const Operators& operators, const X& x, const GradY& grad_y, GradX&& grad_x,
                      Workspace& workspace, int thread, Wide* partial) const {
    constexpr int W = tile_lanes;
    const Index in = this->in_features();
    const Index out = this->out_features();
    const Index sums_size = num_pairs() * K::gradient_size(n_);
    const Index domains_size = options_.in_chunks * Arena::rounded(options_.chunk * W);
    Arena arena(workspace.threads_[static_cast<std::size_t>(thread)].reserve(
        Arena::rounded(in * W) + Arena::rounded(out * W) + domains_size + Arena::rounded(sums_size) +
        backward_memory<K>()));
    S* x_tile = arena.take(in * W);
    S* grad_x_tile = x_tile;  // written when the last pair has read x
    S* grad_y_tile = arena.take(out * W);
    S* grad_domains = arena.take(domains_size);
    S* sums = arena.take(sums_size);
    std::fill(sums, sums + sums_size, S(0));
    Wide* bias_sums = partial + num_pairs() * (2 * bivector_size() + 1);

    for (Index sample = 0; sample < x.cols(); sample += W) {
      const Index count = std::min<Index>(W, x.cols() - sample);
      detail::load_tile<S, W>(x.col(sample).data(), x.outerStride(), in, count, x_tile);
      detail::load_tile<S, W>(grad_y.col(sample).data(), grad_y.outerStride(), out, count, grad_y_tile);
      for (Index f = 0; f < this->bias().size(); ++f) {
        bias_sums[f] += static_cast<Wide>(detail::sum_lanes<S, W>(detail::load<S, W>(grad_y_tile + f * W)));
      }
      std::fill(grad_domains, grad_domains + domains_size, S(0));
      backward_tile<K>(operators, x_tile, nullptr, grad_y_tile, S(1), grad_domains, sums, arena);
      leave_gradient<K>(grad_domains, grad_x_tile, arena);
      detail::store_tile<S, W>(grad_x_tile, in, grad_x.col(sample).data(), grad_x.outerStride(), count);
    }
    finish_all<K>(sums, partial, workspace.wide_[static_cast<std::size_t>(thread)]);
  }

  template <class K>
  void finish_all(const S* sums, Wide* partial, detail::PackBuffer<Wide>& memory) const {
    for (Index p = 0; p < num_pairs(); ++p) {
      finish<K>(sums + p * K::gradient_size(n_), partial + p * (2 * bivector_size() + 1), memory);
    }
  }

  template <class K>
  void finish(const S* sums, Wide* pair_sums, detail::PackBuffer<Wide>& memory) const {
    K::finish_gradient(n_, sums, pair_sums, pair_sums + bivector_size(), pair_sums[2 * bivector_size()],
                       memory);
  }

  void backward_dense(const Prepared& weights, const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                      MatrixRef<S> grad_x, Workspace& workspace) const {
    grad_x.noalias() = weights.dense.transpose() * grad_y;
    auto outer = detail::scratch(workspace.dense_, this->out_features(), this->in_features());
    outer.noalias() = grad_y * x.transpose();
    finish_dense(weights, outer, workspace.partial_.data(), workspace.threads_[0], workspace.wide_[0]);
    Wide* bias_sums = workspace.partial_.data() + num_pairs() * (2 * bivector_size() + 1);
    for (Index f = 0; f < this->bias().size(); ++f) bias_sums[f] += static_cast<Wide>(grad_y.row(f).sum());
  }

  /// The sums of every pair out of sum g x^T.
  template <class Outer>
  void finish_dense(const Prepared& weights, const Outer& outer, Wide* partial, detail::PackBuffer<S>& memory,
                    detail::PackBuffer<Wide>& wide) const {
    using K = detail::ParityKernel<S>;
    const std::vector<std::uint16_t>& order = detail::parity_order(n_);
    const Index block = options_.chunk / 2;
    Eigen::Map<Matrix<S>> gradient(memory.reserve(2 * block * 2 * block), block, 2 * block);
    Eigen::Map<Matrix<S>> sums(gradient.data() + gradient.size(), block, 2 * block);
    for_each_pair([&](Index i, Index o, std::size_t p) {
      for_each_entry(i, o, order, block, [&](Index row, Index column, Index out, Index in) {
        gradient(row, column) = scale_[out] * outer(out, in);
      });
      for (Index part = 0; part < 2; ++part) {  // gx x^T = M^T (g x^T)
        sums.middleCols(part * block, block).noalias() =
            weights.parity[p].blocks.middleCols(part * block, block).transpose() *
            gradient.middleCols(part * block, block);
      }
      finish<K>(sums.data(), partial + static_cast<Index>(p) * (2 * bivector_size() + 1), wide);
    });
  }

  void add_gradients(const Prepared& weights, const Wide* sums) {
    auto gradients = this->gradients();
    const Index size = bivector_size();
    Wide bias_along_gradient(0);
    const Wide* bias_sums = sums + num_pairs() * (2 * size + 1);
    for (Index f = 0; f < this->bias().size(); ++f) {
      gradients[this->bias_offset() + f] += bias_scale() * static_cast<S>(bias_sums[f]);
      bias_along_gradient += bias_sums[f] * static_cast<Wide>(this->bias()[f]);
    }
    Bivector<Wide, Dynamic> h(n_);
    for (Index p = 0; p < num_pairs(); ++p) {
      const Wide* own = sums + p * (2 * size + 1);
      const auto scale = static_cast<Wide>(alpha()[p]);
      const auto add = [&](const Decomposition& d, Index offset) {
        gradients.segment(offset + p * size, size) += (scale * d.phi(h, 1).coeffs()).template cast<S>();
      };
      const Eigen::Map<const VectorX<Wide>> left(own, size);
      const Eigen::Map<const VectorX<Wide>> right(own + size, size);
      const auto index = static_cast<std::size_t>(p);
      if (options_.single_rotor) {
        h.coeffs() = left + right;
        add(weights.left[index], 0);
      } else {
        h.coeffs() = left;
        add(weights.left[index], 0);
        h.coeffs() = right;
        add(weights.right[index], right_offset());
      }
      gradients[alpha_offset() + p] += static_cast<S>(own[2 * size]);
      if (options_.bias_inside_alpha) gradients[alpha_offset() + p] += static_cast<S>(bias_along_gradient);
    }
  }

  Options options_;
  int n_;
  Kernel kernel_;
  VectorX<S> scale_;  // one over the divisor of each output feature
  mutable Prepared prepared_;
};

static_assert(LinearLayer<RotorLinear<float>> && DescribedLayer<RotorLinear<double>>);

}  // namespace rotorlin
