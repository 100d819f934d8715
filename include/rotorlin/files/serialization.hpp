// SPDX-License-Identifier: MIT
/// \file
/// Layers in safetensors files, with a proof that they were read as they were meant.
///
/// A layer under a prefix ("" for a file of one layer, "layers.0." in a network) is
///
///     metadata  <prefix>layer               its type_name, such as "DenseLinear"
///               <prefix>options             its description, a JSON object of strings
///               format                      "rotorlin"
///     tensors   <prefix>parameters          flat, in the order of parameters()
///               <prefix>self_test.input     samples x in   (one sample a row, as PyTorch has it)
///               <prefix>self_test.output    samples x out
///
/// and reading replays the self-test: a file whose options, parameters or conventions do not belong together
/// does not load. A layer's description carries all that its parameters mean, the order of blades included.
#pragma once

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/detail/json_message.hpp"
#include "rotorlin/io/json_strings.hpp"
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
inline double epsilon_of(const DType& dtype) {
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

namespace detail {

/// The inputs of the self-test that a file keeps.
template <class S>
Matrix<S> self_test_input(Index in) {
  Matrix<S> input(in, 4);
  Random(0).fill_uniform(input, -1, 1);
  return input;
}

/// What write_layer writes, of a layer of any type.
template <class S>
void write_described(SafetensorsWriter& writer, const std::string& prefix, const char* type_name,
                     const Description& description, const ConstVectorRef<S>& parameters,
                     const Matrix<S>& input, const Matrix<S>& output) {
  if (!all_finite(output)) throw_domain("write_layer: the output of ", type_name, " overflows");
  writer.add(prefix + "parameters", parameters);
  writer.add(prefix + "self_test.input", input.transpose());
  writer.add(prefix + "self_test.output", output.transpose());
  writer.set_metadata("format", "rotorlin");
  writer.set_metadata(prefix + "layer", type_name);
  writer.set_metadata(prefix + "options", json_strings_text(description, "write_layer"));
}

/// A layer of any type as a file has it: what read_layer reads before there is one, and checks after.
template <class S>
struct StoredLayer {
  StoredLayer(const SafetensorsFile& file, const std::string& prefix, const char* expected_type)
      : type_name(expected_type),
        where(concatenate("read_layer: ", file.path(), prefix.empty() ? "" : ", prefix '" + prefix + "'",
                          ": ")) {
    if (const std::string type = layer_type(file, prefix); type != type_name)
      throw_runtime(where, "holds a ", type, ", expected a ", type_name, "; read it as a ", type);
    const TensorInfo& stored = file.info(prefix + "parameters");
    parameters = file.vector<S>(stored.name);
    shape_of_parameters = stored.shape;
    epsilon = std::max(epsilon_of(stored.dtype), epsilon_of(dtype_of<S>()));
    input = file.matrix<S>(prefix + "self_test.input").transpose();
    expected = file.matrix<S>(prefix + "self_test.output").transpose();
    if (input.cols() == 0 || input.cols() != expected.cols()) {
      throw_runtime(where, "self_test.input is ", input.cols(), " x ", input.rows(), ", self_test.output ",
                    expected.cols(), " x ", expected.rows(), "; expected samples x in and samples x out");
    }
    try {
      options = parse_json_strings(metadata_at(file, prefix + "options", layer_file_expected));
      const Index in = option<Index>(options, "in"), out = option<Index>(options, "out");
      if (in != input.rows() || out != expected.rows()) {  // before anything of this size is allocated
        throw_invalid("in = ", in, ", out = ", out, " but the self-test has ", input.rows(), " and ",
                      expected.rows());
      }
    } catch (const std::exception& error) {
      refuse_options(error);
    }
  }

  [[noreturn]] void refuse_options(const std::exception& error) const {
    throw_runtime(where, type_name, " with impossible options: ", json_message(error));
  }
  void check_count(Index count) const {
    if (count == parameters.size()) return;
    throw_invalid("they ask for ", count, " parameters, the file holds ", parameters.size(),
                  ", expected as many");
  }
  void check_parameters(Index count) const {
    if (shape_of_parameters.size() != 1 || parameters.size() != count) {
      throw_runtime(where, "parameters have shape ", shape(shape_of_parameters), ", expected [", count, "]");
    }
    if (!all_finite(parameters)) throw_runtime(where, "parameters have NaN or infinite entries");
  }
  void check_output(const Matrix<S>& output) const {
    const Matrix<S> difference = output - expected;
    const auto error = static_cast<double>(difference.cwiseAbs().maxCoeff());
    const double tolerance = std::sqrt(epsilon) * static_cast<double>(expected.cwiseAbs().maxCoeff());
    if (!all_finite(difference) || error > tolerance) {
      throw_runtime(where, "the self-test fails: its output differs by ", error, ", tolerance ", tolerance);
    }
  }

  const char* type_name;
  std::string where;
  VectorX<S> parameters;
  std::vector<Index> shape_of_parameters;
  Matrix<S> input, expected;
  Description options;
  double epsilon;
};

}  // namespace detail

/// Adds a layer to a file that is being made. Throws what the layer's `forward` throws: a layer that is not
/// finite is not saved.
template <DescribedLayer L>
void write_layer(SafetensorsWriter& writer, const std::string& prefix, const L& layer) {
  using S = typename L::Scalar;
  const Matrix<S> input = detail::self_test_input<S>(layer.in_features());
  detail::write_described<S>(writer, prefix, L::type_name, layer.describe(), layer.parameters(), input,
                             layer.forward(input));
}

/// The layer under a prefix. Where the stored scalar is another than L's, parameters are converted, and
/// nothing tells: floats become doubles of no more precision, doubles are rounded to float
/// (`file.info(prefix + "parameters").dtype` is what is stored). std::runtime_error, naming the file, when
/// the layer is of another type, when options, parameters and self-test do not belong together, when a double
/// is beyond the range of float, or when the replayed output differs by more than sqrt(epsilon) of its
/// largest entry, epsilon being the coarser of the stored and L's own.
template <DescribedLayer L>
L read_layer(const SafetensorsFile& file, const std::string& prefix = "") {
  const detail::StoredLayer<typename L::Scalar> stored(file, prefix, L::type_name);
  const auto make = [&] {
    try {
      stored.check_count(L::count_parameters(stored.options));
      return L::from_description(stored.options);
    } catch (const std::exception& error) {
      stored.refuse_options(error);
    }
  };
  L layer = make();
  stored.check_parameters(layer.num_parameters());
  layer.parameters() = stored.parameters;
  stored.check_output(layer.forward(stored.input));
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
