// SPDX-License-Identifier: MIT
#include <iostream>
#include <rotorlin/rotorlin.hpp>

// Defined in the other file, which includes the whole library as well: the linker sees every symbol twice.
std::size_t blades_elsewhere(int n);

int main() {
  const auto& table = rotorlin::blade_table(3);
  std::cout << table.name(7) << '\n';
  return table.mask.size() == blades_elsewhere(3) ? 0 : 1;
}
