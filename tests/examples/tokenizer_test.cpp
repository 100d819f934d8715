// SPDX-License-Identifier: MIT
#include "common/tokenizer.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace {

/// A file of the special tokens, the bytes, and these texts with growing scores.
std::string tokenizer_of(const std::vector<std::string>& texts) {
  std::string bytes;
  const auto append_raw = [&](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::size_t longest = 0;
  for (const std::string& text : texts) longest = std::max(longest, text.size());
  append_raw(static_cast<std::int32_t>(longest));
  float score = 0;
  const auto add = [&](const std::string& text) {
    append_raw(score += 1);
    append_raw(static_cast<std::int32_t>(text.size()));
    bytes += text;
  };
  for (int i = 0; i < 259; ++i) add("<" + std::to_string(i) + ">");
  for (const std::string& text : texts) add(text);
  return bytes;
}

/// Joins the pair whose union has the highest score, the first of equals, until there is none: by searching
/// the vocabulary for each pair each time.
std::vector<examples::Token> encode_by_definition(const std::vector<std::string>& texts,
                                                  const std::string& text) {
  const auto find = [&](const std::string& wanted) {
    return static_cast<int>(std::find(texts.begin(), texts.end(), wanted) - texts.begin());
  };
  const int none = static_cast<int>(texts.size());
  std::vector<int> pieces;
  for (const char c : " " + text) pieces.push_back(find(std::string(1, c)));
  for (;;) {
    int best = -1;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
      const int joined =
          find(texts[static_cast<std::size_t>(pieces[i])] + texts[static_cast<std::size_t>(pieces[i + 1])]);
      if (joined != none && joined > best) {
        best = joined;
        place = i;
      }
    }
    if (best < 0) break;
    pieces[place] = best;
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  std::vector<examples::Token> tokens;
  for (const int piece : pieces) tokens.push_back(static_cast<examples::Token>(259 + piece));
  return tokens;
}

}  // namespace

TEST_CASE("random vocabularies join as they should") {
  const test::TemporaryFolder folder;
  std::mt19937 random(1);
  const auto random_text = [&](std::size_t most) {
    std::string text(1 + random() % most, ' ');
    for (char& c : text) c = "ab"[random() % 2];
    return text;
  };
  for (int repetition = 0; repetition < 60; ++repetition) {
    std::vector<std::string> texts = {" ", "a", "b"};
    while (texts.size() < 30) {
      const std::string text = random_text(6);
      if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
    }
    std::shuffle(texts.begin(), texts.end(), random);
    test::write_bytes(folder / "tok.bin", tokenizer_of(texts));
    const auto tokenizer = examples::Tokenizer::load(folder / "tok.bin");
    for (int k = 0; k < 20; ++k) {
      const std::string text = random_text(20);
      CAPTURE(text);
      CHECK(tokenizer.encode(text, false) == encode_by_definition(texts, text));
    }
  }
}

TEST_CASE("long tokens are read in linear time") {
  const test::TemporaryFolder folder;
  const std::string a(1'000'000, 'a');
  test::write_bytes(folder / "tok.bin", tokenizer_of({"a", "aa", "aaa", a, a + "b", "b", "", "a"}));
  const auto begin = std::chrono::steady_clock::now();
  const auto tokenizer = examples::Tokenizer::load(folder / "tok.bin");
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  CHECK(passed.count() < 5);  // a loop over all cuts with the texts on both sides takes 20 minutes
  CHECK(tokenizer.size() == 267);
}
