// SPDX-License-Identifier: MIT
/// \file
/// Which of two maps a checkpoint of the paper's authors means by its bivectors: named, or found by a sample.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/files/state_dict.hpp"

namespace rotorlin {

/// Which map a checkpoint means by its bivectors: r x s~ or its transpose r~ x s, which is the sandwich with
/// both bivectors negated. With M the matrix that it has made of a pair of rotors, the authors' code computes
///
///     F.linear(x, M)      M x      layers of one input and one output chunk
///     matmul(x, M)        M^T x    all other layers
///
/// so that one of the two is r~ x s; which one depends on whether the build of torch_ga that trained the
/// network lays M out as out x in or as in x out. Nothing in a checkpoint says so, and the wrong choice is
/// wrong by about 1. Hence there is no default: name the convention, or give a sample of the original
/// network's output (CheckpointSample), by which it is found. (torch_ga's tables of products are in x out,
/// which speaks for reversed_single_chunk; its fork that the authors trained with has not been seen.)
enum class CheckpointConvention {
  sandwich,               ///< r x s~ everywhere: what to_state_dict wrote so, and the reference vectors
  reversed_single_chunk,  ///< the authors' code, M in x out: r~ x s where there is one chunk each way
  reversed_multi_chunk,   ///< the authors' code, M out x in: r~ x s everywhere else
  reversed,               ///< r~ x s everywhere
};

/// The enumerator's name. \throws std::invalid_argument for a value that is none.
inline const char* to_string(CheckpointConvention convention) {
  switch (convention) {
    case CheckpointConvention::sandwich:
      return "sandwich";
    case CheckpointConvention::reversed_single_chunk:
      return "reversed_single_chunk";
    case CheckpointConvention::reversed_multi_chunk:
      return "reversed_multi_chunk";
    case CheckpointConvention::reversed:
      return "reversed";
  }
  detail::throw_invalid("CheckpointConvention: ", static_cast<int>(convention), " is none of its values");
}

using Orientation [[deprecated("CheckpointConvention")]] = CheckpointConvention;

/// What the original network makes of an input, by which an importer finds the convention or holds the named
/// one against it. A few random columns do; zeros tell nothing. A checkpoint may hold one of its own: tensors
/// `sample_input` (batch x in) and `sample_output` (batch x out), as tools/pth_to_safetensors.py records
/// them.
struct CheckpointSample {
  Matrix<double> x;         ///< in x batch, one sample a column
  Matrix<double> y;         ///< out x batch: the original network's output for x
  double tolerance = 0.05;  ///< |y - ours| / |y| that passes. The authors' power iteration alone is off by up
                            ///< to 1.4e-2 a rotor; a wrong convention by about 1.
};

/// Where an importer takes the convention from: named by the caller, found by a sample that the caller gives,
/// or, by default, found by the sample that the checkpoint itself holds. A sample that is there is reproduced
/// in every case, or the import throws.
class ConventionSource {
 public:
  ConventionSource() = default;
  ConventionSource(CheckpointConvention convention) : convention_(convention) {}  // NOLINT: by intention
  ConventionSource(CheckpointSample sample) : sample_(std::move(sample)) {}       // NOLINT: by intention
  ConventionSource(CheckpointConvention convention, CheckpointSample sample)
      : convention_(convention), sample_(std::move(sample)) {}

  /// What was given: one of the two, the other empty.
  const std::optional<CheckpointConvention>& convention() const { return convention_; }
  const std::optional<CheckpointSample>& sample() const { return sample_; }

