// SPDX-License-Identifier: MIT
/// \file
/// The options of a layer, written down once: a struct with a tuple of its fields, from which follow the
/// description that files keep, its parsing, the checks of ranges and their texts.
///
///     struct MyOptions {
///       Index rank = 0;
///       bool bias = true;
///       std::uint64_t seed = 0;                          // no field: it is not part of what a layer is
///       static constexpr auto fields() {
///         return std::tuple(option_field("rank", &MyOptions::rank, 1), option_field("bias",
///         &MyOptions::bias));
///       }
///     };
///
/// Fields may be bool, integers, double, and enumerations that have `std::string_view to_string(E)` and
/// `void from_string(std::string_view, E&)` beside them, of which the second throws std::invalid_argument for
/// a name, the first for a value, that is none of E.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/text.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"

namespace rotorlin {

/// One option: its name in files and messages, and where it is. Numbers are within [least, most].
template <class Options, class T>
struct OptionField {
  const char* name;
  T Options::*member;
  T least, most;
};

/// An option of any value; of a number, at least `least`.
template <class Options, class T>
constexpr OptionField<Options, T> option_field(const char* name, T Options::*member) {
  if constexpr (std::is_arithmetic_v<T>) {
    return {name, member, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
  } else {
    return {name, member, {}, {}};
  }
}
template <class Options, class T>
constexpr OptionField<Options, T> option_field(const char* name, T Options::*member,
                                               std::type_identity_t<T> least,
                                               std::type_identity_t<T> most = std::numeric_limits<T>::max()) {
  return {name, member, least, most};
}

namespace detail {

template <class T>
std::string field_text(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(to_string(value));
  } else if constexpr (std::floating_point<T>) {
    return format_real(value);
  } else {
    return option_text(value);
  }
}

template <class T>
T field_value(const Description& description, const std::string& key) {
  if constexpr (std::is_enum_v<T> || std::floating_point<T>) {
    const auto found = description.find(key);
    if (found == description.end()) throw_invalid("layer description: option '", key, "' is missing");
    if constexpr (std::is_enum_v<T>) {
      T value{};
      from_string(std::string_view(found->second), value);
      return value;
    } else {
      const std::optional<double> value = parse_real(found->second);
      if (!value)
        throw_invalid("layer description: option '", key, "' is '", found->second, "', expected a number");
      return static_cast<T>(*value);
    }
  } else {
    return option<T>(description, key);
  }
}

/// body(field) for each.
template <class Options, class Body>
void for_each_field(const Body& body) {
  std::apply([&](const auto&... field) { (body(field), ...); }, Options::fields());
}

/// Features and options as text; what parse_options reads.
template <class Options>
Description describe_options(Index in, Index out, const Options& options) {
  Description description = {{"in", option_text(in)}, {"out", option_text(out)}};
  for_each_field<Options>(
      [&](const auto& field) { description[field.name] = field_text(options.*(field.member)); });
  return description;
}

/// The options of a description, the other members as they are by default. std::invalid_argument where one is
/// missing or no value of its type.
template <class Options>
Options parse_options(const Description& description) {
  Options options;
  for_each_field<Options>([&]<class T>(const OptionField<Options, T>& field) {
    options.*(field.member) = field_value<T>(description, field.name);
  });
  return options;
}

/// std::invalid_argument where a number is out of its range (NaN always is).
template <class Options>
void check_options(std::string_view who, const Options& options) {
  for_each_field<Options>([&]<class T>(const OptionField<Options, T>& field) {
    const T value = options.*(field.member);
    if constexpr (std::is_enum_v<T>) {
      to_string(value);
    } else if (!(value >= field.least && value <= field.most)) {
      const bool open = field.most == std::numeric_limits<T>::max();
      throw_invalid(who, ": ", field.name, " = ", field_text(value), ", expected ", open ? "at least " : "",
                    field_text(field.least), open ? "" : " ... " + field_text(field.most));
    }
  });
}

}  // namespace detail

/// A LayerBase with options: the part of a `DescribedLayer` that follows from them. Derived has
///
/// - `static Index count_weights(Index in, Index out, const Options&)`: the parameters without the bias.
///   std::invalid_argument where options don't fit each other, in or out;
/// - if some options are chosen where they are 0, `static Options complete(Index in, Index out, Options)`,
/// which
///   fills them in: what `options()` and a description say is complete. in and out are at least 1.
/// - a constructor `(Uninitialised, Index in, Index out, const Options&)`, which this class may call and
/// which
///   calls that of this class with the same arguments.
///
/// `Options` has a `bool bias`.
template <class Derived, class S, class OptionsType>
class OptionsLayer : public LayerBase<Derived, S> {
  using Base = LayerBase<Derived, S>;

 public:
  using Options = OptionsType;
  struct Uninitialised {};

  const Options& options() const { return options_; }

  Description describe() const {
    return detail::describe_options(this->in_features(), this->out_features(), options_);
  }
  static Derived from_description(const Description& description) {
    return Derived(Uninitialised{}, detail::option<Index>(description, "in"),
                   detail::option<Index>(description, "out"), detail::parse_options<Options>(description));
  }
  /// Number of parameters of that layer, without making it.
  static Index count_parameters(const Description& description) {
    const auto in = detail::option<Index>(description, "in"), out = detail::option<Index>(description, "out");
    const Options options = checked(in, out, detail::parse_options<Options>(description));
    return detail::checked_sum(Derived::count_weights(in, out, options), options.bias ? out : 0);
  }

 protected:
  OptionsLayer(Uninitialised, Index in, Index out, const Options& options)
      : OptionsLayer(Checked{}, in, out, checked(in, out, options)) {}

  static Options complete(Index, Index, const Options& options) { return options; }

 private:
  struct Checked {};
  OptionsLayer(Checked, Index in, Index out, const Options& options)
      : Base(in, out, Derived::count_weights(in, out, options), options.bias), options_(options) {}

  static Options checked(Index in, Index out, const Options& options) {
    if (in < 1 || out < 1) {
      detail::throw_invalid(Derived::type_name, ": in = ", in, ", out = ", out, "; each must be at least 1");
    }
    detail::check_options(Derived::type_name, options);
    return Derived::complete(in, out, options);
  }

  Options options_;
};

}  // namespace rotorlin
