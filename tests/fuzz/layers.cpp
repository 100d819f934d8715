// SPDX-License-Identifier: MIT
#include "fuzz.hpp"
#include "rotorlin/files/registry.hpp"

using namespace rotorlin;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read(
      [&] { read_any_layer<float>(SafetensorsFile(fuzz::safetensors_of(fuzz::text_of(data, size)))); });
  return 0;
}
