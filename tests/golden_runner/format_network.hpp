// SPDX-License-Identifier: MIT
// network_*: a network of the paper's authors with its parameters under their names, forward, loss and all
// gradients, through the kernels that the command line names.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels.hpp"
#include "report.hpp"
#include "rotorlin/files/import_pytorch.hpp"
#include "rotorlin/layers/rotor_network.hpp"

namespace golden::network {

using namespace rotorlin;

inline bool matches(const json& file) {
  return file.is_object() && file.contains("config") && file["config"].is_object() &&
         file["config"].contains("hidden_breadth") && file.contains("parameters") &&
         file["parameters"].is_object();
}

inline void flatten(const json& value, std::vector<double>& numbers) {
  if (!value.is_array()) return numbers.push_back(value.get<double>());
  for (const json& element : value) flatten(element, numbers);
}

inline StateTensor tensor(const json& value) {
  StateTensor result;
  for (const json* level = &value; level->is_array(); level = &level->front()) {
    result.shape.push_back(static_cast<Index>(level->size()));
    if (level->empty()) break;
  }
  std::vector<double> numbers;
  flatten(value, numbers);
  result.values = Eigen::Map<VectorX<double>>(numbers.data(), static_cast<Index>(numbers.size()));
  return result;
}

/// One sample a row to one sample a column.
template <class S>
Matrix<S> batch(const json& rows) {
  Matrix<S> result;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const VectorX<S> column = numbers<S>(rows[i]);
    if (i == 0) result.resize(column.size(), static_cast<Index>(rows.size()));
    if (column.size() != result.rows())
      rotorlin::detail::throw_runtime("rows of ", result.rows(), " and ", column.size(), " numbers");
    result.col(static_cast<Index>(i)) = column;
  }
  return result;
}

/// A flag, number or text of the configuration, or the default where it is missing or null.
template <class T>
T setting(const json& config, const char* key, T otherwise) {
  return config.contains(key) && !config[key].is_null() ? config[key].get<T>() : otherwise;
}

inline RotorNetworkOptions options_of(const json& config) {
  RotorNetworkOptions options;
  options.hidden = setting<Index>(config, "chunk_size", 0);
  options.depth = setting<Index>(config, "extra_rotor_layers", 0);
  options.width = setting<Index>(config, "hidden_breadth", 1);
  options.parallel_output = setting(config, "proj_parallel", false);
  options.single_rotor = setting(config, "single_rotor", false);
  options.residual = setting(config, "residual", false);
  options.use_permutations = setting(config, "use_perm", false);
  options.normalize = setting(config, "normalize", false);
  options.epsilon = setting(config, "layernorm_eps", 1e-5);
  if (setting(config, "layernorm_affine", false)) rotorlin::detail::throw_runtime("layernorm_affine");
  std::string name = setting<std::string>(config, "nonlinear", "none");
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  if (name == "leakyrelu") name = "leaky_relu";
  options.activation = name == "identity" || name == "linear" || name.empty() ? Activation::none
                                                                              : activation_from_string(name);
  return options;
}

template <class S>
void check_kernel(const json& file, const RotorNetworkOptions& options, Report& report) {
  constexpr bool is_float = std::is_same_v<S, float>;
  const double tolerance = is_float ? 1e-4 : 1e-10, gradient_tolerance = is_float ? 1e-3 : 1e-8;
  StateDict state;
  for (const char* group : {"parameters", "perms"}) {
    if (!file.contains(group)) continue;
    for (const auto& [name, value] : file[group].items()) state[name] = tensor(value);
  }
  const json& config = file["config"];
  const Matrix<S> x = batch<S>(file.at("x")), target = batch<S>(file.at("target"));
  RotorNetwork<S> network = rotor_network_from_state_dict<S>(
      state, setting<Index>(config, "input_dim", x.rows()),
      setting<Index>(config, "output_dim", target.rows()), options, CheckpointConvention::sandwich);
  typename RotorNetwork<S>::Workspace workspace;
  Matrix<S> y(network.out_features(), x.cols()), grad_x(x.rows(), x.cols());
  network.forward(x, y, workspace);
  const Matrix<S> difference = y - target;
  if (file.contains("y")) report.compare("y", y, batch<double>(file["y"]), tolerance);
  const auto loss = [&](const char* field, S value) {
    if (!file.contains(field)) return;
    report.compare(field, value, file[field].get<double>(), tolerance);
  };
  loss("loss_half_sq", difference.squaredNorm() / 2);
  loss("mse", difference.squaredNorm() / static_cast<S>(difference.size()));
  network.backward(x, difference, grad_x, workspace);
  if (file.contains("grad_x"))
    report.compare("grad_x", grad_x, batch<double>(file["grad_x"]), gradient_tolerance);
  if (!file.contains("gradients_of_half_sq")) return;
  std::size_t found = 0;
  for (const auto& entry : rotorlin::detail::state_entries(network, CheckpointConvention::sandwich)) {
    if (!file["gradients_of_half_sq"].contains(entry.name)) continue;
    const VectorX<double> expected = tensor(file["gradients_of_half_sq"][entry.name]).values;
    report.compare("gradient of " + entry.name, network.gradients().segment(entry.offset, expected.size()),
                   expected, gradient_tolerance);
    ++found;
  }
  report.expect(found == file["gradients_of_half_sq"].size(), "every gradient has a parameter");
}

inline void check(const json& file, Report& report) {
  RotorNetworkOptions options = options_of(file["config"]);
  for (const Kernel kernel : kernels()) {
    const bool for_small = kernel == Kernel::parity_blocks || kernel == Kernel::dense;
    if ((!options.single_rotor && needs_single_rotor(kernel)) || (for_small && options.hidden > 128))
      continue;
    options.kernel = kernel;
    report.begin_case("kernel " + std::string(to_string(kernel)));
    check_kernel<double>(file, options, report);
    check_kernel<float>(file, options, report);
  }
}

}  // namespace golden::network
