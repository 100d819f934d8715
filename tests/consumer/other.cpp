// SPDX-License-Identifier: MIT
// Compiled without run-time type information (CMakeLists.txt).
#include "compress.hpp"

std::size_t compressed_elsewhere() { return compress_two_layers(); }
