// SPDX-License-Identifier: MIT
// The kernels that layers are checked through: `automatic`, or what the command line says.
#pragma once

#include <vector>

#include "rotorlin/sandwich/kernel.hpp"

namespace golden {

inline std::vector<rotorlin::Kernel>& kernels() {
  static std::vector<rotorlin::Kernel> chosen = {rotorlin::Kernel::automatic};
  return chosen;
}

inline std::vector<rotorlin::Kernel> all_kernels() {
  std::vector<rotorlin::Kernel> all;
  for (const auto& [kernel, name] : rotorlin::kernel_names) all.push_back(kernel);
  return all;
}

}  // namespace golden
