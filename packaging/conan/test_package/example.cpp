// SPDX-License-Identifier: MIT
#include <iostream>

#include "rotorlin/core/version.hpp"
#include "rotorlin/exponential/exp.hpp"

int main() {
  const auto e1 = rotorlin::Vector<double, 3>::basis(1), e2 = rotorlin::Vector<double, 3>::basis(2);
  std::cout << ROTORLIN_VERSION_STRING << ": " << exp(e2 ^ e1).apply(e1) << '\n';
}
