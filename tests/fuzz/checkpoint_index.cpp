// SPDX-License-Identifier: MIT
#include "compress_checkpoint/checkpoint_files.hpp"
#include "compress_checkpoint/presets.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::read([&] { examples::parse_checkpoint_index(text); });
  fuzz::read([&] {
    const fuzz::MemoryFile file(text);
    examples::read_model_type(file.path());
  });
  return 0;
}
