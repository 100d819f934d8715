// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/detail/compression_run.hpp"
#include "rotorlin/geopair/instances.hpp"

namespace rotorlin {
ROTORLIN_INSTANTIATE_GEOPAIR()
}
