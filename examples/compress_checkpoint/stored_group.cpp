// SPDX-License-Identifier: MIT
#include "stored_group.hpp"

#include <algorithm>

#include "rotorlin/geopair/accounting.hpp"

namespace examples {

using namespace rotorlin;

DType dtype_for(const std::vector<Slot>& slots, const std::vector<std::size_t>& members) {
  const DType first = slots.at(members.at(0)).dtype;
  const bool alike =
      std::all_of(members.begin(), members.end(), [&](std::size_t i) { return slots.at(i).dtype == first; });
  return alike && (first == DType::f16 || first == DType::bf16) ? first : DType(DType::f32);
}

double ratio_from_floats(double ratio, Index shared, Index own, double ks_ratio) {
  const DictionarySize size = sparse_size(shared, own, ratio, ks_ratio, 16);
  if (ratio == 0 || size.rank == 0) return ratio;
  const auto d = static_cast<double>(shared), n = static_cast<double>(own),
             r = static_cast<double>(size.rank), k = static_cast<double>(size.nonzeros);
  return std::max(ratio, 1 - (r * (d + n / 32) + k * n) / (d * n) - 1e-9);
}

}  // namespace examples
