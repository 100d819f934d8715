// SPDX-License-Identifier: MIT
/// \file
/// The version, semantic: a change of the first number breaks programs, of the second adds, of the third mends. The
/// build, the packages and the change log are held against this header.
#pragma once

#define ROTORLIN_VERSION_MAJOR 1
#define ROTORLIN_VERSION_MINOR 0
#define ROTORLIN_VERSION_PATCH 0

/// For the preprocessor: 10203 is version 1.2.3.
#define ROTORLIN_VERSION (ROTORLIN_VERSION_MAJOR * 10000 + ROTORLIN_VERSION_MINOR * 100 + ROTORLIN_VERSION_PATCH)
#define ROTORLIN_VERSION_STRING "1.0.0"
