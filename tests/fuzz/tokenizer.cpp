// SPDX-License-Identifier: MIT
#include "common/tokenizer.hpp"

#include "fuzz.hpp"

// The input is a text, a zero byte, and what stands in a file behind the special tokens and the bytes, which
// every file has; or, without a zero byte, a whole file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  std::string bytes(input.substr(end == input.size() ? 0 : end + 1));
  if (end != input.size()) {
    std::string begin = {'\x40', 0, 0, 0};  // the length of the longest
    for (int i = 0; i < 259; ++i) begin += std::string({0, 0, 0, 0, 1, 0, 0, 0, static_cast<char>(i)});
    bytes = begin + bytes;
  }
  fuzz::read([&] {
    const fuzz::MemoryFile file(bytes);
    const auto tokenizer = examples::Tokenizer::load(file.path());
    tokenizer.decode(tokenizer.encode(input.substr(0, end)));
    examples::encode_stories(tokenizer, input.substr(0, end));
  });
  return 0;
}
