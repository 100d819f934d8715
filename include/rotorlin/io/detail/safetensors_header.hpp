// SPDX-License-Identifier: MIT
/// \file
/// The JSON header of a safetensors file, read in one pass: its entries and nothing else are kept, so that
/// time and memory are linear in its length whatever it holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/dtype.hpp"
#include "rotorlin/io/json.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "rotorlin/io/tensor_info.hpp"

namespace rotorlin::detail {

/// Builds a SafetensorsHeader from the events of the parser. Fields of an entry beside dtype, shape and
/// data_offsets are skipped.
class SafetensorsHeaderEvents : public JsonEvents {
 public:
  /// `value_bytes`: the bytes behind the header, within which offsets must lie.
  SafetensorsHeaderEvents(SafetensorsHeader& header, std::size_t value_bytes)
      : header_(header), value_bytes_(value_bytes) {}

  bool null() override {
    if (place_ == Place::root && name_ == metadata_key) return true;
    return scalar("null");
  }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(json::number_integer_t value) override { return scalar(value); }
  bool number_float(json::number_float_t value, const std::string&) override { return scalar(value); }
  bool number_unsigned(json::number_unsigned_t value) override {
    if (place_ != Place::list) return scalar(value);
    if (value > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) fail_count(value);
    if (list_->size() == most_dimensions) fail_entry(field_, " holds more than ", most_dimensions, " counts");
    list_->push_back(static_cast<Index>(value));
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(name_, std::move(text)).second) fail_twice(name_);
      return true;
    }
    if (place_ != Place::entry || field_ != "dtype") return scalar(text);
    if (text.empty()) fail_entry("dtype is empty");
    dtype_ = std::move(text);
    return true;
  }

  bool key(std::string& text) override {
    if (place_ == Place::entry) {
      field_ = std::move(text);
      for (const auto& [field, seen] : {std::pair("dtype", &seen_.dtype), std::pair("shape", &seen_.shape),
                                        std::pair("data_offsets", &seen_.offsets)}) {
        if (field_ == field && std::exchange(*seen, true)) fail_twice(field_);
      }
    } else if (place_ != Place::skipped) {
      name_ = std::move(text);
      if (place_ == Place::root && name_ == metadata_key && std::exchange(metadata_seen_, true))
        fail_twice(name_);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::before) return go(Place::root);
    if (place_ == Place::root) {
      if (name_ == metadata_key) return go(Place::metadata);
      seen_ = {};
      shape_.clear();
      offsets_.clear();
      return go(Place::entry);
    }
    return start_skipped("object");
  }
  bool start_array(std::size_t) override {
    if (place_ == Place::entry && is_list_field()) {
      list_ = field_ == "shape" ? &shape_ : &offsets_;
      return go(Place::list);
    }
    return start_skipped("list");
  }

  bool end_array() override { return place_ == Place::list ? go(Place::entry) : end_skipped(); }
  bool end_object() override {
    if (place_ == Place::skipped) return end_skipped();
    if (place_ == Place::entry) finish_entry();
    return go(place_ == Place::root ? Place::before : Place::root);
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    fail_text(json_message(error));
  }

 private:
  static constexpr const char* metadata_key = "__metadata__";
  static constexpr std::size_t most_dimensions = 255, most_levels = 100;
  enum class Place { before, root, metadata, entry, list, skipped };

  bool go(Place place) {
    place_ = place;
    return true;
  }

  bool is_known_field() const { return field_ == "dtype" || is_list_field(); }
  bool is_list_field() const { return field_ == "shape" || field_ == "data_offsets"; }

  /// A value that has no place there, or belongs to an unknown field.
  template <class T>
  bool scalar(const T& value) {
    switch (place_) {
      case Place::before:
        fail_text("does not begin with '{'");
      case Place::root:
        if (name_ == metadata_key) throw_runtime("offset 8: __metadata__ is not an object");
        fail_entry("expected an object of dtype, shape and data_offsets, found ", json(value).dump());
      case Place::metadata:
        throw_runtime("offset 8: __metadata__ '", name_, "' is not a string");
      case Place::entry:
        if (field_ == "dtype") fail_entry("dtype ", json(value).dump(), " is not a string");
        if (is_known_field()) fail_entry(field_, " is not a list");
        return true;
      case Place::list:
        fail_count(value);
      case Place::skipped:
        break;
    }
    return true;
  }

  bool start_skipped(const char* what) {
    if (place_ != Place::skipped) {
      if (place_ != Place::entry || is_known_field()) return scalar(concatenate("a nested ", what));
      place_ = Place::skipped;
    }
    if (++skipped_levels_ > most_levels) fail_entry("nested too deeply in ", field_);
    return true;
  }
  bool end_skipped() {
    if (--skipped_levels_ == 0) place_ = Place::entry;
    return true;
  }

  void finish_entry() {
    if (!seen_.dtype || !seen_.shape || !seen_.offsets) {
      fail_entry("expected an object of dtype, shape and data_offsets, without ", !seen_.dtype ? "dtype"
                                                                                  : !seen_.shape
                                                                                      ? "shape"
                                                                                      : "data_offsets");
    }
    const auto offset = [&](std::size_t i) { return static_cast<std::size_t>(offsets_[i]); };
    if (offsets_.size() != 2 || offset(0) > offset(1) || offset(1) > value_bytes_) {
      fail_entry("data_offsets ", json(offsets_).dump(), " do not lie within the ", value_bytes_,
                 " bytes of values");
    }
    TensorInfo tensor{name_, DType(std::move(dtype_)), shape_, offset(0), offset(1)};
    const std::size_t bytes = tensor.end - tensor.begin;
    if (const std::string why = size_mismatch(tensor.dtype, tensor.shape, bytes); !why.empty())
      fail_entry(why, ", data_offsets ", json(offsets_).dump(), " give ", bytes);
    header_.tensors.push_back(std::move(tensor));
  }

  template <class T>
  [[noreturn]] void fail_count(const T& value) const {
    fail_entry(field_, " holds ", json(value).dump(), ", expected a count");
  }
  template <class... Parts>
  [[noreturn]] void fail_entry(const Parts&... parts) const {
    throw_runtime("tensor '", name_, "' in the header at offset 8: ", parts...);
  }
  [[noreturn]] static void fail_twice(const std::string& key) {
    fail_text(concatenate("key '", key, "' stands twice"));
  }
  [[noreturn]] static void fail_text(const std::string& why) {
    throw_runtime("offset 8: the header is not valid: ", why);
  }

  SafetensorsHeader& header_;
  std::size_t value_bytes_;
  Place place_ = Place::before;
  std::size_t skipped_levels_ = 0;
  bool metadata_seen_ = false;
  std::string name_, field_, dtype_;  // of what is being read
  struct {
    bool dtype = false, shape = false, offsets = false;
  } seen_;
  std::vector<Index> shape_, offsets_;
  std::vector<Index>* list_ = nullptr;
};