 private:
  std::optional<CheckpointConvention> convention_;
  std::optional<CheckpointSample> sample_;
};

namespace detail {

inline constexpr const char* sample_input_name = "sample_input";
inline constexpr const char* sample_output_name = "sample_output";

inline bool is_reversed(CheckpointConvention convention, bool single_chunk) {
  to_string(convention);  // throws for what is no convention
  return convention == CheckpointConvention::reversed ||
         convention == (single_chunk ? CheckpointConvention::reversed_single_chunk
                                     : CheckpointConvention::reversed_multi_chunk);
}

/// The sample that a checkpoint holds.
inline std::optional<CheckpointSample> recorded_sample(const StateDict& state, const char* who) {
  const auto input = state.find(sample_input_name), output = state.find(sample_output_name);
  if (input == state.end() && output == state.end()) return std::nullopt;
  if (input == state.end() || output == state.end()) {
    throw_invalid(who, ": of '", sample_input_name, "' and '", sample_output_name,
                  "' the checkpoint holds one only; a sample is both");
  }
  const auto batch = [&](const std::string& name, const StateTensor& tensor) -> Matrix<double> {
    if (tensor.shape.size() != 2 || tensor.values.size() != tensor.shape[0] * tensor.shape[1])
      throw_invalid(who, ": tensor '", name, "' has shape ", shape(tensor.shape),
                    ", expected batch x features");
    return tensor.values.reshaped(tensor.shape[1], tensor.shape[0]);  // row-major: one sample a column
  };
  CheckpointSample sample;
  sample.x = batch(sample_input_name, input->second);
  sample.y = batch(sample_output_name, output->second);
  return sample;
}

/// |y - layer(x)| / |y|, infinite where the layer's output is NaN or infinite.
template <class L>
double sample_error(const L& layer, const CheckpointSample& sample) {
  using S = typename L::Scalar;
  const Matrix<S> x = sample.x.template cast<S>();
  const Matrix<double> y = layer.forward(x).template cast<double>();
  if (!all_finite(y)) return std::numeric_limits<double>::infinity();
  return (y - sample.y).stableNorm() / sample.y.stableNorm();
}

inline void check_sample(const char* who, const CheckpointSample& sample, Index in, Index out) {
  if (sample.x.rows() != in || sample.y.rows() != out || sample.x.cols() != sample.y.cols() ||
      sample.x.cols() == 0) {
    throw_invalid(who, ": the sample is ", shape(sample.x), " to ", shape(sample.y), ", expected ", in,
                  " x batch to ", out, " x batch, one sample a column");
  }
  if (!all_finite(sample.x) || !all_finite(sample.y))
    throw_domain(who, ": the sample has NaN or infinite entries");
  if (sample.y.isZero(0)) throw_invalid(who, ": the sample's output is zero, which tells nothing");
  if (!(sample.tolerance > 0))
    throw_invalid(who, ": the sample's tolerance is ", sample.tolerance, ", not above 0");
}

/// The layer that `make` builds of a checkpoint by the convention that `source` or the checkpoint tells.
template <class Make>
auto by_convention(const char* who, const StateDict& state, const ConventionSource& source, Index in,
                   Index out, const Make& make) -> decltype(make(CheckpointConvention::sandwich)) {
  using enum CheckpointConvention;
  constexpr CheckpointConvention all[] = {sandwich, reversed_single_chunk, reversed_multi_chunk, reversed};
  const std::optional<CheckpointSample> sample =
      source.sample() ? source.sample() : recorded_sample(state, who);
  if (!sample) {
    if (source.convention()) return make(*source.convention());
    throw_invalid(
        who, ": the convention of the checkpoint is not known: its rotors may mean r x s~ or r~ x s, in",
        " layers of one chunk and in others. Name a CheckpointConvention, or give a CheckpointSample of",
        " the original network's output, by which it is found; the checkpoint holds none ('",
        sample_input_name, "', '", sample_output_name, "')");
  }
  check_sample(who, *sample, in, out);
  std::string errors;
  std::vector<decltype(make(sandwich))> candidates;  // those that differ
  std::vector<double> error;
  for (const CheckpointConvention convention : all) {
    if (source.convention() && convention != *source.convention()) continue;
    auto candidate = make(convention);
    bool known = false;
    for (const auto& other : candidates) known = known || other.parameters() == candidate.parameters();
    if (known) continue;
    error.push_back(sample_error(candidate, *sample));
    candidates.push_back(std::move(candidate));
    errors += concatenate(errors.empty() ? "" : ", ", to_string(convention), " ", error.back());
  }
  if (candidates.empty()) to_string(*source.convention());  // throws: not one of the enumerators
  const auto best = std::min_element(error.begin(), error.end());
  if (!(*best <= sample->tolerance)) {
    throw_invalid(who, ": the sample is not reproduced, relative errors: ", errors, "; expected at most ",
                  sample->tolerance, ". Do the options agree with the original network's?");
  }
  for (auto other = error.begin(); other != error.end(); ++other) {
    if (other != best && *other <= 10 * *best) {
      throw_invalid(who, ": the sample does not tell the conventions apart, relative errors: ", errors,
                    ". Give one with larger inputs or more columns, or name the convention");
    }
  }
  return std::move(candidates[static_cast<std::size_t>(best - error.begin())]);
}

}  // namespace detail

}  // namespace rotorlin
