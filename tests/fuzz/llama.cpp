// SPDX-License-Identifier: MIT
#include "common/llama.hpp"

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const fuzz::MemoryFile file(fuzz::text_of(data, size));
    const examples::Llama model = examples::Llama::load(file.path());
    if (model.config().vocabulary > 1 && model.config().sequence > 1)
      model.logits(std::vector<examples::Token>{0, 1});
  });
  return 0;
}
