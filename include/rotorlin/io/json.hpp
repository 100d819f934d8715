// SPDX-License-Identifier: MIT
/// \file
/// JSON that may come from anywhere: strict, in linear time, with errors that are std::runtime_error
/// (reading) and std::invalid_argument (writing).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/io/detail/json_message.hpp"

namespace rotorlin::detail {

/// The events of nlohmann's parser, each ignored: derive and override those that matter. They are virtual so
/// that the parser is compiled once, whoever listens.
struct JsonEvents : nlohmann::json::json_sax_t {
  using json = nlohmann::json;
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw_runtime(json_message(error));
  }
};

/// Sends the events of a text to `events`; std::runtime_error where it is not JSON.
inline void read_json_events(std::string_view text, JsonEvents& events) {
  if (text.find('\0') != text.npos) throw_runtime("a zero byte");  // which the parser would take for the end
  nlohmann::json::sax_parse(text, static_cast<nlohmann::json::json_sax_t*>(&events));
}

/// Builds a value, and refuses what a parser accepts: two equal keys in an object (of which the last would
/// win), and towers of brackets.
class StrictJson : public JsonEvents {
 public:
  /// `levels`: how many objects and lists may be open at once.
  explicit StrictJson(std::size_t levels) : levels_(levels) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(json::number_integer_t value) override { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) override { return add(value); }
  bool number_float(json::number_float_t value, const std::string&) override { return add(value); }
  bool string(std::string& text) override { return add(std::move(text)); }
  bool start_object(std::size_t) override { return enter(json::value_t::object); }
  bool start_array(std::size_t) override { return enter(json::value_t::array); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(std::string& name) override {
    if (open_.back()->contains(name)) throw_runtime("key '", name, "' stands twice");
    key_ = std::move(name);
    return true;
  }

  /// What was read.
  json& value() { return value_; }

 private:
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool enter(json::value_t type) {
    if (open_.size() == levels_) throw_runtime("nested too deeply");
    open_.push_back(&place(json(type)));
    return true;
  }
  bool leave() {
    open_.pop_back();
    return true;
  }
  json& place(json value) {
    if (open_.empty()) return value_ = std::move(value);
    if (open_.back()->is_object()) return (*open_.back())[key_] = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }

  std::size_t levels_;
  json value_;
  std::vector<json*> open_;  // each within the one before, which holds still until the later ones are closed
  std::string key_;
};

/// JSON in which no object has a key twice and nothing is nested deeper than `levels`; std::runtime_error
/// otherwise.
inline nlohmann::json parse_strict_json(std::string_view text, std::size_t levels = 3) {
  StrictJson strict(levels);
  read_json_events(text, strict);
  return std::move(strict.value());
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
