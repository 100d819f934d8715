// SPDX-License-Identifier: MIT
/// \file
/// Layers in safetensors files, with a proof that they were read as they were meant.
///
/// A layer under a prefix ("" for a file of one layer, "layers.0." in a network) is
///     metadata  <prefix>layer               its type_name, such as "DenseLinear"
///               <prefix>options             its description, a JSON object of strings
///               format                      "rotorlin"
///     tensors   <prefix>parameters          flat, in the order of parameters()
///               <prefix>self_test.input     samples x in   (one sample a row, as PyTorch has it)
///               <prefix>self_test.output    samples x out
/// and reading replays the self-test: a file whose options, parameters or conventions do not belong together
/// does not load. A layer's description carries all that its parameters mean, the order of blades included.
#pragma once

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/json.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "rotorlin/layers/layer.hpp"

namespace rotorlin {

namespace detail {

/// `advice` ends the message of the exception where there is no such key.
inline std::string metadata_at(const SafetensorsFile& file, const std::string& key,
                               const std::string& advice) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) throw_runtime(file.path(), " has no metadata '", key, "'; ", advice);
  return found->second;
}

inline constexpr const char* layer_file_expected = "expected a file that save() or write_layer() made";

/// The prefixes under which a file has layers, for messages: "'layers.0.', 'layers.1.'".
inline std::string layer_prefixes(const SafetensorsFile& file) {
  std::string prefixes;
  const std::string ending = "layer";
  for (const auto& entry : file.metadata()) {
    if (!entry.first.ends_with(ending)) continue;
    const std::string prefix = entry.first.substr(0, entry.first.size() - ending.size());
    if (file.contains(prefix + "parameters")) prefixes += (prefixes.empty() ? "'" : ", '") + prefix + "'";
  }
  return prefixes;
}

/// The resolution of a stored type, for the comparison of outputs.
inline double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f32:
      return std::numeric_limits<float>::epsilon();
    case DType::f16:
      return 0x1p-10;
    default:
      return 0x1p-7;  // BF16
  }
}

}  // namespace detail

/// The `type_name` of the layer under a prefix; std::runtime_error when there is none.
inline std::string layer_type(const SafetensorsFile& file, const std::string& prefix = "") {
  const std::string prefixes = detail::layer_prefixes(file);
  return detail::metadata_at(
      file, prefix + "layer",
      prefixes.empty() ? detail::layer_file_expected : "expected one of the prefixes " + prefixes);
}

/// Adds a layer to a file that is being made. Throws what the layer's `forward` throws: a layer that is not
/// finite is not saved.
template <DescribedLayer L>
void write_layer(SafetensorsWriter& writer, const std::string& prefix, const L& layer) {
  using S = typename L::Scalar;
  constexpr Index samples = 4;
  Matrix<S> input(layer.in_features(), samples);
  Random(0).fill_uniform(input, -1, 1);
  const Matrix<S> output = layer.forward(input);
  if (!detail::all_finite(output))
    detail::throw_domain("write_layer: the output of ", L::type_name, " overflows");

  writer.add(prefix + "parameters", layer.parameters());
  writer.add(prefix + "self_test.input", input.transpose());
  writer.add(prefix + "self_test.output", output.transpose());
  writer.set_metadata("format", "rotorlin");
  writer.set_metadata(prefix + "layer", L::type_name);
  writer.set_metadata(prefix + "options", detail::json_text(layer.describe(), "write_layer"));
}

/// The layer under a prefix. Where the stored scalar is another than L's, parameters are converted, and
/// nothing tells: floats become doubles of no more precision, doubles are rounded to float
/// (`file.info(prefix + "parameters").dtype` is what is stored). std::runtime_error, naming the file, when
/// the layer is of another type, when options, parameters and self-test do not belong together, when a double
/// is beyond the range of float, or when the replayed output differs by more than sqrt(epsilon) of its
/// largest entry, epsilon being the coarser of the stored and L's own.
template <DescribedLayer L>
L read_layer(const SafetensorsFile& file, const std::string& prefix = "") {
  using S = typename L::Scalar;
  const std::string where = detail::concatenate("read_layer: ", file.path(),
                                                prefix.empty() ? "" : ", prefix '" + prefix + "'", ": ");
  const auto fail = [&]<class... Parts>(const Parts&... parts) { detail::throw_runtime(where, parts...); };
  if (const std::string type = layer_type(file, prefix); type != L::type_name)
    fail("holds a ", type, ", expected a ", L::type_name, "; read it as a ", type);

  const TensorInfo& stored = file.info(prefix + "parameters");
  const VectorX<S> parameters = file.vector<S>(stored.name);
  const Matrix<S> input = file.matrix<S>(prefix + "self_test.input").transpose();
  const Matrix<S> expected = file.matrix<S>(prefix + "self_test.output").transpose();
  if (input.cols() == 0 || input.cols() != expected.cols()) {
    fail("self_test.input is ", detail::shape(input.transpose()), ", self_test.output ",
         detail::shape(expected.transpose()), "; expected samples x in and samples x out");
  }

  const auto make = [&] {
    try {
      const Description options = detail::parse_strict_json(
          detail::metadata_at(file, prefix + "options", detail::layer_file_expected));
      const Index in = detail::option<Index>(options, "in"), out = detail::option<Index>(options, "out");
      if (in != input.rows() || out != expected.rows()) {  // before anything of this size is allocated
        detail::throw_invalid("in = ", in, ", out = ", out, " but the self-test has ", input.rows(), " and ",
                              expected.rows());
      }
      if (const Index count = L::count_parameters(options); count != parameters.size()) {
        detail::throw_invalid("they ask for ", count, " parameters, the file holds ", parameters.size(),
                              ", expected as many");
      }
      return L::from_description(options);
    } catch (const std::exception& error) {
      detail::throw_runtime(where, L::type_name, " with impossible options: ", detail::json_message(error));
    }
  };
  L layer = make();
  if (stored.shape.size() != 1 || parameters.size() != layer.num_parameters()) {
    fail("parameters have shape ", detail::shape(stored.shape), ", expected [", layer.num_parameters(), "]");
  }
  if (!detail::all_finite(parameters)) fail("parameters have NaN or infinite entries");
  layer.parameters() = parameters;

  const double epsilon = std::max(detail::epsilon_of(stored.dtype), detail::epsilon_of(dtype_of<S>()));
  const Matrix<S> difference = layer.forward(input) - expected;
  const auto error = static_cast<double>(difference.cwiseAbs().maxCoeff());
  const double tolerance = std::sqrt(epsilon) * static_cast<double>(expected.cwiseAbs().maxCoeff());
  if (!detail::all_finite(difference) || error > tolerance) {
    fail("the self-test fails: its output differs by ", error, ", tolerance ", tolerance);
  }
  return layer;
}

/// One layer, one file.
template <DescribedLayer L>
void save(const L& layer, const std::filesystem::path& path) {
  SafetensorsWriter writer;
  write_layer(writer, "", layer);
  writer.write(path);
}

/// `load<RotorLinear<float>>(path)`. Converts and throws as read_layer: the file may hold the other scalar.
template <DescribedLayer L>
L load(const std::filesystem::path& path) {
  return read_layer<L>(SafetensorsFile(path));
}

}  // namespace rotorlin

#if defined(ROTORLIN_COMPILED)
#include "rotorlin/files/instances.hpp"
#endif
