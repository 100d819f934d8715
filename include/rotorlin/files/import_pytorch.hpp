// SPDX-License-Identifier: MIT
/// \file
/// Checkpoints of the paper's authors (Pence, Yamada, Singh 2025, arXiv 2507.11688): the tensors of a PyTorch
/// state_dict, by name, to RotorNetwork and RotorLinear and back. tools/pth_to_safetensors.py makes the file.
///
/// A rotor layer is `bivectors_left`, `bivectors_right` (absent for a single rotor): rotor pairs x n(n-1)/2;
/// `alpha`: rotor pairs; `bias`: out; `count`: what an output feature is divided by, a constant that may be
/// left out. In a network it stands under `layers.0.0` (the first one), `layers.1.branches.2.0` (hidden block
/// 0, branch 2), `layers.3.0` (the last one behind two hidden blocks; with a parallel output
/// `layers.3.branches.0.0`, ...). `layers.0.1.perm` is the permutation behind the first rotor layer,
/// `layers.0.3.weight` the weight of prelu (one module, which PyTorch names once for every place that uses
/// it), `layers.1.alphas` are the branch weights of hidden block 0.
///
/// With one input and one output chunk the authors' layer is y = alpha (M x + bias): see bias_inside_alpha.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/files/checkpoint_convention.hpp"
#include "rotorlin/files/state_dict.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"

