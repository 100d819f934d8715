// SPDX-License-Identifier: MIT
// What a compression saved, or did not.
#pragma once

#include <cmath>
#include <string>

#include "common/table.hpp"

namespace examples {

/// Bytes: of the compressed weights, of the same weights in the checkpoint's own types, of the file that was
/// written, and of the files that were read.
struct Sizes {
  double weights, dense, file, source;
};

/// A line.
inline std::string size_report(const Sizes& sizes) {
  const auto bytes = [](double count) { return with_commas(std::llround(count)); };
  return format("%s bytes of weights instead of %s: %.2f %% kept; %s bytes in the file instead of %s\n",
                bytes(sizes.weights).c_str(), bytes(sizes.dense).c_str(),
                sizes.dense > 0 ? 100 * sizes.weights / sizes.dense : 100, bytes(sizes.file).c_str(),
                bytes(sizes.source).c_str());
}

/// Lines, where the result is larger than what it was made from; empty otherwise.
inline std::string size_warning(const Sizes& sizes) {
  const auto larger = [](double result, double source) {
    return format("%s bytes instead of %s, %.1f %% more", with_commas(std::llround(result)).c_str(),
                  with_commas(std::llround(source)).c_str(), 100 * (result / source - 1));
  };
  std::string text;
  if (sizes.file > sizes.source)
    text +=
        "WARNING: the compressed file is LARGER than the checkpoint: " + larger(sizes.file, sizes.source) +
        "\n";
  if (sizes.weights > sizes.dense)
    text += "WARNING: the compressed weights are LARGER than the original ones: " +
            larger(sizes.weights, sizes.dense) + "\n";
  if (!text.empty()) text += "WARNING: remove more (--ratio), or keep the original\n";
  return text;
}

}  // namespace examples
