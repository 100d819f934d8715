// SPDX-License-Identifier: MIT
#include "common/idx.hpp"

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const fuzz::MemoryFile file(fuzz::text_of(data, size));
    examples::read_idx(file.path());
  });
  return 0;
}
