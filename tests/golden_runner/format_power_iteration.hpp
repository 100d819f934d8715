// SPDX-License-Identifier: MIT
// official_power_iteration: the paper's decomposition from given start vectors, in two passes, with its error
// against the exact exponential.
#pragma once

#include "format_sandwich.hpp"
#include "report.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/power_iteration.hpp"

namespace golden::power_iteration {

using namespace rotorlin;

inline bool matches(const json& file) {
  return file.is_object() && file.contains("cases") && file["cases"].is_array() && !file["cases"].empty() &&
         file["cases"][0].contains("b") && file["cases"][0].contains("v_init");
}

/// Rows of a JSON array as columns.
template <class Scalar>
Matrix<Scalar> columns(const json& rows, Index size) {
  Matrix<Scalar> result(size, static_cast<Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const VectorX<Scalar> column = numbers<Scalar>(rows[i]);
    if (column.size() != size) {
      rotorlin::detail::throw_runtime("a row of ", column.size(), " numbers, expected ", size);
    }
    result.col(static_cast<Index>(i)) = column;
  }
  return result;
}

template <class Scalar>
void check_case(const json& golden_case, Report& report) {
  const auto given = [&](const std::string& field) { return golden_case.contains(field); };
  constexpr bool is_float = std::is_same_v<Scalar, float>;
  const int n = sandwich::dimension_of_bivector(golden_case.at("b").size());
  const Bivector<Scalar, Dynamic> b(n, numbers<Scalar>(golden_case["b"]));
  const double length = std::max(1.0, static_cast<double>(b.norm()));
  const double tolerance = is_float ? 1e-5 * length : std::max(1e-10, 1e-12 * length);
  const Rotor<Scalar, Dynamic> exact = exp(b);
  if (given("exact_rotor_even")) {
    report.compare("exact_rotor_even", exact.coeffs(), numbers<double>(golden_case["exact_rotor_even"]),
                   tolerance);
  }
  // Where it has not converged the iteration is a function of its start: float32 follows it less closely.
  const double followed = is_float ? 2e-3 * length : tolerance;
  PowerIteration<Scalar> iteration;
  for (const std::string pass : {"1", "2"}) {
    if (pass == "1") {
      iteration.compute(b, columns<Scalar>(golden_case["v_init"], n));
    } else {
      iteration.compute(b);
    }
    if (!is_float && given("iterations_pass" + pass)) {
      report.expect(golden_case["iterations_pass" + pass] == iteration.steps(), "iterations_pass" + pass);
    }
    if (given("components_pass" + pass)) {
      const json& parts = golden_case["components_pass" + pass];
      report.expect(parts.size() == iteration.parts().size(), "components_pass" + pass + ": number of parts");
      for (std::size_t p = 0; p < std::min(parts.size(), iteration.parts().size()); ++p) {
        report.compare("components_pass" + pass, iteration.parts()[p].coeffs(), numbers<double>(parts[p]),
                       followed);
      }
    }
    if (given("v_after_pass" + pass)) {
      report.compare("v_after_pass" + pass, iteration.vectors(),
                     columns<double>(golden_case["v_after_pass" + pass], n), followed);
    }
    const Rotor<Scalar, Dynamic> rotor = iteration.rotor();
    if (given("rotor_pass" + pass + "_even")) {
      report.compare("rotor_pass" + pass + "_even", rotor.coeffs(),
                     numbers<double>(golden_case["rotor_pass" + pass + "_even"]), followed);
    }
    if (pass == "2" && given("max_abs_error")) {
      report.compare("max_abs_error", (rotor.coeffs() - exact.coeffs()).cwiseAbs().maxCoeff(),
                     golden_case["max_abs_error"].get<double>(), followed);
    }
  }
}

inline void check(const json& file, Report& report) {
  for (const json& golden_case : file["cases"]) {
    report.begin_case(golden_case.value("name", "a case without a name"));
    check_case<double>(golden_case, report);
    check_case<float>(golden_case, report);
  }
}

}  // namespace golden::power_iteration
