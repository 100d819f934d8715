// SPDX-License-Identifier: MIT
/// \file
/// Text as token numbers: the tokenizer files of llama2.c (byte-pair encoding with scores), and streams of
/// tokens from .txt and .u16 files.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"

namespace examples {

static_assert(std::endian::native == std::endian::little, "the files are read as they lie in memory");

using Token = std::uint16_t;

/// \throws std::runtime_error where the file can't be read.
inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file;
  if (!std::filesystem::is_directory(path)) file.open(path, std::ios::binary);  // reading one throws
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) {
    rotorlin::detail::throw_runtime("read_file: can't read ", path.string(),
                                    "; check that it exists, is a file and may be read");
  }
  return bytes;
}

/// Token numbers as 16-bit little-endian words.
/// \throws std::runtime_error where the file can't be read, is empty, or has an odd number of bytes.
inline std::vector<Token> read_tokens(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  if (bytes.empty() || bytes.size() % sizeof(Token) != 0) {
    rotorlin::detail::throw_runtime("read_tokens: ", path.string(), " has ", bytes.size(),
                                    " bytes, expected 16-bit token numbers: an even number, at least 2");
  }
  std::vector<Token> tokens(bytes.size() / sizeof(Token));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

/// The tokenizer of a Llama model: byte-pair encoding that joins the pair with the highest score first
/// (sentencepiece with a space before the text, and bytes for what the vocabulary lacks).
class Tokenizer {
 public:
  static constexpr Token bos = 1, eos = 2;

  /// Reads llama2.c's format: the length of the longest token (int32), then for each token its score (float),
  /// its length (int32) and its bytes. Tokens 0 to 2 are unknown, BOS and EOS, 3 to 258 the 256 bytes.
  /// \throws std::runtime_error on a file that is something else.
  static Tokenizer load(const std::filesystem::path& path) {
    using rotorlin::detail::throw_runtime;
    const std::string bytes = read_file(path);
    std::size_t at = 0;
    const auto take = [&](std::size_t size) {
      if (bytes.size() - at < size) {
        throw_runtime("Tokenizer::load: ", path.string(), " ends after ", bytes.size(), " bytes, ",
                      at + size - bytes.size(), " short; is this a whole tokenizer file of llama2.c?");
      }
      at += size;
      return std::string_view(bytes).substr(at - size, size);
    };
    const auto read = [&](auto& value) { std::memcpy(&value, take(sizeof value).data(), sizeof value); };
    std::int32_t longest = 0;
    read(longest);
    Tokenizer result;
    while (at < bytes.size()) {
      float score = 0;
      std::int32_t length = 0;
      read(score);
      read(length);
      // The special tokens are not counted among the longest.
      if (length < 0 || length > std::max(longest, 16)) {
        throw_runtime("Tokenizer::load: ", path.string(), ": token ", result.texts_.size(), " has length ",
                      length, ", expected 0 to ", std::max(longest, 16),
                      "; is this a tokenizer file of llama2.c?");
      }
      if (!std::isfinite(score)) {
        throw_runtime("Tokenizer::load: ", path.string(), ": token ", result.texts_.size(), " has score ",
                      score, ", expected a finite number; is this a tokenizer file of llama2.c?");
      }
      result.texts_.emplace_back(take(static_cast<std::size_t>(length)));
      result.scores_.push_back(score);
    }
    constexpr std::size_t least = first_byte + 256, most = 65536;
    if (result.texts_.size() < least || result.texts_.size() > most) {
      throw_runtime("Tokenizer::load: ", path.string(), " holds ", result.texts_.size(), " tokens, expected ",
                    least, " (3 special ones and 256 bytes) to ", most);
    }
    result.index();
    return result;
  }

  std::size_t size() const { return texts_.size(); }

  std::vector<Token> encode(std::string_view text, bool with_bos = true) const {
    std::vector<Token> tokens;
    if (!text.empty()) {
      append_characters(" ", tokens);
      append_characters(text, tokens);
      join_pairs(tokens);
    }
    if (with_bos) tokens.insert(tokens.begin(), bos);
    return tokens;
  }

  /// BOS begins a text anew: it, EOS and the space that `encode` put before a text leave no trace, but
  /// texts after the first start on a new line. \throws std::invalid_argument for an unknown token.
  std::string decode(std::span<const Token> tokens) const {
    std::string text;
    bool begin = true;
    for (const Token token : tokens) {
      if (token >= texts_.size())
        rotorlin::detail::throw_invalid("Tokenizer::decode: token ", token, ", expected 0 to ", size() - 1);
      if (token == bos || token == eos) {
        if (token == bos && !text.empty()) text += '\n';
        begin = true;
        continue;
      }
      if (token >= first_byte && token < first_byte + 256) {
        text += static_cast<char>(token - first_byte);
      } else {
        const std::string& piece = texts_[token];
        text += begin && piece.starts_with(' ') ? piece.substr(1) : piece;
      }
      begin = false;
    }
    return text;
  }

 private:
  static constexpr Token first_byte = 3;

  /// Which two tokens join to which: for every cut of a text of which both sides are texts. Linear in the
  /// bytes of the vocabulary, but for sorting.
  void index() {
    for (std::size_t i = 0; i < texts_.size(); ++i) ids_.emplace(texts_[i], static_cast<Token>(i));
    const auto reversed = [](std::string text) {
      std::reverse(text.begin(), text.end());
      return text;
    };
    std::vector<std::pair<std::string, Token>> forward, backward;
    for (const auto& [text, id] : ids_) {
      if (text.empty()) continue;
      forward.emplace_back(text, id);
      backward.emplace_back(reversed(text), id);
    }
    const auto lefts = beginnings(std::move(forward), texts_.size());
    const auto rights = beginnings(std::move(backward), texts_.size());
    for (std::size_t i = first_byte + 256; i < texts_.size(); ++i) {
      const Token whole = ids_.at(texts_[i]);
      // Both lists from short to long: as the left side grows, the right one shrinks.
      auto right = rights[whole].rbegin();
      for (const Token left : lefts[whole]) {
        const std::size_t rest = texts_[i].size() - texts_[left].size();
        while (right != rights[whole].rend() && texts_[*right].size() > rest) ++right;
        if (right != rights[whole].rend() && texts_[*right].size() == rest)
          joined_.emplace(pair_key(left, *right), whole);
      }
    }
  }

  /// For each token of `size`, those whose different texts its text begins with, short ones first.
  static std::vector<std::vector<Token>> beginnings(std::vector<std::pair<std::string, Token>> texts,
                                                    std::size_t size) {
    std::sort(texts.begin(), texts.end());
    std::vector<std::vector<Token>> result(size);
    std::vector<const std::pair<std::string, Token>*> open;  // each the beginning of the next
    for (const auto& entry : texts) {
      while (!open.empty() && !entry.first.starts_with(open.back()->first)) open.pop_back();
      for (const auto* beginning : open) result[entry.second].push_back(beginning->second);
      open.push_back(&entry);
    }
    return result;
  }

  /// A token for each UTF-8 character, or for each of its bytes.
  void append_characters(std::string_view text, std::vector<Token>& tokens) const {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = 1;
      while (length < 4 && at + length < text.size() && (text[at + length] & 0xc0) == 0x80) ++length;
      const std::string_view character = text.substr(at, length);
      if (const auto id = ids_.find(std::string(character)); id != ids_.end()) {
        tokens.push_back(id->second);
      } else {
        for (const char byte : character)
          tokens.push_back(static_cast<Token>(first_byte + static_cast<unsigned char>(byte)));
      }
      at += length;
    }
  }

  /// Joins the neighbours whose union has the highest score, the first of equals, until no union is known.
  void join_pairs(std::vector<Token>& tokens) const {
    struct Join {
      float score;
      int left, right;     // positions
      Token a, b, union_;  // what stood there
      bool operator<(const Join& other) const {
        return score != other.score ? score < other.score : left > other.left;
      }
    };
    const int count = static_cast<int>(tokens.size());
    constexpr int gone = -2;
    std::vector<int> next(tokens.size()), previous(tokens.size());
    for (int i = 0; i < count; ++i) {
      next[at(i)] = i + 1;
      previous[at(i)] = i - 1;
    }
    std::priority_queue<Join> queue;
    const auto consider = [&](int left, int right) {
      if (left < 0 || right >= count) return;
      const Token a = tokens[at(left)], b = tokens[at(right)];
      if (const auto found = joined_.find(pair_key(a, b)); found != joined_.end())
        queue.push({scores_[found->second], left, right, a, b, found->second});
    };
    for (int i = 0; i + 1 < count; ++i) consider(i, i + 1);
    while (!queue.empty()) {
      const Join join = queue.top();
      queue.pop();
      const bool stale = next[at(join.left)] != join.right || tokens[at(join.left)] != join.a ||
                         tokens[at(join.right)] != join.b;
      if (stale) continue;
      tokens[at(join.left)] = join.union_;
      const int after = next[at(join.left)] = next[at(join.right)];
      next[at(join.right)] = gone;
      if (after < count) previous[at(after)] = join.left;
      consider(previous[at(join.left)], join.left);
      consider(join.left, after);
    }
    std::size_t kept = 0;
    for (int i = 0; i < count; ++i) {
      if (next[at(i)] != gone) tokens[kept++] = tokens[at(i)];
    }
    tokens.resize(kept);
  }

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::uint32_t pair_key(Token a, Token b) { return (std::uint32_t{a} << 16) | b; }

  std::vector<std::string> texts_;
  std::vector<float> scores_;
  std::unordered_map<std::string, Token> ids_;
  std::unordered_map<std::uint32_t, Token> joined_;  ///< of two tokens
};

