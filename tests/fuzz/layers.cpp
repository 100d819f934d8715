// SPDX-License-Identifier: MIT
#include "fuzz.hpp"
#include "rotorlin/files/serialization.hpp"
#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"

using namespace rotorlin;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const SafetensorsFile file(fuzz::safetensors_of(fuzz::text_of(data, size)));
    const auto try_as = [&]<class L>(const L*) { fuzz::read([&] { read_layer<L>(file); }); };
    try_as(static_cast<DenseLinear<float>*>(nullptr));
    try_as(static_cast<LowRankLinear<float>*>(nullptr));
    try_as(static_cast<BlockHadamardLinear<float>*>(nullptr));
    try_as(static_cast<RotorLinear<float>*>(nullptr));
    try_as(static_cast<RotorNetwork<float>*>(nullptr));
  });
  return 0;
}
