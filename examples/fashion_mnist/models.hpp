// SPDX-License-Identifier: MIT
/// \file
/// The networks that are compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/network.hpp"

namespace examples {

struct Model {
  std::string name, description;
  Network network;
  double learning_rate;  ///< of angles, where there are rotors
};

/// All of them, as they are before training; the dense one first.
std::vector<Model> models(std::uint64_t seed);

}  // namespace examples
