// SPDX-License-Identifier: MIT
/// \file
/// Moved: this is rotorlin/files/registry.hpp. The old name stays for one version.
#pragma once

#include "rotorlin/files/registry.hpp"  // IWYU pragma: export
