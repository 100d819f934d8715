// SPDX-License-Identifier: MIT
#include "rotorlin/io/npy.hpp"

#include "fuzz.hpp"

using namespace rotorlin;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const fuzz::MemoryFile bytes(fuzz::text_of(data, size));
    const NpyFile file(bytes.path());
    fuzz::read([&] { file.matrix<float>(); });
    fuzz::read([&] { file.matrix<double>(); });
    fuzz::read([&] { file.batch<float>(0, file.samples()); });
  });
  return 0;
}
