// SPDX-License-Identifier: MIT
// layer_*: a RotorLinear with its chunks, parameters, forward, loss L = 0.5 |y - target|^2 and all gradients.
// One chunk each way follows the authors' y = alpha (M x + bias).
#pragma once

#include <string>

#include "format_network.hpp"
#include "kernels.hpp"
#include "report.hpp"
#include "rotorlin/layers/rotor_linear.hpp"

namespace golden::layer {

using namespace rotorlin;

inline bool matches(const json& file) {
  return file.is_object() && file.contains("in_dim") && file.contains("out_dim") &&
         file.contains("chunk_size") && file.contains("bivectors_left");
}

template <class S>
void check_kernel(const json& file, Kernel kernel, Report& report) {
  constexpr bool is_float = std::is_same_v<S, float>;
  const double value_tolerance = is_float ? 1e-5 : 1e-10;
  const double gradient_tolerance = is_float ? 5e-5 : 1e-8;
  const auto present = [&](const char* field) { return file.contains(field) && !file[field].is_null(); };
  RotorLinearOptions options;
  options.chunk = file["chunk_size"];
  options.in_chunks = file.value("in_chunks", Index{0});
  options.out_chunks = file.value("out_chunks", Index{0});
  options.single_rotor = file.value("single_rotor", !present("bivectors_right"));
  options.bias = present("bias");
  options.kernel = kernel;
  options.width = 1;
  if (!options.single_rotor && needs_single_rotor(kernel)) return;
  const auto make = [&](bool inside) {
    options.bias_inside_alpha = inside;
    return RotorLinear<S>(file["in_dim"], file["out_dim"], options);
  };
  RotorLinear<S> layer = make(false);
  if (layer.options().in_chunks == 1 && layer.options().out_chunks == 1) layer = make(true);

  const auto set = [&](const char* field, auto parameters) {
    if (!present(field) || parameters.size() == 0) return;
    const Matrix<S> values =
        file[field][0].is_array() ? network::batch<S>(file[field]) : Matrix<S>(numbers<S>(file[field]));
    if (values.rows() != parameters.rows() || values.cols() != parameters.cols()) {
      rotorlin::detail::throw_runtime(field, " is ", rotorlin::detail::shape(values), ", the layer's is ",
                                      rotorlin::detail::shape(parameters));
    }
    parameters = values;
  };
  set("bivectors_left", layer.bivectors_left());
  if (!options.single_rotor) set("bivectors_right", layer.bivectors_right());
  set("alpha", layer.alpha());
  set("bias", layer.bias());

  const std::string through = " through " + std::string(to_string(kernel));
  const auto compare = [&](const std::string& what, const auto& computed, const auto& expected,
                           double tolerance) {
    report.compare(what + through, computed, expected, tolerance);
  };
  if (present("count")) compare("count", layer.divisor(), numbers<double>(file["count"]), value_tolerance);
  const auto starts = [&](const char* field, Index features, Index chunks) {
    if (!present(field)) return;
    for (std::size_t c = 0; c < file[field].size(); ++c) {
      for (std::size_t k = 0; k < file[field][c].size(); ++k) {
        const Index expected = (static_cast<Index>(c) * features / chunks + static_cast<Index>(k)) % features;
        report.expect(file[field][c][k] == expected, std::string(field) + ": chunk " + std::to_string(c));
      }
    }
  };
  starts("in_index", layer.in_features(), layer.options().in_chunks);
  starts("out_index", layer.out_features(), layer.options().out_chunks);
  if (!present("x")) return;
  const Matrix<S> x = network::batch<S>(file["x"]);
  const Matrix<S> y = layer.forward(x);
  if (present("y")) compare("y", y.reshaped(), network::batch<double>(file["y"]).reshaped(), value_tolerance);
  for (Index i = 0; i < x.cols(); ++i) {  // one by one as well
    if (present("y"))
      compare("y alone", layer.forward(x.col(i)).col(0), network::batch<double>(file["y"]).col(i),
              value_tolerance);
  }
  if (!present("target")) return;
  const Matrix<S> g = y - network::batch<S>(file["target"]);
  if (present("loss"))
    report.compare("loss" + through, S(0.5) * g.squaredNorm(), file["loss"].get<double>(), value_tolerance);
  Matrix<S> grad_x(x.rows(), x.cols());
  typename RotorLinear<S>::Workspace workspace;
  layer.backward(x, g, grad_x, workspace);
  if (present("grad_x")) {
    compare("grad_x", grad_x.reshaped(), network::batch<double>(file["grad_x"]).reshaped(),
            gradient_tolerance);
  }
  const auto gradient = [&](const char* field, Index offset) {
    if (!present(field)) return;
    std::vector<double> values;
    network::flatten(file[field], values);
    const Eigen::Map<const VectorX<double>> expected(values.data(), static_cast<Index>(values.size()));
    compare(field, layer.gradients().segment(offset, expected.size()), expected, gradient_tolerance);
  };
  gradient("grad_bivectors_left", 0);
  gradient("grad_bivectors_right", layer.right_offset());
  gradient("grad_alpha", layer.alpha_offset());
  gradient("grad_bias", layer.bias_offset());
}

inline void check(const json& file, Report& report) {
  for (const Kernel kernel : kernels()) {
    check_kernel<double>(file, kernel, report);
    check_kernel<float>(file, kernel, report);
  }
}

}  // namespace golden::layer