namespace rotorlin {

namespace detail {

/// Where a tensor of a state_dict stands among the parameters.
struct StateEntry {
  std::string name;
  std::vector<Index> shape;
  Index offset;
  double sign;
};

inline std::string name_under(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

template <class S>
void add_rotor_entries(const RotorLinear<S>& rotor, const std::string& prefix, Index offset,
                       CheckpointConvention convention, std::vector<StateEntry>& entries) {
  const bool single_chunk = rotor.options().in_chunks == 1 && rotor.options().out_chunks == 1;
  const double sign = is_reversed(convention, single_chunk) ? -1 : 1;
  const Index pairs = rotor.num_pairs(), size = rotor.bivector_size();
  entries.push_back({name_under(prefix, "bivectors_left"), {pairs, size}, offset, sign});
  if (!rotor.options().single_rotor) {
    entries.push_back(
        {name_under(prefix, "bivectors_right"), {pairs, size}, offset + rotor.right_offset(), sign});
  }
  entries.push_back({name_under(prefix, "alpha"), {pairs}, offset + rotor.alpha_offset(), 1});
  if (rotor.has_bias())
    entries.push_back({name_under(prefix, "bias"), {rotor.out_features()}, offset + rotor.bias_offset(), 1});
}

/// The name of the modules that make branch `rotor` of a network: its rotor layer is ".0" behind it.
template <class S>
std::string branch_name(const RotorNetwork<S>& network, Index rotor) {
  const auto& options = network.options();
  const Index inner = network.output_rotor();
  const auto parallel = [&](Index block, Index branch) {
    return "layers." + std::to_string(block + 1) + ".branches." + std::to_string(branch);
  };
  if (rotor == 0) return "layers.0";
  if (rotor < inner) return parallel((rotor - 1) / options.width, (rotor - 1) % options.width);
  if (options.parallel_output) return parallel(options.depth, rotor - inner);
  return "layers." + std::to_string(options.depth + 1);
}

template <class S>
std::string permutation_name(const RotorNetwork<S>& network, Index rotor) {
  return branch_name(network, rotor) + ".1.perm";
}

template <class S>
std::string prelu_name(const RotorNetwork<S>& network, Index rotor) {
  const int modules_before = 1 + network.options().use_permutations + network.options().normalize;
  return branch_name(network, rotor) + "." + std::to_string(modules_before) + ".weight";
}

/// All parameters of a network, each once.
template <class S>
std::vector<StateEntry> state_entries(const RotorNetwork<S>& network, CheckpointConvention convention) {
  std::vector<StateEntry> entries;
  const S* first = network.parameters().data();
  for (Index i = 0; i < network.num_rotors(); ++i) {
    add_rotor_entries(network.rotor(i), branch_name(network, i) + ".0",
                      network.rotor_parameters(i).data() - first, convention, entries);
  }
  const Index width = network.options().width;
  const auto weights = network.branch_weights();
  for (Index block = 0; block * width < weights.size(); ++block) {
    entries.push_back({"layers." + std::to_string(block + 1) + ".alphas",
                       {width},
                       weights.data() - first + block * width,
                       1});
  }
  if (network.options().activation == Activation::prelu)
    entries.push_back({prelu_name(network, 0), {1}, network.num_parameters() - 1, 1});
  return entries;
}

template <class S>
std::vector<StateEntry> state_entries(const RotorLinear<S>& layer, CheckpointConvention convention) {
  std::vector<StateEntry> entries;
  add_rotor_entries(layer, "", 0, convention, entries);
  return entries;
}

/// Takes tensors out of a state_dict one by one, so that what is left over is known.
class StateReader {
 public:
  StateReader(const StateDict& state, const char* who) : state_(state), who_(who) {}

  bool contains(const std::string& name) const { return state_.count(name) != 0; }

  const VectorX<double>& take(const std::string& name, const std::vector<Index>& expected) {
    const auto found = state_.find(name);
    if (found == state_.end()) {
      throw_invalid(who_, ": tensor '", name, "' of shape ", shape(expected), " is missing among the ",
                    state_.size(), " given");
    }
    const StateTensor& tensor = found->second;
    Index size = 1;
    for (const Index d : expected) size *= d;
    if (tensor.shape != expected || tensor.values.size() != size) {
      throw_invalid(who_, ": tensor '", name, "' has shape ", shape(tensor.shape), " and ",
                    tensor.values.size(), " values, expected ", shape(expected));
    }
    if (!all_finite(tensor.values)) throw_domain(who_, ": tensor '", name, "' has NaN or infinite entries");
    taken_[name] = true;
    return tensor.values;
  }

  template <class L>
  void take_parameters(L& layer, const std::vector<StateEntry>& entries) {
    for (const StateEntry& entry : entries) {
      const VectorX<double> values = entry.sign * take(entry.name, entry.shape);
      layer.parameters().segment(entry.offset, values.size()) = values.template cast<typename L::Scalar>();
    }
  }

  /// The constant divisors of a rotor layer, where they are given.
  template <class S>
  void take_count(const std::string& name, const RotorLinear<S>& rotor) {
    if (!contains(name)) return;
    const VectorX<double> expected = rotor.divisor().template cast<double>();
    const VectorX<double>& count = take(name, {rotor.out_features()});
    if (!(count - expected).isZero(1e-3)) {
      throw_invalid(who_, ": tensor '", name, "' does not belong to ", rotor.options().in_chunks, " x ",
                    rotor.options().out_chunks, " chunks of ", rotor.options().chunk);
    }
  }

  void expect_nothing_left() const {
    for (const auto& [name, tensor] : state_) {
      if (name == sample_input_name || name == sample_output_name) continue;
      if (taken_.count(name) == 0) {
        throw_invalid(who_, ": tensor '", name, "' of shape ", shape(tensor.shape),
                      " is unknown to a layer of these options");
      }
    }
  }

 private:
  const StateDict& state_;
  const char* who_;
  std::map<std::string, bool> taken_;
};

template <class L>
StateDict state_of(const L& layer, const std::vector<StateEntry>& entries) {
  StateDict state;
  for (const StateEntry& entry : entries) {
    Index size = 1;
    for (const Index d : entry.shape) size *= d;
    state[entry.name] = {entry.shape,
                         entry.sign * layer.parameters().segment(entry.offset, size).template cast<double>()};
  }
  return state;
}

template <class S>
RotorNetwork<S> network_by(const char* who, const StateDict& state, Index in, Index out,
                           RotorNetworkOptions options, CheckpointConvention convention) {
  StateReader reader(state, who);
  const auto first = state.find("layers.0.1.perm");
  if (options.hidden == 0 && options.use_permutations && first != state.end())
    options.hidden = first->second.values.size();
  RotorNetwork<S> network(in, out, options);
  reader.take_parameters(network, state_entries(network, convention));
  for (Index i = 0; i < network.num_rotors(); ++i) {
    reader.take_count(branch_name(network, i) + ".0.count", network.rotor(i));
    if (i >= network.output_rotor()) continue;
    if (options.use_permutations) {
      const std::string name = permutation_name(network, i);
      const VectorX<double>& values = reader.take(name, {network.hidden_features()});
      typename RotorNetwork<S>::Permutation permutation;
      for (const double value : values) {
        if (value != std::floor(value) || value < 0 || value >= static_cast<double>(values.size())) {
          throw_invalid(who, ": tensor '", name, "' has the entry ", value, ", expected 0 to ",
                        values.size() - 1, ", each once");
        }
        permutation.push_back(static_cast<std::int32_t>(value));
      }
      network.set_permutation(i, std::move(permutation));
    }
    const std::string again = prelu_name(network, i);
    if (options.activation == Activation::prelu && i > 0 && reader.contains(again)) {
      const double value = reader.take(again, {1})[0];
      if (static_cast<S>(value) != network.prelu_weight()) {
        throw_invalid(who, ": tensor '", again, "' is ", value, ", but '", prelu_name(network, 0), "' is ",
                      network.prelu_weight(), "; the weight of prelu is one for the whole network");
      }
    }
  }
  reader.expect_nothing_left();
  return network;
}

template <class S>
RotorLinear<S> linear_by(const char* who, const StateDict& state, Index in, Index out,
                         RotorLinearOptions options, CheckpointConvention convention) {
  {
    RotorLinearOptions shape = options;
    shape.bias = false;
    const RotorLinear<S> complete(in, out, shape);
    options.bias_inside_alpha =
        options.bias && complete.options().in_chunks == 1 && complete.options().out_chunks == 1;
  }
  RotorLinear<S> layer(in, out, options);
  StateReader reader(state, who);
  reader.take_parameters(layer, state_entries(layer, convention));
  reader.take_count("count", layer);
  reader.expect_nothing_left();
  return layer;
}

}  // namespace detail

/// A network with the parameters and permutations of a checkpoint, by the convention that `source` tells
/// (a CheckpointConvention, a CheckpointSample, or nothing where the checkpoint holds a sample).
/// `options.hidden` may be 0 where there are permutations, which tell it; the seed is not used.
/// \throws std::invalid_argument naming the tensor where one is missing, of a wrong shape, not a permutation,
/// or unknown to a network of these options; where the convention is not known, or a sample not reproduced or
/// reproduced by several; std::domain_error where a value is NaN or infinite.
template <class S>
RotorNetwork<S> rotor_network_from_state_dict(const StateDict& state, Index in, Index out,
                                              const RotorNetworkOptions& options,
                                              const ConventionSource& source = {}) {
  constexpr const char* who = "rotor_network_from_state_dict";
  return detail::by_convention(who, state, source, in, out, [&](CheckpointConvention convention) {
    return detail::network_by<S>(who, state, in, out, options, convention);
  });
}

/// A rotor layer with the parameters of a checkpoint, with a bias where `options.bias` says so; for one input
/// and one output chunk that bias is inside alpha, as the authors have it. \throws as
/// rotor_network_from_state_dict.
template <class S>
RotorLinear<S> rotor_linear_from_state_dict(const StateDict& state, Index in, Index out,
                                            const RotorLinearOptions& options,
                                            const ConventionSource& source = {}) {
  constexpr const char* who = "rotor_linear_from_state_dict";
  return detail::by_convention(who, state, source, in, out, [&](CheckpointConvention convention) {
    return detail::linear_by<S>(who, state, in, out, options, convention);
  });
}

/// `import_rotor_network<float>(path, 2048, 512, options, CheckpointConvention::reversed_multi_chunk)`: the
/// same from a safetensors file.
template <class S>
RotorNetwork<S> import_rotor_network(const std::filesystem::path& path, Index in, Index out,
                                     const RotorNetworkOptions& options,
                                     const ConventionSource& source = {}) {
  return rotor_network_from_state_dict<S>(read_state_dict(SafetensorsFile(path)), in, out, options, source);
}
template <class S>
RotorLinear<S> import_rotor_linear(const std::filesystem::path& path, Index in, Index out,
                                   const RotorLinearOptions& options, const ConventionSource& source = {}) {
  return rotor_linear_from_state_dict<S>(read_state_dict(SafetensorsFile(path)), in, out, options, source);
}

/// The way back: what the authors' modules would hold.
template <class S>
StateDict to_state_dict(const RotorNetwork<S>& network, CheckpointConvention convention) {
  StateDict state = detail::state_of(network, detail::state_entries(network, convention));
  for (Index i = 0; network.options().use_permutations && i < network.output_rotor(); ++i) {
    const auto& permutation = network.permutation(i);
    const Eigen::Map<const VectorX<std::int32_t>> values(permutation.data(), network.hidden_features());
    state[detail::permutation_name(network, i)] = {{network.hidden_features()},
                                                   values.template cast<double>()};
  }
  return state;
}
template <class S>
StateDict to_state_dict(const RotorLinear<S>& layer, CheckpointConvention convention) {
  return detail::state_of(layer, detail::state_entries(layer, convention));
}

}  // namespace rotorlin
