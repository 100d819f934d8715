// SPDX-License-Identifier: MIT
/// \file
/// Moved: this is rotorlin/files/import_pytorch.hpp. The old name stays for one version.
#pragma once

#include "rotorlin/files/import_pytorch.hpp"  // IWYU pragma: export
