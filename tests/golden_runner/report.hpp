// SPDX-License-Identifier: MIT
// What the checks of one file of reference vectors found: the largest error of each precision, and the
// failures.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

namespace golden {

using nlohmann::json;
using rotorlin::Index;

template <class Scalar>
inline const char* precision = std::is_same_v<Scalar, float> ? "float32" : "float64";

/// A JSON array of numbers.
template <class Scalar>
rotorlin::VectorX<Scalar> numbers(const json& array) {
  if (!array.is_array())
    rotorlin::detail::throw_runtime("an array of numbers is expected, not ", array.type_name());
  rotorlin::VectorX<Scalar> values(static_cast<Index>(array.size()));
  for (std::size_t i = 0; i < array.size(); ++i) {
    values[static_cast<Index>(i)] = static_cast<Scalar>(array[i].get<double>());
  }
  return values;
}

class Report {
 public:
  /// Names the case that the following checks belong to.
  void begin_case(std::string name) { case_ = std::move(name); }

  /// Largest difference of the coefficients, relative to the largest coefficient expected, but not to less
  /// than `floor`.
  template <class Computed, class Expected>
  void compare(const std::string& what, const Eigen::MatrixBase<Computed>& computed,
               const Eigen::MatrixBase<Expected>& expected, double tolerance, double floor = 1) {
    const std::string name = precision<typename Computed::Scalar>;
    if (computed.size() != expected.size()) {
      fail(rotorlin::detail::concatenate(what, " has ", expected.size(), " values, computed were ",
                                         computed.size()));
      return;
    }
    double error = 0, scale = floor;
    for (Index i = 0; i < computed.size(); ++i) {
      const double difference = std::abs(static_cast<double>(computed(i)) - static_cast<double>(expected(i)));
      error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(error, difference);
      scale = std::max(scale, std::abs(static_cast<double>(expected(i))));
    }
    if (error != 0 && scale > 0) error /= scale;
    Worst& worst = worst_[name];
    if (error > worst.error) worst = {error, what + " of " + case_};
    if (!(error <= tolerance)) {
      fail(rotorlin::detail::concatenate(what, ", ", name, ": error ", error, ", tolerance ", tolerance));
    }
    ++checks_;
  }
  template <class Scalar>
  void compare(const std::string& what, Scalar computed, double expected, double tolerance) {
    compare(what, Eigen::Matrix<Scalar, 1, 1>(computed), Eigen::Matrix<double, 1, 1>(expected), tolerance);
  }

  void expect(bool condition, const std::string& what) {
    ++checks_;
    if (!condition) fail(what);
  }
  void fail(const std::string& what) { failures_.push_back(case_.empty() ? what : case_ + ": " + what); }

  const std::vector<std::string>& failures() const { return failures_; }
  /// "float64 1.2e-15 (y_double of random)  float32 ..."
  std::string summary() const {
    std::string text = std::to_string(checks_) + " checks";
    for (auto worst = worst_.rbegin(); worst != worst_.rend(); ++worst) {
      text += rotorlin::detail::concatenate("  ", worst->first, " ", worst->second.error, " (",
                                            worst->second.what, ")");
    }
    return text;
  }

 private:
  struct Worst {
    double error = -1;
    std::string what;
  };
  std::string case_;
  std::map<std::string, Worst> worst_;
  std::vector<std::string> failures_;
  int checks_ = 0;
};

}  // namespace golden
