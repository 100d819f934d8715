// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/instances.hpp"

namespace rotorlin {
ROTORLIN_INSTANTIATE_GEOPAIR()
}