template <class>
SafetensorsHeader read_safetensors_header(std::string_view text, std::size_t value_bytes) {
  SafetensorsHeader header;
  SafetensorsHeaderEvents events(header, value_bytes);
  if (!text.starts_with('{')) throw_runtime("offset 8: the header is not valid: does not begin with '{'");
  if (text.find('\0') != text.npos) throw_runtime("offset 8: the header is not valid: a zero byte");
  read_json_events(text, events);
  return header;
}

template <class>
std::string safetensors_header_text(const SafetensorsHeader& header) {
  nlohmann::json all = nlohmann::json::object();
  if (!header.metadata.empty()) all["__metadata__"] = header.metadata;
  for (const TensorInfo& tensor : header.tensors) {
    all[tensor.name] = {{"dtype", name_of(tensor.dtype)},
                        {"shape", tensor.shape},
                        {"data_offsets", {tensor.begin, tensor.end}}};
  }
  return json_text(all, "SafetensorsWriter");
}

}  // namespace rotorlin::detail

namespace rotorlin {

template <class>
void SafetensorsFile::open() {
  detail::require_little_endian("SafetensorsFile");
  std::uint64_t header_size = 0;
  if (bytes_.size() < sizeof header_size) {
    fail("is ", bytes_.size(), " bytes long; at least 8, the length of the header, are needed");
  }
  std::memcpy(&header_size, bytes_.data(), sizeof header_size);
  if (header_size > max_header_size) {
    fail("offset 0: the header's length ", header_size, " exceeds the limit of ", max_header_size, " bytes");
  }
  if (header_size > bytes_.size() - sizeof header_size) {
    fail("offset 0: the header's length ", header_size, " goes beyond the end of the file at ", bytes_.size(),
         " bytes");
  }
  const auto length = static_cast<std::size_t>(header_size);
  values_ = bytes_.subspan(sizeof header_size + length);
  try {
    detail::SafetensorsHeader header = detail::read_safetensors_header(
        {reinterpret_cast<const char*>(bytes_.data()) + sizeof header_size, length}, values_.size());
    metadata_ = std::move(header.metadata);
    tensors_ = std::move(header.tensors);
  } catch (const std::runtime_error& error) {
    fail(error.what());
  }
  check_tiling();
  index_names();
}

template <class>
void SafetensorsFile::check_tiling() {
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::size_t end = 0;
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.begin < end)
      fail_at(tensor, "overlaps the one before, which ends ", end - tensor.begin, " bytes later");
    if (tensor.begin > end) fail_at(tensor, "comes after a hole of ", tensor.begin - end, " bytes");
    end = tensor.end;
  }
  if (end != values_.size()) {
    fail("offset ", bytes_.size() - values_.size() + end, ": ", values_.size() - end,
         " bytes belong to no tensor");
  }
}

