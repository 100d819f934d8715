// SPDX-License-Identifier: MIT
/// \file
/// Moved: this is rotorlin/files/shared_dictionary_file.hpp. The old name stays for one version.
#pragma once

#include "rotorlin/files/shared_dictionary_file.hpp"  // IWYU pragma: export
