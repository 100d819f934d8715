// SPDX-License-Identifier: MIT
/// \file
/// The ways to compute a sandwich x -> alpha r x s~ on a batch, and the choice between them.
#pragma once

#include <array>
#include <string_view>

#include "rotorlin/core/error.hpp"
#include "rotorlin/sandwich/parity_kernel.hpp"
#include "rotorlin/sandwich/shear_kernel.hpp"
#include "rotorlin/sandwich/spinor_kernel.hpp"

namespace rotorlin {

/// How sandwiches are computed. All give the same result to rounding.
enum class Kernel {
  automatic,      ///< the fastest by shape, never a 2^n x 2^n matrix from n = 6 on
  parity_blocks,  ///< two dense blocks, even and odd blades (parity_kernel.hpp)
  spinor,         ///< two small matrix products (spinor_kernel.hpp)
  shears,         ///< outermorphism of the rotation, single rotors only (shear_kernel.hpp)
  dense,          ///< the whole layer as one dense matrix
};

inline constexpr std::array<std::pair<Kernel, std::string_view>, 5> kernel_names = {{
    {Kernel::automatic, "automatic"},
    {Kernel::parity_blocks, "parity_blocks"},
    {Kernel::spinor, "spinor"},
    {Kernel::shears, "shears"},
    {Kernel::dense, "dense"},
}};

inline bool is_kernel(Kernel kernel) {
  for (const auto& [value, name] : kernel_names) {
    if (value == kernel) return true;
  }
  return false;
}

inline std::string_view to_string(Kernel kernel) {
  for (const auto& [value, name] : kernel_names) {
    if (value == kernel) return name;
  }
  return "unknown";
}

/// \throws std::invalid_argument for an unknown name.
inline Kernel kernel_from_string(std::string_view name) {
  for (const auto& [value, known] : kernel_names) {
    if (known == name) return value;
  }
  detail::throw_invalid("kernel_from_string: '", name,
                        "' is not a kernel; expected automatic, parity_blocks, spinor, shears or dense");
}

}  // namespace rotorlin
