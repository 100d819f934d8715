// SPDX-License-Identifier: MIT
/// \file
/// JSON that may come from anywhere: strict, in linear time, with errors that are std::runtime_error
/// (reading) and std::invalid_argument (writing).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/io/detail/json_message.hpp"

namespace rotorlin::detail {

/// The events of nlohmann's parser, each ignored: derive and hide those that matter.
struct JsonEvents {
  using json = nlohmann::json;
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(json::number_integer_t) { return true; }
  bool number_unsigned(json::number_unsigned_t) { return true; }
  bool number_float(json::number_float_t, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(json::binary_t&) { return true; }
  bool start_object(std::size_t) { return true; }
  bool key(std::string&) { return true; }
  bool end_object() { return true; }
  bool start_array(std::size_t) { return true; }
  bool end_array() { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) {
    throw_runtime(json_message(error));
  }
};

/// Sends the events of a text to `events`; std::runtime_error where it is not JSON.
template <class Events>
void read_json_events(std::string_view text, Events& events) {
  if (text.find('\0') != text.npos) throw_runtime("a zero byte");  // which the parser would take for the end
  nlohmann::json::sax_parse(text, &events);
}

/// Refuses what a parser accepts: two equal keys in an object (of which the last would win), and towers of
/// brackets.
class StrictJson : public JsonEvents {
 public:
  explicit StrictJson(std::size_t levels) : levels_(levels) {}

  bool start_object(std::size_t) { return enter(); }
  bool start_array(std::size_t) { return enter(); }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool key(std::string& name) {
    if (!keys_.back().insert(name).second) throw_runtime("key '", name, "' stands twice");
    return true;
  }

 private:
  bool enter() {
    if (keys_.size() == levels_) throw_runtime("nested too deeply");
    keys_.emplace_back();
    return true;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

  std::size_t levels_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

/// JSON in which no object has a key twice and nothing is nested deeper than `levels`; std::runtime_error
/// otherwise.
inline nlohmann::json parse_strict_json(std::string_view text, std::size_t levels = 3) {
  StrictJson strict(levels);
  read_json_events(text, strict);
  return nlohmann::json::parse(text);
}

/// JSON as text; std::invalid_argument, beginning with `who`, where a string in it is not UTF-8.
inline std::string json_text(const nlohmann::json& value, std::string_view who) {
  try {
    return value.dump();
  } catch (const nlohmann::json::exception& error) {
    throw_invalid(who, ": a name or a metadata string is not UTF-8: ", json_message(error));
  }
}

}  // namespace rotorlin::detail
