// SPDX-License-Identifier: MIT
#include "rotorlin/files/instances.hpp"

namespace rotorlin {
template class RotorLinear<float>;
template class RotorLinear<double>;
#define ROTORLIN_DEFINE(L) ROTORLIN_INSTANTIATE_FILES(, L)
ROTORLIN_FOR_LAYERS(ROTORLIN_DEFINE)
}  // namespace rotorlin
