// SPDX-License-Identifier: MIT
#include "rotorlin/files/instances.hpp"

namespace rotorlin::detail {
ROTORLIN_INSTANTIATE_FILES(, float)
ROTORLIN_INSTANTIATE_FILES(, double)
}  // namespace rotorlin::detail
