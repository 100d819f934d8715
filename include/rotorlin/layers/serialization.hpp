// SPDX-License-Identifier: MIT
/// \file
/// Moved: this is rotorlin/files/serialization.hpp. The old name stays for one version.
#pragma once

#include "rotorlin/files/serialization.hpp"  // IWYU pragma: export
