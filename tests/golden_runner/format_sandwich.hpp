// SPDX-License-Identifier: MIT
// sandwich_n*, degenerate_n*: exponentials of pairs of bivectors, their sandwich, and the gradients of
// L = 0.5 |y - target|^2. Any field of a case but b_left and b_right may be missing.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "kernels.hpp"
#include "report.hpp"
#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/exponential/derivative.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/layers/rotor_linear.hpp"

namespace golden::sandwich {

using namespace rotorlin;

inline bool matches(const json& file) {
  return file.is_object() && file.contains("cases") && file["cases"].is_array() && !file["cases"].empty() &&
         file["cases"][0].contains("b_left") && file["cases"][0].contains("b_right");
}

/// n with n (n-1)/2 = size.
inline int dimension_of_bivector(std::size_t size) {
  int n = 1;
  while (n * (n - 1) / 2 < static_cast<int>(size)) ++n;
  if (n * (n - 1) / 2 != static_cast<int>(size)) {
    rotorlin::detail::throw_runtime("a bivector of ", size, " coefficients, expected n (n-1)/2");
  }
  return n;
}

inline void check_blade_names(const json& file, int n, Report& report) {
  const BladeTable& table = blade_table(n);
  for (const auto& [field, first] : {std::pair{"blade_order", 0}, {"bivector_order", 1 + n}}) {
    if (n > 9 || !file.contains(field) || !file[field].is_array()) continue;
    for (std::size_t i = 0; i < file[field].size(); ++i) {
      const std::string expected = table.name(static_cast<std::size_t>(first) + i);
      report.expect(file[field][i] == expected,
                    std::string(field) + ": blade " + std::to_string(i) + " is " + expected);
    }
  }
}

template <class Scalar>
class Checker {
  using M = Multivector<Scalar, Dynamic>;
  using B = Bivector<Scalar, Dynamic>;
  using Rotors = Rotor<Scalar, Dynamic>;
  static constexpr bool is_float = std::is_same_v<Scalar, float>;

 public:
  Checker(const json& file, const json& golden_case, Report& report)
      : case_(golden_case), report_(report), n_(dimension_of_bivector(golden_case.at("b_left").size())) {
    if (file.contains("n") && file["n"] != n_) {
      rotorlin::detail::throw_runtime("n = ", file["n"].dump(), ", but b_left belongs to n = ", n_);
    }
    if (file.contains("even_index")) even_index_ = file["even_index"].get<std::vector<Index>>();
  }

  void check() {
    const B left(n_, numbers<Scalar>(case_["b_left"])), right(n_, numbers<Scalar>(case_["b_right"]));
    const double length =
        std::max({1.0, numbers<double>(case_["b_left"]).norm(), numbers<double>(case_["b_right"]).norm()});
    value_tolerance_ = is_float ? 1e-5 * length : std::max(1e-10, 1e-12 * length);
    gradient_tolerance_ = is_float ? 5e-5 * length : std::max(1e-8, 1e-11 * length);
    if (value_tolerance_ > 0.1) return;  // angles beyond this precision
    const Rotors r = exp(left), s = exp(right);
    compare("r_left_even", even(r), value_tolerance_);
    compare("r_right_even", even(s), value_tolerance_);
    check_decomposition(left);
    if (!case_.contains("x")) return;
    const M x(n_, numbers<Scalar>(case_["x"]));
    check_action("double", r, x, s, [&](const M& g) {
      compare("grad_b_left_double", left_gradient(left, g, x, s), gradient_tolerance_);
      compare("grad_b_right_double", right_gradient(right, g, x, r), gradient_tolerance_);
      const M y = rotorlin::sandwich(r, x, s);
      const B h_left = (g * y.reversed()).bivector_part(), h_right = (g.reversed() * y).bivector_part();
      compare("H_left = <g y~>_2", h_left.coeffs(), value_tolerance_);
      compare("H_right = <g~ y>_2", h_right.coeffs(), value_tolerance_);
      // the second form of the same gradients, phi(-ad) of the above
      compare("grad_b_left_double", invariant_decomposition(left).phi(h_left, -1).coeffs(),
              gradient_tolerance_);
      compare("grad_b_right_double", invariant_decomposition(right).phi(h_right, -1).coeffs(),
              gradient_tolerance_);
    });
    check_action("single", r, x, r, [&](const M& g) {
      compare("grad_b_single", (left_gradient(left, g, x, r) + right_gradient(left, g, x, r)).eval(),
              gradient_tolerance_);
    });
    if (n_ < 1) return;
    for (const Kernel kernel : kernels()) {
      check_layer("double", kernel);
      check_layer("single", kernel);
    }
  }

 private:
  void check_decomposition(const B& b) {
    const InvariantDecomposition<Scalar> planes(b);
    const double size = static_cast<double>(b.norm());
    if (case_.contains("sigma_left")) {  // zero angles may be left out
      VectorX<double> expected = numbers<double>(case_["sigma_left"]);
      const Index given = expected.size();
      expected.conservativeResize(planes.num_planes());
      for (Index p = given; p < planes.num_planes(); ++p) expected[p] = 0;
      report_.compare("sigma_left", planes.angles(), expected, is_float ? 1e-5 : 1e-10, size);
    }
    const auto parts = case_.find("simple_components_left");
    if (parts == case_.end()) return;
    // the planes of two angles are known to rounding over their distance
    double gap = 1;
    for (Index p = 0; p + 1 < planes.num_planes(); ++p) {
      gap = std::min(gap, static_cast<double>(planes.angles()[p] - planes.angles()[p + 1]) / size);
    }
    const double tolerance =
        std::max(value_tolerance_, 64 * static_cast<double>(Eigen::NumTraits<Scalar>::epsilon()) / gap);
    if (!(tolerance < 0.1)) return;
    for (std::size_t p = 0; p < parts->size(); ++p) {
      report_.compare("simple_components_left", planes.simple_part(static_cast<Index>(p)).coeffs(),
                      numbers<double>((*parts)[p]), tolerance, size);
    }
  }

