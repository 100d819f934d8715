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
  const json first =
      has(file, {"cases"}) && file["cases"].is_array() && !file["cases"].empty() ? file["cases"][0] : json();
  return has(file, {"rows", "ks"}) || has(file, {"G", "W", "eta"}) ||              // geopair: accounting,
         has(first, {"G", "W", "eta"}) || has(first, {"G1", "W1", "G2", "W2"}) ||  // least squares,
         has(first, {"X", "N", "eta"}) || has(first, {"A", "y", "k"}) ||           // whitening, coding,
         has(file, {"A", "B", "d_sum"}) || has(first, {"cost", "min_total"}) ||    // pairing,
         has(file, {"tokens", "eval_tokens"});                                     // the language model
}

}  // namespace golden::pending
