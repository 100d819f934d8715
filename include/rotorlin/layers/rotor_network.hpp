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
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/parallel.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/text.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/activation.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_tiles.hpp"

namespace rotorlin {

/// What a RotorNetwork looks like; the defaults are the paper's network for a query projection.
struct RotorNetworkOptions {
  Index hidden = 0;           ///< features of h; default: the largest power of two <= in, at most 2^14
  Index depth = 2;            ///< hidden blocks
  Index width = 3;            ///< parallel branches of each
  bool single_rotor = false;  ///< r x r~ instead of r x s~
  bool use_permutations = true;
  bool normalize = true;
  double epsilon = 1e-5;  ///< of the normalisation
  Activation activation = Activation::prelu;
  bool residual = false;         ///< h_0 += x and y += h_depth, where the shapes match
  bool parallel_output = false;  ///< y = sum_b v_b rotor_b(h_depth) with `width` rotors, instead of one
  Kernel kernel = Kernel::automatic;
  std::uint64_t seed = 0;  ///< of bivectors (normal with variance 1) and permutations
};

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
  using Tiles = detail::RotorTiles<S>;
  using Wide = typename Tiles::Wide;
  static constexpr int lanes = Tiles::lanes;
  using LanePack = detail::Pack<S, lanes>;
  /// Tiles whose gradients are added up in one go; the unit of parallel work in `backward`.
  static constexpr Index group_tiles = 4;

 public:
  static constexpr const char* type_name = "RotorNetwork";
  using Options = RotorNetworkOptions;
  /// Feature j of the result is feature p[j] of the argument.
  using Permutation = std::vector<std::int32_t>;

  /// Scratch memory of one call.
  class Workspace {
    friend class RotorNetwork;
    std::vector<detail::PackBuffer<S>> tiles_, small_;
    std::vector<detail::PackBuffer<Wide>> wide_;
    std::vector<Wide> partial_;
  };

  /// Alphas and branch weights are 1, the weight of prelu 0.25. \throws std::invalid_argument for in, out or
  /// hidden < 2, depth < 0, width < 1, or epsilon <= 0.
  RotorNetwork(Index in, Index out, const Options& options = {})
      : RotorNetwork(in, out, complete(in, out, options), Completed{}) {
    Random random(options.seed);
    this->parameters().setOnes();
    for (Index i = 0; i < num_rotors(); ++i) {
      auto values = rotor_parameters(i);
      const Index bivectors = state_.rotors[at(i)].alpha_offset();
      for (Index k = 0; k < bivectors; ++k) values[k] = static_cast<S>(random.normal());
    }
    for (Permutation& permutation : permutations_) random.shuffle(permutation);
    if (options_.activation == Activation::prelu) prelu_weight() = S(0.25);
  }

  const Options& options() const { return options_; }
  Index hidden_features() const { return options_.hidden; }
  Index num_rotors() const { return static_cast<Index>(state_.rotors.size()); }
  /// Number of the rotor layer of a branch of a hidden block.
  Index branch(Index block, Index branch) const { return 1 + block * options_.width + branch; }
  /// Number of the (first) rotor layer that makes y.
  Index output_rotor() const { return 1 + options_.depth * options_.width; }

  /// A copy of rotor layer i with its present parameters.
  RotorLinear<S> rotor(Index i) const {
    check_rotor("rotor", i, num_rotors());
    RotorLinear<S> result = state_.rotors[at(i)];
    result.parameters() = rotor_parameters(i);
    return result;
  }
  /// The parameters of rotor layer i, in the order of RotorLinear, as a part of parameters().
  Eigen::Map<VectorX<S>> rotor_parameters(Index i) {
    check_rotor("rotor_parameters", i, num_rotors());
    return {this->parameters().data() + offsets_[at(i)], offsets_[at(i + 1)] - offsets_[at(i)]};
  }
  Eigen::Map<const VectorX<S>> rotor_parameters(Index i) const {
    check_rotor("rotor_parameters", i, num_rotors());
    return {this->parameters().data() + offsets_[at(i)], offsets_[at(i + 1)] - offsets_[at(i)]};
  }

