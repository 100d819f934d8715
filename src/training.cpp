// SPDX-License-Identifier: MIT
#include "rotorlin/training/instances.hpp"

namespace rotorlin {
#define ROTORLIN_DEFINE(L) ROTORLIN_INSTANTIATE_FIT(, L)
ROTORLIN_FOR_LAYERS(ROTORLIN_DEFINE)
}  // namespace rotorlin
