// SPDX-License-Identifier: MIT
#include "rotorlin/io/detail/json_strings_text.hpp"
#include "rotorlin/io/detail/safetensors_header.hpp"
#include "rotorlin/io/instances.hpp"

namespace rotorlin::detail {
ROTORLIN_INSTANTIATE_IO()
}

namespace rotorlin {
ROTORLIN_INSTANTIATE_SAFETENSORS()
}
