// SPDX-License-Identifier: MIT
#include <iostream>
#include <numbers>

#include "compress.hpp"

// Defined in the other file, which uses the whole library as well: the linker sees every symbol twice.
std::size_t compressed_elsewhere();

// What rotorlin::compiled does not hold, in both scalars; the target's warnings look at it.
template <class S>
void algebra() {
  using namespace rotorlin;
  const auto e1 = Vector<S, 3>::basis(1), e2 = Vector<S, 3>::basis(2);
  const auto r = exp(std::numbers::pi_v<S> / 4 * (e2 ^ e1));
  std::cout << r.apply(e1) << ' ' << log(r) << ' ' << sqrt(r) << '\n' << r.to_rotation_matrix() << '\n';
  const Bivector<S, Dynamic> b(Signature<Dynamic>(8), VectorX<S>::Ones(28));
  std::cout << invariant_decomposition(b).angles().transpose() << ' ' << exp(b).coeffs().norm() << '\n';
  std::cout << log(exp(Bivector<S, 3, 0, 1>())) << ' ' << join(e1, e2) << '\n';
}

int main() {
  algebra<float>();
  algebra<double>();
  std::cout << rotorlin::blade_table(3).name(7) << '\n';
  rotorlin::Sequential<float> model(8);
  model.add(rotorlin::DenseLinear<float>(8, 4)).add(rotorlin::ActivationLayer<float>(4));
  model.forward(rotorlin::Matrix<float>::Ones(8, 2));
  return compress_two_layers() == compressed_elsewhere() ? 0 : 1;
}
