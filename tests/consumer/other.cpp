// SPDX-License-Identifier: MIT
#include <rotorlin/rotorlin.hpp>

std::size_t blades_elsewhere(int n) { return rotorlin::blade_table(n).mask.size(); }
