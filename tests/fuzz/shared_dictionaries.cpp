// SPDX-License-Identifier: MIT
#include "fuzz.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"

using namespace rotorlin;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const SafetensorsFile file(fuzz::safetensors_of(fuzz::text_of(data, size)));
    const auto layers = read_shared_layers<float>(file);
    SafetensorsWriter writer;
    write_shared_layers(writer, layers);
    if (read_shared_layers<float>(SafetensorsFile(writer.bytes())).size() != layers.size()) std::abort();
  });
  return 0;
}
