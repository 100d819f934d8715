// SPDX-License-Identifier: MIT
/// \file
/// Activation functions a(z), applied to every feature by itself, with their derivatives; the definitions and
/// constants are PyTorch's.
#pragma once

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// A function of one number z.
enum class Activation {
  none,        ///< z
  relu,        ///< max(z, 0)
  prelu,       ///< z where z > 0, else w z with a trainable w
  gelu,        ///< z (1 + erf(z / sqrt 2)) / 2
  silu,        ///< z / (1 + exp(-z))
  leaky_relu,  ///< z where z > 0, else 0.01 z
  elu,         ///< z where z > 0, else exp(z) - 1
};

inline constexpr std::array<std::pair<Activation, std::string_view>, 7> activation_names = {{
    {Activation::none, "none"},
    {Activation::relu, "relu"},
    {Activation::prelu, "prelu"},
    {Activation::gelu, "gelu"},
    {Activation::silu, "silu"},
    {Activation::leaky_relu, "leaky_relu"},
    {Activation::elu, "elu"},
}};

/// Whether a value, which may come from a cast, is one of the enumeration.
inline bool is_activation(Activation activation) {
  for (const auto& [value, name] : activation_names) {
    if (value == activation) return true;
  }
  return false;
}

/// The name of an activation, as files have it. "unknown" for a value that is none.
inline std::string_view to_string(Activation activation) {
  for (const auto& [value, name] : activation_names) {
    if (value == activation) return name;
  }
  return "unknown";
}

/// \throws std::invalid_argument for an unknown name.
inline Activation activation_from_string(std::string_view name) {
  for (const auto& [value, known] : activation_names) {
    if (known == name) return value;
  }
  detail::throw_invalid("activation_from_string: '", name,
                        "' is not an activation; expected none, relu, prelu, gelu, silu, leaky_relu or elu");
}

/// The same for options of layers (options.hpp).
inline void from_string(std::string_view name, Activation& activation) {
  activation = activation_from_string(name);
}

namespace detail {

/// `function` of every lane, through Eigen's vectorised functions.
template <class S, int V, class F>
inline Pack<S, V> map_lanes(const Pack<S, V>& z, F&& function) {
  using Array = Eigen::Array<S, V, 1>;
  Array lanes;
  store<S, V>(lanes.data(), z);
  const Array result = function(lanes);
  return load<S, V>(result.data());
}

/// a(z) and a'(z) on packs. `weight` is that of prelu. At a kink the derivative is the one from the left.
template <Activation A, class S>
struct ActivationFunction {
  S weight;

  S slope() const {
    if constexpr (A == Activation::prelu) return weight;
    return A == Activation::leaky_relu ? S(0.01) : S(0);
  }

  template <int V>
  Pack<S, V> value(const Pack<S, V>& z) const {
    if constexpr (A == Activation::none) {
      return z;
    } else if constexpr (A == Activation::gelu) {
      return z * normal_distribution<V>(z);
    } else if constexpr (A == Activation::silu) {
      return map_lanes<S, V>(z, [](const auto& x) { return (x / (S(1) + (-x).exp())).eval(); });
    } else if constexpr (A == Activation::elu) {
      return z > S(0) ? z : map_lanes<S, V>(z, [](const auto& x) { return x.min(S(0)).expm1().eval(); });
    } else {
      return z > S(0) ? z : z * slope();
    }
  }

  template <int V>
  Pack<S, V> derivative(const Pack<S, V>& z) const {
    const Pack<S, V> one = Pack<S, V>{} + S(1);
    if constexpr (A == Activation::none) {
      return one;
    } else if constexpr (A == Activation::gelu) {
      const S scale = std::numbers::inv_sqrtpi_v<S> / std::numbers::sqrt2_v<S>;
      const Pack<S, V> density = map_lanes<S, V>(
          z, [scale](const auto& x) { return (scale * (x.square() * S(-0.5)).exp()).eval(); });
      return normal_distribution<V>(z) + z * density;
    } else if constexpr (A == Activation::silu) {
      const Pack<S, V> sigmoid =
          map_lanes<S, V>(z, [](const auto& x) { return (S(1) / (S(1) + (-x).exp())).eval(); });
      return sigmoid * (one + z * (one - sigmoid));
    } else if constexpr (A == Activation::elu) {
      return z > S(0) ? one : map_lanes<S, V>(z, [](const auto& x) { return x.min(S(0)).exp().eval(); });
    } else {
      return z > S(0) ? one : one * slope();
    }
  }

 private:
  /// P(X <= z) for a standard normal X.
  template <int V>
  static Pack<S, V> normal_distribution(const Pack<S, V>& z) {
    return map_lanes<S, V>(z, [](const auto& x) {
      return x.unaryExpr([](S v) { return std::erfc(-v / std::numbers::sqrt2_v<S>) / 2; }).eval();
    });
  }
};

/// body(ActivationFunction) for an activation that is known at run time only.
template <class S, class F>
void with_activation(Activation activation, S weight, F&& body) {
  switch (activation) {
    case Activation::none:
      return body(ActivationFunction<Activation::none, S>{weight});
    case Activation::relu:
      return body(ActivationFunction<Activation::relu, S>{weight});
    case Activation::prelu:
      return body(ActivationFunction<Activation::prelu, S>{weight});
    case Activation::gelu:
      return body(ActivationFunction<Activation::gelu, S>{weight});
    case Activation::silu:
      return body(ActivationFunction<Activation::silu, S>{weight});
    case Activation::leaky_relu:
      return body(ActivationFunction<Activation::leaky_relu, S>{weight});
    case Activation::elu:
      return body(ActivationFunction<Activation::elu, S>{weight});
  }
}

}  // namespace detail

}  // namespace rotorlin