template <class>
void SafetensorsFile::index_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
  const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), [&](std::size_t a, std::size_t b) {
    return tensors_[a].name == tensors_[b].name;
  });
  if (twice != by_name_.end())
    fail("offset 8: the header is not valid: key '", tensors_[*twice].name, "' stands twice");
}

template <class>
void SafetensorsWriter::write(const std::filesystem::path& path) const {
  const auto order = aligned_order();
  const std::string header = make_header(order);
  detail::AtomicFile file(path, "SafetensorsWriter");
  file.write(std::as_bytes(std::span(header)));
  for (const Entry* entry : order) file.write(entry->bytes());
  file.commit();
}

template <class>
std::vector<std::byte> SafetensorsWriter::bytes() const {
  const auto order = aligned_order();
  const std::string header = make_header(order);
  const auto text = std::as_bytes(std::span(header));
  std::vector<std::byte> all(text.begin(), text.end());
  for (const Entry* entry : order) all.insert(all.end(), entry->bytes().begin(), entry->bytes().end());
  return all;
}

template <class>
void SafetensorsWriter::check_new(const std::string& name, const DType& dtype,
                                  const std::vector<Index>& shape, std::size_t bytes) {
  detail::require_little_endian("SafetensorsWriter");
  if (const std::string why = detail::size_mismatch(dtype, shape, bytes); !why.empty())
    detail::throw_invalid("SafetensorsWriter: tensor '", name, "': ", why, ", given ", bytes, " bytes");
  if (name == "__metadata__" || !names_.insert(name).second) {
    detail::throw_invalid("SafetensorsWriter: the name '", name, "' is taken");
  }
}

template <class>
auto SafetensorsWriter::aligned_order() const -> std::vector<const Entry*> {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return size_of(a->info.dtype) > size_of(b->info.dtype);
  });
  return order;
}

template <class>
std::string SafetensorsWriter::make_header(const std::vector<const Entry*>& order) const {
  detail::SafetensorsHeader header{metadata_, {}};
  std::size_t offset = 0;
  for (const Entry* entry : order) {
    header.tensors.push_back(entry->info);
    header.tensors.back().begin = offset;
    header.tensors.back().end = offset += entry->bytes().size();
  }
  std::string text = detail::safetensors_header_text(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t size = text.size();
  if (size > SafetensorsFile::max_header_size) {
    detail::throw_invalid("SafetensorsWriter: the header would be ", size, " bytes long, the limit is ",
                          SafetensorsFile::max_header_size);
  }
  std::string length(sizeof size, '\0');
  std::memcpy(length.data(), &size, sizeof size);
  return length + text;
}

}  // namespace rotorlin
