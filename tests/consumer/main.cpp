// SPDX-License-Identifier: MIT
#include <iostream>

#include "compress.hpp"

// Defined in the other file, which uses the whole library as well: the linker sees every symbol twice.
std::size_t compressed_elsewhere();

int main() {
  std::cout << rotorlin::blade_table(3).name(7) << '\n';
  rotorlin::Sequential<float> model(8);
  model.add(rotorlin::DenseLinear<float>(8, 4)).add(rotorlin::ActivationLayer<float>(4));
  model.forward(rotorlin::Matrix<float>::Ones(8, 2));
  return compress_two_layers() == compressed_elsewhere() ? 0 : 1;
}