  /// Branch weights: v_kb at k * width + b, then those of a parallel output.
  Eigen::Map<VectorX<S>> branch_weights() {
    return {this->parameters().data() + offsets_.back(), num_branch_weights(options_)};
  }
  Eigen::Map<const VectorX<S>> branch_weights() const {
    return {this->parameters().data() + offsets_.back(), num_branch_weights(options_)};
  }
  /// The alphas of the rotor that makes y, or the weights of a parallel output; none with a residual output.
  ParameterRange linear_parameters() const {
    if (residual_output()) return {0, 0};
    if (options_.parallel_output) return {offsets_.back() + options_.depth * options_.width, options_.width};
    const RotorLinear<S>& last = state_.rotors.back();
    return {offsets_[at(output_rotor())] + last.alpha_offset(), last.num_pairs()};
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
    check_rotor("permutation", i, static_cast<Index>(permutations_.size()));
    return permutations_[at(i)];
  }
  /// \throws std::invalid_argument unless it holds 0 .. hidden - 1, each once.
  void set_permutation(Index i, Permutation permutation) {
    check_rotor("set_permutation", i, static_cast<Index>(permutations_.size()));
    check_permutation(permutation, i);
    permutations_[at(i)] = std::move(permutation);
  }

  using Base::forward;
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
    detail::check_forward(*this, x, y);
    synchronize(false, "forward");
    const Index in = this->in_features();
    const Index out = this->out_features();
    const Index batch = x.cols();
    Index tiles = batch / lanes;
    if (batch % lanes > tiles_of(0).singles_per_tile()) ++tiles;
    const Index parts = tiles + std::max<Index>(0, batch - tiles * lanes);
    const int threads = thread_count(workspace, parts);
    detail::parallel_for(parts, threads, [&](Index part, int thread) {
      Arena arena(workspace.tiles_[static_cast<std::size_t>(thread)].reserve(
          Arena::rounded(in * lanes) + Arena::rounded(out * lanes) + forward_memory()));
      if (part >= tiles) {
        const Index sample = tiles * lanes + (part - tiles);
        forward_tile<1>(x.col(sample).data(), y.col(sample).data(), arena);
        return;
      }
      const Index sample = part * lanes;
      const Index count = std::min<Index>(lanes, batch - sample);
      S* x_tile = arena.take(in * lanes);
      S* y_tile = arena.take(out * lanes);
      detail::load_tile<S, lanes>(x.col(sample).data(), x.outerStride(), in, count, x_tile);
      forward_tile<lanes>(x_tile, y_tile, arena);
      detail::store_tile<S, lanes>(y_tile, out, y.col(sample).data(), y.outerStride(), count);
    });
  }

  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace) {
    detail::check_backward(*this, x, grad_y, grad_x);
    synchronize(true, "backward");
    const Index batch = x.cols();
    const Index group = group_tiles * lanes;
    const Index groups = (batch + group - 1) / group;
    const Index per_group = partial_size();
    std::vector<Wide>& partial = workspace.partial_;
    partial.assign(static_cast<std::size_t>(groups * per_group), Wide(0));
    const int threads = thread_count(workspace, groups);
    detail::parallel_for(groups, threads, [&](Index part, int thread) {
      const Index first = part * group;
      const Index count = std::min(group, batch - first);
      backward_group(x.middleCols(first, count), grad_y.middleCols(first, count),
                     grad_x.middleCols(first, count), workspace, static_cast<std::size_t>(thread),
                     partial.data() + part * per_group);
    });
    for (Index part = 1; part < groups; ++part) {
      for (Index i = 0; i < per_group; ++i) partial[at(i)] += partial[at(part * per_group + i)];
    }
    add_gradients(partial.data());
  }

  /// Whether y = M x: without activation and normalisation.
  bool is_linear() const { return options_.activation == Activation::none && !options_.normalize; }

  /// The layer y = M x that a linear network is. \throws std::invalid_argument where it is not linear.
  DenseLinear<S> collapse() const {
    if (!is_linear()) {
      detail::throw_invalid("RotorNetwork::collapse: a network with activation ",
                            to_string(options_.activation), options_.normalize ? " and normalisation" : "",
                            " is not linear; expected activation none and normalize = false");
    }
    return DenseLinear<S>::from_matrix(
        Base::forward(Matrix<S>::Identity(this->in_features(), this->in_features())));
  }

  Description describe() const {
    Description result = {{"in", detail::option_text(this->in_features())},
                          {"out", detail::option_text(this->out_features())},
                          {"hidden", detail::option_text(options_.hidden)},
                          {"depth", detail::option_text(options_.depth)},
                          {"width", detail::option_text(options_.width)},
                          {"single_rotor", detail::option_text(options_.single_rotor)},
                          {"use_permutations", detail::option_text(options_.use_permutations)},
                          {"normalize", detail::option_text(options_.normalize)},
                          {"epsilon", detail::format_real(options_.epsilon)},
                          {"activation", std::string(to_string(options_.activation))},
                          {"residual", detail::option_text(options_.residual)},
                          {"parallel_output", detail::option_text(options_.parallel_output)}};
    for (std::size_t i = 0; i < permutations_.size(); ++i) {
      std::string& text = result[permutation_key(static_cast<Index>(i))];
      for (const std::int32_t from : permutations_[i])
        text += (text.empty() ? "" : " ") + std::to_string(from);
    }
    return result;
  }
  static RotorNetwork from_description(const Description& description) {
    RotorNetwork network(detail::option<Index>(description, "in"), detail::option<Index>(description, "out"),
                         options_of(description));
    for (std::size_t i = 0; i < network.permutations_.size(); ++i) {
      const auto number = static_cast<Index>(i);
      network.set_permutation(number, permutation_of(text_of(description, permutation_key(number))));
    }
    return network;
  }
  /// Number of parameters of that network, without making it. Each permutation must be there in its length.
  static Index count_parameters(const Description& description) {
    const auto in = detail::option<Index>(description, "in"), out = detail::option<Index>(description, "out");
    const Options options = complete(in, out, options_of(description));
    const Index count = count_weights(in, out, options);
    for (Index i = 0; options.use_permutations && i <= options.depth * options.width; ++i) {
      const std::string& text = text_of(description, permutation_key(i));
      const auto entries = std::count(text.begin(), text.end(), ' ') + 1;
      if (entries != options.hidden) {
        detail::throw_invalid("RotorNetwork: permutation ", i, " has ", entries, " entries, expected ",
                              options.hidden, ", the hidden features");
      }
    }
    return count;
  }

 private:
  static Options options_of(const Description& description) {
    Options options;
    options.hidden = detail::option<Index>(description, "hidden");
    options.depth = detail::option<Index>(description, "depth");
    options.width = detail::option<Index>(description, "width");
    options.single_rotor = detail::option<bool>(description, "single_rotor");
    options.use_permutations = detail::option<bool>(description, "use_permutations");
    options.normalize = detail::option<bool>(description, "normalize");
    options.epsilon = real_of(text_of(description, "epsilon"));
    options.activation = activation_from_string(text_of(description, "activation"));
    options.residual = detail::option<bool>(description, "residual");
    options.parallel_output = detail::option<bool>(description, "parallel_output");
    return options;
  }
  static std::string permutation_key(Index i) { return "permutation." + std::to_string(i); }

  struct Completed {};

  /// The rotor layers, with the parameters that were in force at the last call. Copies make their own.
  struct State {
    State() = default;
    State(const State& other) : rotors(other.locked_rotors()) {}
    State& operator=(const State& other) {
      ready = false;
      rotors = other.locked_rotors();
      return *this;
    }
    /// The other thread may be in its first `forward`, which changes them.
    std::vector<RotorLinear<S>> locked_rotors() const {
      const std::lock_guard lock(mutex);
      return rotors;
    }
    mutable std::mutex mutex;
    bool ready = false;
    VectorX<S> parameters;
    std::vector<RotorLinear<S>> rotors;
  };

  /// Hands out parts of a workspace, each on a boundary of 64 bytes.
  class Arena {
   public:
    explicit Arena(S* memory) : next_(memory) {}
    S* take(Index count) { return std::exchange(next_, next_ + rounded(count)); }
    static Index rounded(Index count) { return (count + 15) / 16 * 16; }

   private:
    S* next_;
  };

  /// The statistics of a tile: of every lane, or of the one sample in all lanes.
  struct Norm {
    LanePack mean = {};
    LanePack scale = LanePack{} + S(1);
  };

  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  // ---- construction

  static Options complete(Index in, Index out, Options options) {
    if (in < 2 || out < 2)
      detail::throw_invalid("RotorNetwork: in = ", in, ", out = ", out, "; both must be at least 2");
    constexpr Index largest = Index{1} << max_dimension;
    if (options.hidden == 0)
      options.hidden = static_cast<Index>(std::bit_floor(static_cast<std::size_t>(std::min(in, largest))));
    constexpr Index most_features = Index{1} << 20;
    constexpr Index most_branches = Index{1} << 16;
    if (options.hidden < 2 || options.hidden > most_features || options.depth < 0 || options.width < 1 ||
        options.width > most_branches || options.depth > most_branches / options.width) {
      detail::throw_invalid("RotorNetwork: hidden = ", options.hidden, ", depth = ", options.depth,
                            ", width = ", options.width, "; expected hidden from 2 to ", most_features,
                            ", depth >= 0, width >= 1, and at most ", most_branches, " branches");
    }
    if (!is_activation(options.activation)) {
      detail::throw_invalid("RotorNetwork: activation = ", static_cast<int>(options.activation),
                            "; expected one of the enumeration Activation");
    }
    if (!(options.epsilon > 0 && detail::is_finite(options.epsilon)))
      detail::throw_invalid("RotorNetwork: epsilon = ", options.epsilon, "; expected a number > 0");
    return options;
  }

  static RotorLinear<S> make_rotor(Index in, Index out, const Options& options) {
    RotorLinearOptions rotor;
    rotor.single_rotor = options.single_rotor;
    rotor.bias = false;
    rotor.kernel = options.kernel;
    return RotorLinear<S>(in, out, rotor);
  }

  static Index num_branch_weights(const Options& options) {
    return (options.depth + (options.parallel_output ? 1 : 0)) * options.width;
  }
  static Index num_output_rotors(const Options& options) {
    return options.parallel_output ? options.width : 1;
  }

  static Index count_weights(Index in, Index out, const Options& options) {
    const Index hidden = options.hidden;
    const auto size = [&](Index from, Index to, Index count) {
      const Index rotor = RotorLinear<S>::count_parameters(
          {{"in", detail::option_text(from)},
           {"out", detail::option_text(to)},
           {"chunk", "0"},
           {"in_chunks", "0"},
           {"out_chunks", "0"},
           {"width", "1"},
           {"single_rotor", detail::option_text(options.single_rotor)},
           {"bias", "false"},
           {"bias_inside_alpha", "false"}});
      return detail::checked_product(count, rotor);
    };
    Index sum = size(in, hidden, 1);
    sum = detail::checked_sum(sum, size(hidden, hidden, options.depth * options.width));
    sum = detail::checked_sum(sum, size(hidden, out, num_output_rotors(options)));
    return detail::checked_sum(
        sum, num_branch_weights(options) + (options.activation == Activation::prelu ? 1 : 0));
  }

  RotorNetwork(Index in, Index out, const Options& options, Completed)
      : Base(in, out, count_weights(in, out, options), false), options_(options) {
    const Index branches = options.depth * options.width;
    state_.rotors.push_back(make_rotor(in, options.hidden, options));
    if (branches > 0) {
      const RotorLinear<S> rotor = make_rotor(options.hidden, options.hidden, options);
      state_.rotors.insert(state_.rotors.end(), at(branches), rotor);
    }
    const RotorLinear<S> last = make_rotor(options.hidden, out, options);
    state_.rotors.insert(state_.rotors.end(), at(num_output_rotors(options)), last);
    offsets_.push_back(0);
    for (const RotorLinear<S>& rotor : state_.rotors)
      offsets_.push_back(offsets_.back() + rotor.num_parameters());
    if (options.use_permutations) {
      permutations_.assign(at(1 + branches), Permutation(at(options.hidden)));
      for (Permutation& permutation : permutations_) std::iota(permutation.begin(), permutation.end(), 0);
    }
  }

  // ---- checks and texts

  static void check_rotor(const char* function, Index i, Index count) {
    if (i < 0 || i >= count)
      detail::throw_invalid("RotorNetwork::", function, ": number ", i, ", expected 0 to ", count - 1);
  }

  void check_prelu() const {
    if (options_.activation != Activation::prelu) {
      detail::throw_invalid("RotorNetwork::prelu_weight: the activation is ", to_string(options_.activation),
                            ", which has no weight");
    }
  }

  void check_permutation(const Permutation& permutation, Index number) const {
    if (static_cast<Index>(permutation.size()) != options_.hidden) {
      detail::throw_invalid("RotorNetwork: permutation ", number, " has ", permutation.size(),
                            " entries, expected ", options_.hidden, ", the hidden features");
    }
    std::vector<bool> seen(permutation.size());
    for (const std::int32_t from : permutation) {
      if (from < 0 || from >= options_.hidden || seen[at(from)]) {
        detail::throw_invalid("RotorNetwork: permutation ", number, " has the entry ", from,
                              from < 0 || from >= options_.hidden ? "" : " twice", "; expected 0 to ",
                              options_.hidden - 1, ", each once");
      }
      seen[at(from)] = true;
    }
  }

  static const std::string& text_of(const Description& description, const std::string& key) {
    const auto found = description.find(key);
    if (found == description.end()) detail::throw_invalid("layer description: option '", key, "' is missing");
    return found->second;
  }

  static double real_of(const std::string& text) {
    const std::optional<double> value = detail::parse_real(text);
    if (!value)
      detail::throw_invalid("layer description: option 'epsilon' is '", text, "', expected a number");
    return *value;
  }
  static Permutation permutation_of(const std::string& text) {
    Permutation permutation;
    const char* next = text.data();
    const char* end = next + text.size();
    while (next != end) {
      if (!permutation.empty() && *next++ != ' ') break;
      std::int32_t from = 0;
      const auto [rest, error] = std::from_chars(next, end, from);
      if (error != std::errc()) break;
      permutation.push_back(from);
      next = rest;
    }
    if (next != end) detail::throw_invalid("layer description: a permutation is not a list of integers");
    return permutation;
  }

  // ---- parameters in force

  /// Hands the present parameters to the rotor layers, where they have changed, and has these prepared.
  void synchronize(bool adjoint, const char* function) const {
    State& state = state_;
    const std::lock_guard lock(state.mutex);
    const auto values = this->parameters();
    const auto bytes = static_cast<std::size_t>(values.size()) * sizeof(S);
    if (!state.ready || std::memcmp(values.data(), state.parameters.data(), bytes) != 0) {
      detail::check_parameters(*this, function);
      state.ready = false;
      for (Index i = 0; i < num_rotors(); ++i) state.rotors[at(i)].parameters() = rotor_parameters(i);
      state.parameters = values;
      state.ready = true;
    }
    for (const RotorLinear<S>& rotor : state.rotors) Tiles::prepare(rotor, adjoint);
  }

  Tiles tiles_of(Index rotor) const { return Tiles(state_.rotors[at(rotor)]); }
  const std::int32_t* order_of(Index rotor) const {
    return permutations_.empty() ? nullptr : permutations_[at(rotor)].data();
  }
  S branch_weight(Index number) const { return branch_weights()[number]; }
  S activation_weight() const {
    return options_.activation == Activation::prelu ? this->parameters()[this->num_parameters() - 1] : S(0);
  }
  bool residual_input() const { return options_.residual && this->in_features() == options_.hidden; }
  bool residual_output() const {
    return options_.residual && !options_.parallel_output && this->out_features() == options_.hidden;
  }

  int thread_count(Workspace& workspace, Index parts) const {
    const int threads = static_cast<int>(std::min<Index>(parts, num_threads()));
    const auto needed = static_cast<std::size_t>(threads);
    if (workspace.tiles_.size() < needed) {
      workspace.tiles_.resize(needed);
      workspace.small_.resize(needed);
      workspace.wide_.resize(needed);
    }
    return threads;
  }

  // ---- what happens between rotors, on tiles of W = lanes samples or W = 1. Either way it is done in packs
  // of `lanes` scalars, which for one sample hold several features.

  template <int W>
  static auto lanes_of(const LanePack& pack) {
    if constexpr (W == lanes) {
      return pack;
    } else {
      return pack[0];
    }
  }

  /// body(integral_constant<int, L>, k) for packs of L scalars from position k of a tile.
  template <int W, class F>
  static void for_each_pack(Index features, F&& body) {
    const Index size = features * W;
    Index k = 0;
    for (; k + lanes <= size; k += lanes) body(std::integral_constant<int, lanes>{}, k);
    if constexpr (W < lanes) {
      for (; k < size; ++k) body(std::integral_constant<int, 1>{}, k);
    }
  }

  /// The sum over features of term(L, k), in every lane.
  template <int W, class F>
  static LanePack sum_over(Index features, F&& term) {
    LanePack sums[4] = {};
    S rest(0);
    Index turn = 0;
    for_each_pack<W>(features, [&](auto width, Index k) {
      if constexpr (decltype(width)::value == lanes) {
        sums[turn++ & 3] += term(width, k);
      } else {
        rest += term(width, k);
      }
    });
    const LanePack sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    if constexpr (W < lanes) {
      return LanePack{} + (detail::sum_lanes<S, lanes>(sum) + rest);
    } else {
      return sum;
    }
  }

  template <int L>
  static detail::Pack<S, L> load(const S* tile, Index k) {
    return detail::load<S, L>(tile + k);
  }

  /// Mean and 1 / sqrt(variance + epsilon) of a tile, in two passes.
  template <int W>
  Norm norm_of(const S* y) const {
    Norm norm;
    if (!options_.normalize) return norm;
    const Index hidden = options_.hidden;
    const S share = S(1) / static_cast<S>(hidden);
    norm.mean = sum_over<W>(hidden, [&](auto width, Index k) { return load<width>(y, k); }) * share;
    const LanePack variance = share * sum_over<W>(hidden, [&](auto width, Index k) {
                                const auto d = load<width>(y, k) - lanes_of<width>(norm.mean);
                                return d * d;
                              });
    const auto epsilon = static_cast<S>(options_.epsilon);
    norm.scale = detail::map_lanes<S, lanes>(
        variance, [&](const auto& v) { return (S(1) / (v + epsilon).sqrt()).eval(); });
    return norm;
  }

  /// The pack at position k of a permuted tile.
  template <int W, int L>
  static detail::Pack<S, L> load_permuted(const S* tile, const std::int32_t* order, Index k) {
    if (order == nullptr) return load<L>(tile, k);
    if constexpr (W == L) {
      return load<L>(tile, Index{order[k / W]} * W);
    } else {
      S values[L];
      for (int l = 0; l < L; ++l) values[l] = tile[order[k + l]];
      return detail::load<S, L>(values);
    }
  }

  /// h (+)= weight a(norm(y[order])).
  template <int W, bool Add, class F>
  void activate(const F& function, const S* y, const Norm& norm, const std::int32_t* order, S weight,
                S* h) const {
    for_each_pack<W>(options_.hidden, [&](auto width, Index k) {
      constexpr int L = decltype(width)::value;
      const detail::Pack<S, L> z =
          (load_permuted<W, L>(y, order, k) - lanes_of<L>(norm.mean)) * lanes_of<L>(norm.scale);
      detail::Pack<S, L> value = function.template value<L>(z) * weight;
      if constexpr (Add) value += load<L>(h, k);
      detail::store<S, L>(h + k, value);
    });
  }

  template <int W>
  Norm activate_rotor(Index rotor, const S* y, S weight, bool add, S* h) const {
    const Norm norm = norm_of<W>(y);
    detail::with_activation<S>(options_.activation, activation_weight(), [&](const auto& function) {
      if (add) {
        activate<W, true>(function, y, norm, order_of(rotor), weight, h);
      } else {
        activate<W, false>(function, y, norm, order_of(rotor), weight, h);
      }
    });
    return norm;
  }

  /// y (+)= weight x.
  template <int W>
  static void add(Index features, const S* x, S weight, bool add, S* y) {
    for_each_pack<W>(features, [&](auto width, Index k) {
      constexpr int L = decltype(width)::value;
      detail::Pack<S, L> value = load<L>(x, k) * weight;
      if (add) value += load<L>(y, k);
      detail::store<S, L>(y + k, value);
    });
  }

  Index scratch_memory() const {
    Index size = 0;
    for (const Index i : {Index{0}, Index{1}, output_rotor()}) {
      if (i < num_rotors()) size = std::max(size, tiles_of(i).memory());
    }
    return Arena::rounded(size);
  }
  Index domain_memory() const {
    Index size = 0;
    for (const Index i : {Index{0}, Index{1}, output_rotor()}) {
      if (i < num_rotors()) size = std::max(size, tiles_of(i).domain_size());
    }
    return Arena::rounded(size);
  }

  Index forward_memory() const {
    const Index hidden = Arena::rounded(options_.hidden * lanes);
    const Index out = Arena::rounded(this->out_features() * lanes);
    return std::max(hidden, out) + 2 * hidden + domain_memory() + scratch_memory();
  }

  template <int W>
  void forward_tile(const S* x, S* y, Arena arena) const {
    const Index hidden = options_.hidden;
    const Index out = this->out_features();
    S* z = arena.take(std::max(hidden, out) * W);
    S* h = arena.take(hidden * W);
    S* next = arena.take(hidden * W);
    S* domain = arena.take(domain_memory());
    S* scratch = arena.take(scratch_memory());
    tiles_of(0).template forward<W>(x, nullptr, z, scratch);
    activate_rotor<W>(0, z, S(1), false, h);
    if (residual_input()) add<W>(hidden, x, S(1), true, h);
    for (Index block = 0; block < options_.depth; ++block) {
      const S* entered = tiles_of(branch(block, 0)).template enter<W>(h, domain, scratch);
      // once h is in the domain, its memory is free for the sum over branches
      S* sum = entered != nullptr ? h : next;
      for (Index b = 0; b < options_.width; ++b) {
        const Index rotor = branch(block, b);
        tiles_of(rotor).template forward<W>(h, entered, z, scratch);
        activate_rotor<W>(rotor, z, branch_weight(block * options_.width + b), b > 0, sum);
      }
      if (sum == next) std::swap(h, next);
    }
    if (options_.parallel_output) {
      const S* entered = tiles_of(output_rotor()).template enter<W>(h, domain, scratch);
      for (Index b = 0; b < options_.width; ++b) {
        tiles_of(output_rotor() + b).template forward<W>(h, entered, z, scratch);
        add<W>(out, z, branch_weight(options_.depth * options_.width + b), b > 0, y);
      }
      return;
    }
    tiles_of(output_rotor()).template forward<W>(h, nullptr, y, scratch);
    if (residual_output()) add<W>(out, h, S(1), true, y);
  }

  // ---- backward. Partial sums of one group: what RotorTiles::finish makes of every rotor layer, then the
  // branch weights, then the weight of the activation.

  Index partial_size() const {
    Index size = num_branch_weights(options_) + 1;
    for (Index i = 0; i < num_rotors(); ++i) size += tiles_of(i).partial_size();
    return size;
  }

  /// From dL/dh to dL/dy for h += weight a(norm(y[order])); adds dL/dweight and the gradient of the
  /// activation's weight.
  template <class F>
  void backward_activation(const F& function, const S* y, const Norm& norm, const std::int32_t* order,
                           S weight, const S* grad_h, S* grad_y, Wide& weight_sum, Wide& slope_sum) const {
    constexpr int W = lanes;
    const Index hidden = options_.hidden;
    LanePack by_weight{}, by_slope{}, sum{}, dot{};
    for (Index j = 0; j < hidden; ++j) {
      const Index from = (order == nullptr ? j : Index{order[j]}) * W;
      const LanePack z = (load<W>(y, from) - norm.mean) * norm.scale;
      const LanePack g = load<W>(grad_h, j * W);
      const LanePack scaled = g * weight;
      const LanePack grad_z = scaled * function.template derivative<W>(z);
      by_weight += g * function.template value<W>(z);
      by_slope += scaled * (z > S(0) ? LanePack{} : z);
      sum += grad_z;
      dot += grad_z * z;
      detail::store<S, W>(grad_y + from, grad_z);
    }
    weight_sum += static_cast<Wide>(detail::sum_lanes<S, W>(by_weight));
    slope_sum += static_cast<Wide>(detail::sum_lanes<S, W>(by_slope));
    if (!options_.normalize) return;
    sum /= LanePack{} + static_cast<S>(hidden);
    dot /= LanePack{} + static_cast<S>(hidden);
    for (Index k = 0; k < hidden * W; k += W) {
      const LanePack z = (load<W>(y, k) - norm.mean) * norm.scale;
      detail::store<S, W>(grad_y + k, norm.scale * (load<W>(grad_y, k) - sum - z * dot));
    }
  }

  template <class X, class GradY, class GradX>
  void backward_group(const X& x, const GradY& grad_y, GradX&& grad_x, Workspace& workspace,
                      std::size_t thread, Wide* partial) const {
    constexpr int W = lanes;
    const Index in = this->in_features();
    const Index out = this->out_features();
    const Index hidden = options_.hidden;
    const Index depth = options_.depth;
    const Index width = options_.width;
    const Index inner = output_rotor();  // rotor layers before the output
    const auto take_sizes = [&](auto&& take) {
      take(in * W);
      take(out * W);
      take(in * W);
      take((depth + 1) * hidden * W);
      take(inner * hidden * W);
      take(inner * 2 * W);
      take(hidden * W);
      take(hidden * W);
      take(domain_memory());
      take(domain_memory());
      take(scratch_memory());
      for (Index i = 0; i < num_rotors(); ++i) take(tiles_of(i).sums_size());
    };
    Index memory = 0;
    take_sizes([&](Index count) { memory += Arena::rounded(count); });
    Arena arena(workspace.tiles_[thread].reserve(memory));
    S* x_tile = arena.take(in * W);
    S* grad_y_tile = arena.take(out * W);
    S* grad_x_tile = arena.take(in * W);
    S* h = arena.take((depth + 1) * hidden * W);
    S* z = arena.take(inner * hidden * W);  // what the rotors make of h
    S* norms = arena.take(inner * 2 * W);
    S* grad_h = arena.take(hidden * W);
    S* grad_z = arena.take(hidden * W);
    S* domain = arena.take(domain_memory());
    S* grad_domain = arena.take(domain_memory());
    S* scratch = arena.take(scratch_memory());
    S* sums = arena.take(0);
    Index sums_size = 0;
    for (Index i = 0; i < num_rotors(); ++i) sums_size += Arena::rounded(tiles_of(i).sums_size());
    std::fill(sums, sums + sums_size, S(0));
    const auto sums_of = [&](Index rotor) {
      S* own = sums;
      for (Index i = 0; i < rotor; ++i) own += Arena::rounded(tiles_of(i).sums_size());
      return own;
    };

    Wide* weight_sums = partial + partial_size() - 1 - num_branch_weights(options_);
    Wide& slope_sum = partial[partial_size() - 1];
    Wide unused(0);
    const auto clear_domain = [&] { std::fill(grad_domain, grad_domain + domain_memory(), S(0)); };
    const auto forward_branch = [&](Index rotor, const S* from, const S* entered, S weight, bool add, S* to) {
      S* own = z + rotor * hidden * W;
      tiles_of(rotor).template forward<W>(from, entered, own, scratch);
      const Norm norm = activate_rotor<W>(rotor, own, weight, add, to);
      detail::store<S, W>(norms + rotor * 2 * W, norm.mean);
      detail::store<S, W>(norms + rotor * 2 * W + W, norm.scale);
    };
    const auto backward_branch = [&](Index rotor, const S* from, const S* entered, S weight,
                                     Wide& weight_sum) {
      const S* own = norms + rotor * 2 * W;
      const Norm norm{load<W>(own, 0), load<W>(own, W)};
      detail::with_activation<S>(options_.activation, activation_weight(), [&](const auto& function) {
        backward_activation(function, z + rotor * hidden * W, norm, order_of(rotor), weight, grad_h, grad_z,
                            weight_sum, slope_sum);
      });
      tiles_of(rotor).backward(from, entered, grad_z, S(1), grad_domain, sums_of(rotor), scratch);
    };

    for (Index sample = 0; sample < x.cols(); sample += W) {
      const Index count = std::min<Index>(W, x.cols() - sample);
      detail::load_tile<S, W>(x.col(sample).data(), x.outerStride(), in, count, x_tile);
      detail::load_tile<S, W>(grad_y.col(sample).data(), grad_y.outerStride(), out, count, grad_y_tile);
      forward_branch(0, x_tile, nullptr, S(1), false, h);
      if (residual_input()) add<W>(hidden, x_tile, S(1), true, h);
      for (Index block = 0; block < depth; ++block) {
        const S* from = h + block * hidden * W;
        const S* entered = tiles_of(branch(block, 0)).template enter<W>(from, domain, scratch);
        for (Index b = 0; b < width; ++b) {
          forward_branch(branch(block, b), from, entered, branch_weight(block * width + b), b > 0,
                         h + (block + 1) * hidden * W);
        }
      }

      const S* last = h + depth * hidden * W;
      const S* last_entered =
          options_.parallel_output ? tiles_of(inner).template enter<W>(last, domain, scratch) : nullptr;
      clear_domain();
      for (Index b = 0; b < num_output_rotors(options_); ++b) {
        const S weight = options_.parallel_output ? branch_weight(depth * width + b) : S(1);
        tiles_of(inner + b).backward(last, last_entered, grad_y_tile, weight, grad_domain, sums_of(inner + b),
                                     scratch);
      }
      tiles_of(inner).leave_gradient(grad_domain, grad_h, scratch);
      if (residual_output()) add<W>(hidden, grad_y_tile, S(1), true, grad_h);

      for (Index block = depth - 1; block >= 0; --block) {
        const S* from = h + block * hidden * W;
        const S* entered = tiles_of(branch(block, 0)).template enter<W>(from, domain, scratch);
        clear_domain();
        for (Index b = 0; b < width; ++b) {
          backward_branch(branch(block, b), from, entered, branch_weight(block * width + b),
                          weight_sums[block * width + b]);
        }
        tiles_of(branch(block, 0)).leave_gradient(grad_domain, grad_h, scratch);
      }
      clear_domain();
      backward_branch(0, x_tile, nullptr, S(1), unused);
      tiles_of(0).leave_gradient(grad_domain, grad_x_tile, scratch);
      if (residual_input()) add<W>(hidden, grad_h, S(1), true, grad_x_tile);
      detail::store_tile<S, W>(grad_x_tile, in, grad_x.col(sample).data(), grad_x.outerStride(), count);
    }

    for (Index i = 0; i < num_rotors(); ++i) {
      const Tiles rotor = tiles_of(i);
      rotor.finish(sums_of(i), partial, workspace.small_[thread], workspace.wide_[thread]);
      if (i >= inner && options_.parallel_output) {  // so far the gradients are those without its weight
        const Index number = depth * width + (i - inner);
        weight_sums[number] += rotor.output_dot(partial);
        for (Index k = 0; k < rotor.partial_size(); ++k)
          partial[k] *= static_cast<Wide>(branch_weight(number));
      }
      partial += rotor.partial_size();
    }
  }

  void add_gradients(const Wide* partial) {
    auto gradients = this->gradients();
    for (Index i = 0; i < num_rotors(); ++i) {
      RotorLinear<S>& rotor = state_.rotors[at(i)];
      rotor.zero_gradients();
      Tiles::add_gradients(rotor, partial);
      gradients.segment(offsets_[at(i)], rotor.num_parameters()) += rotor.gradients();
      partial += tiles_of(i).partial_size();
    }
    const Index rest = gradients.size() - offsets_.back();
    for (Index i = 0; i < rest; ++i) gradients[offsets_.back() + i] += static_cast<S>(partial[i]);
  }

  Options options_;
  std::vector<Index> offsets_;  // of the rotor layers in parameters(); the last one is their end
  std::vector<Permutation> permutations_;
  mutable State state_;
};

static_assert(Layer<RotorNetwork<float>> && DescribedLayer<RotorNetwork<double>>);

}  // namespace rotorlin
