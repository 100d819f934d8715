// SPDX-License-Identifier: MIT
/// \file
/// The ways to compute a sandwich x -> alpha r x s~ on a batch, and the choice between them.
///
/// A new kernel is a header with a class that meets the concept SandwichKernel, and an entry here: its name
/// in the enumeration and, at the same place, its type in the list. Texts, command lines, tests and the
/// layers follow; its place in the choice is its member `fastest`.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/sandwich/parity_kernel.hpp"
#include "rotorlin/sandwich/sandwich_kernel.hpp"
#include "rotorlin/sandwich/shear_kernel.hpp"
#include "rotorlin/sandwich/spinor_kernel.hpp"

namespace rotorlin {

/// How sandwiches are computed. All give the same result to rounding.
enum class Kernel {
  automatic,      ///< the fastest by shape, never a 2^n x 2^n matrix from n = 6 on
  parity_blocks,  ///< two dense blocks, even and odd blades (parity_kernel.hpp)
  spinor,         ///< two small matrix products (spinor_kernel.hpp)
  shears,         ///< outermorphism of the rotation, single rotors only (shear_kernel.hpp)
  dense,          ///< no sandwich: layers only, the whole layer as one dense matrix
};

namespace detail {

template <class... K>
struct KernelList {
  static constexpr std::size_t size = sizeof...(K);
  static constexpr std::array<std::string_view, size> names = {K::name...};
};

/// The kernels, in the order of the enumeration, where they follow `automatic`.
template <class S>
using SandwichKernels = KernelList<ParityKernel<S>, SpinorKernel<S>, ShearKernel<S>>;

constexpr bool is_sandwich_kernel(Kernel kernel) {
  return kernel > Kernel::automatic && static_cast<std::size_t>(kernel) <= SandwichKernels<float>::size;
}

template <class F, class First, class... Rest>
auto visit_kernel(std::size_t number, KernelList<First, Rest...>, F&& body) {
  if constexpr (sizeof...(Rest) > 0) {
    if (number != 0) return visit_kernel(number - 1, KernelList<Rest...>{}, body);
  }
  return body(First{});
}
/// body(K{}) with the kernel K that is meant; all bodies return the same type.
template <class S, class F>
auto visit_kernel(Kernel kernel, F&& body) {
  return visit_kernel(static_cast<std::size_t>(kernel) - 1, SandwichKernels<S>{}, body);
}

template <class F, class... K>
void for_each_kernel(KernelList<K...>, F&& body) {
  (body(K{}), ...);
}
/// body(K{}) for every kernel.
template <class S, class F>
void for_each_kernel(F&& body) {
  for_each_kernel(SandwichKernels<S>{}, body);
}

constexpr auto make_kernel_names() {
  std::array<std::pair<Kernel, std::string_view>, SandwichKernels<float>::size + 2> names;
  names.front() = {Kernel::automatic, "automatic"};
  for (std::size_t i = 1; i + 1 < names.size(); ++i)
    names[i] = {static_cast<Kernel>(i), SandwichKernels<float>::names[i - 1]};
  names.back() = {Kernel::dense, "dense"};
  return names;
}

}  // namespace detail

inline constexpr auto kernel_names = detail::make_kernel_names();

static_assert(static_cast<std::size_t>(Kernel::dense) == kernel_names.size() - 1);

/// Whether the value is one of the enumerators, and its name.
constexpr bool is_kernel(Kernel kernel) { return static_cast<std::size_t>(kernel) < kernel_names.size(); }

/// The name of a kernel, as `kernel_from_string` takes it.
constexpr std::string_view to_string(Kernel kernel) {
  return is_kernel(kernel) ? kernel_names[static_cast<std::size_t>(kernel)].second : "unknown";
}

namespace detail {

/// "automatic, parity_blocks, ... or dense", for messages.
inline std::string kernel_choices() {
  std::string text;
  for (std::size_t i = 0; i < kernel_names.size(); ++i) {
    text += i == 0 ? "" : i + 1 == kernel_names.size() ? " or " : ", ";
    text += kernel_names[i].second;
  }
  return text;
}

}  // namespace detail

/// \throws std::invalid_argument for an unknown name.
inline Kernel kernel_from_string(std::string_view name) {
  for (const auto& [value, known] : kernel_names) {
    if (known == name) return value;
  }
  detail::throw_invalid("kernel_from_string: '", name, "' is not a kernel; expected ",
                        detail::kernel_choices());
}

/// Whether the kernel computes r x r~ only.
inline bool needs_single_rotor(Kernel kernel) {
  return detail::is_sandwich_kernel(kernel) &&
         detail::visit_kernel<float>(kernel, []<class K>(K) { return K::single_rotor_only; });
}

/// The one place that chooses: the first kernel in the list that is the fastest for rotor pairs, or single
/// rotors, of Cl(n), `width` of them in parallel.
inline Kernel choose_kernel(int n, bool single_rotor, Index width = 1) {
  Kernel choice = Kernel::automatic;
  int number = 0;
  detail::for_each_kernel<float>([&]<class K>(K) {
    ++number;
    const bool possible = single_rotor || !K::single_rotor_only;
    if (choice == Kernel::automatic && possible && K::fastest(n, single_rotor, width))
      choice = static_cast<Kernel>(number);
  });
  return choice;
}

}  // namespace rotorlin