/// The tokens of a text, BOS before each of its stories. A single newline separates stories, an empty line
/// only paragraphs; "\r\n" counts as a newline.
inline std::vector<Token> encode_stories(const Tokenizer& tokenizer, std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!bytes.substr(i).starts_with("\r\n")) text += bytes[i];
  }
  std::vector<Token> tokens;
  const auto add = [&](std::string_view story) {
    constexpr std::string_view blank = " \t\r\n";
    const std::size_t first = story.find_first_not_of(blank);
    if (first == story.npos) return;
    const auto ids = tokenizer.encode(story.substr(first, story.find_last_not_of(blank) - first + 1));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  };
  std::size_t begin = 0;
  for (std::size_t i = text.find('\n'); i != text.npos; i = text.find('\n', i)) {
    const std::size_t end = std::min(text.find_first_not_of('\n', i), text.size());
    if (end - i == 1) {
      add(text.substr(begin, i - begin));
      begin = end;
    }
    i = end;
  }
  add(text.substr(begin));
  return tokens;
}

/// A stream of tokens for a model of `vocabulary` tokens: a .txt file is encoded, anything else is read as
/// token numbers. \throws std::runtime_error where a token is not in the vocabulary.
inline std::vector<Token> read_stream(const std::filesystem::path& path, const Tokenizer& tokenizer,
                                      std::size_t vocabulary) {
  const auto tokens =
      path.extension() == ".txt" ? encode_stories(tokenizer, read_file(path)) : read_tokens(path);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < vocabulary) continue;
    rotorlin::detail::throw_runtime("read_stream: ", path.string(), ": token ", i, " is ", tokens[i],
                                    ", expected 0 to ", vocabulary - 1,
                                    "; text needs the ending .txt and the tokenizer of the model");
  }
  return tokens;
}

/// Cuts a stream in two, between the stories (at the BOS) nearest to `share` of it; where there is no BOS
/// inside, right there.
inline std::pair<std::vector<Token>, std::vector<Token>> split_stream(const std::vector<Token>& tokens,
                                                                      double share) {
  const auto wanted = static_cast<std::size_t>(share * static_cast<double>(tokens.size()));
  std::size_t cut = wanted;
  for (std::size_t away = 0; away < tokens.size(); ++away) {
    if (wanted + away < tokens.size() && tokens[wanted + away] == Tokenizer::bos) {
      cut = wanted + away;
      break;
    }
    if (away < wanted && tokens[wanted - away] == Tokenizer::bos) {
      cut = wanted - away;
      break;
    }
  }
  const auto middle = tokens.begin() + static_cast<std::ptrdiff_t>(cut);
  return {{tokens.begin(), middle}, {middle, tokens.end()}};
}

}  // namespace examples
