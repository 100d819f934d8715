// SPDX-License-Identifier: MIT
/// \file
/// Everything: the algebra, its exponential, the layers made of rotors, their training and their files.
#pragma once

#include "rotorlin/algebra/blades.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
