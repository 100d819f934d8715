// SPDX-License-Identifier: MIT
// Formats of parts that are not built yet: recognised, and reported as skipped. A part that is built takes
// its format out of here and adds a header of its own.
#pragma once

#include <initializer_list>

#include "report.hpp"

namespace golden::pending {

inline bool has(const json& object, std::initializer_list<const char*> fields) {
  if (!object.is_object()) return false;
  for (const char* field : fields) {
    if (!object.contains(field)) return false;
  }
  return true;
}

inline bool matches(const json& file) {
  return has(file, {"tokens", "eval_tokens"});  // geopair: the language model
}

}  // namespace golden::pending