  template <class Gradients>
  void check_action(const std::string& which, const Rotors& r, const M& x, const Rotors& s,
                    Gradients gradients) {
    const M y = rotorlin::sandwich(r, x, s);
    compare("y_" + which, y.coeffs(), value_tolerance_);
    if (!case_.contains("target")) return;
    const M g = y - M(n_, numbers<Scalar>(case_["target"]));
    if (case_.contains("loss_" + which)) {
      report_.compare("loss_" + which, Scalar(0.5) * g.coeffs().squaredNorm(), case_["loss_" + which],
                      value_tolerance_);
    }
    compare("grad_x_" + which, rotorlin::sandwich(r.reversed(), g, s.reversed()).coeffs(),
            gradient_tolerance_);
    gradients(g);
  }

  /// The same through RotorLinear: one chunk, three copies of the sample alone and in a batch.
  void check_layer(const std::string& which, Kernel kernel) {
    RotorLinearOptions options;
    options.single_rotor = which == "single";
    options.bias = false;
    options.kernel = kernel;
    if (!options.single_rotor && needs_single_rotor(kernel)) return;
    const VectorX<Scalar> x = numbers<Scalar>(case_["x"]);
    RotorLinear<Scalar> layer(x.size(), x.size(), options);
    layer.bivectors_left().col(0) = numbers<Scalar>(case_["b_left"]);
    if (!options.single_rotor) layer.bivectors_right().col(0) = numbers<Scalar>(case_["b_right"]);
    const std::string through = " through " + std::string(to_string(kernel));
    const auto check = [&](const std::string& field, const auto& computed, double tolerance) {
      if (!case_.contains(field)) return;
      report_.compare(field + through, computed, numbers<double>(case_[field]), tolerance);
    };
    for (const Index batch : {1, 19}) {
      const Matrix<Scalar> input = x.replicate(1, batch);
      const Matrix<Scalar> y = layer.forward(input);
      check("y_" + which, y.col(0), value_tolerance_);
      check("y_" + which, y.col(batch - 1), value_tolerance_);
      if (!case_.contains("target")) continue;
      const Matrix<Scalar> g = y.colwise() - numbers<Scalar>(case_["target"]);
      Matrix<Scalar> grad_x(x.size(), batch);
      typename RotorLinear<Scalar>::Workspace workspace;
      layer.zero_gradients();
      layer.backward(input, g, grad_x, workspace);
      const VectorX<Scalar> gradients = layer.gradients() / static_cast<Scalar>(batch);
      const Index size = layer.bivector_size();
      check("grad_x_" + which, grad_x.col(batch - 1), gradient_tolerance_);
      check(options.single_rotor ? "grad_b_single" : "grad_b_left_double", gradients.head(size),
            gradient_tolerance_);
      if (options.single_rotor) continue;
      check("grad_b_right_double", gradients.segment(layer.right_offset(), size), gradient_tolerance_);
    }
  }

  /// L depends on r through y = r x s~, so that dL/dr = <g s x~> on the even blades; and on s by dL/ds = <g~
  /// r x>.
  VectorX<Scalar> left_gradient(const B& b, const M& g, const M& x, const Rotors& s) const {
    return exp_vjp(b, (g * s * x.reversed()).even_part()).coeffs();
  }
  VectorX<Scalar> right_gradient(const B& b, const M& g, const M& x, const Rotors& r) const {
    return exp_vjp(b, (g.reversed() * r * x).even_part()).coeffs();
  }

  template <class Computed>
  void compare(const std::string& field, const Computed& computed, double tolerance) {
    if (case_.contains(field)) report_.compare(field, computed, numbers<double>(case_[field]), tolerance);
  }

  /// The even coefficients at the positions that the file gives.
  VectorX<Scalar> even(const Rotors& r) const {
    if (even_index_.empty()) return r.coeffs();
    const M all = r;
    VectorX<Scalar> picked(static_cast<Index>(even_index_.size()));
    for (std::size_t i = 0; i < even_index_.size(); ++i) {
      if (even_index_[i] < 0 || even_index_[i] >= all.size()) {
        rotorlin::detail::throw_runtime("even_index: ", even_index_[i], ", expected less than ", all.size());
      }
      picked[static_cast<Index>(i)] = all[even_index_[i]];
    }
    return picked;
  }

  const json& case_;
  Report& report_;
  int n_;
  std::vector<Index> even_index_;
  double value_tolerance_ = 0, gradient_tolerance_ = 0;
};

inline void check(const json& file, Report& report) {
  for (const json& golden_case : file["cases"]) {
    report.begin_case(golden_case.value("name", "a case without a name"));
    check_blade_names(file, dimension_of_bivector(golden_case.at("b_left").size()), report);
    Checker<double>(file, golden_case, report).check();
    Checker<float>(file, golden_case, report).check();
  }
}

}  // namespace golden::sandwich
