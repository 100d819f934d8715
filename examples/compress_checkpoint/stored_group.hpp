// SPDX-License-Identifier: MIT
// In which type the values of a compressed group are stored: in 16 bits where its weights came in 16 bits.
#pragma once

#include <cstddef>
#include <vector>

#include "checkpoint.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/io/dtype.hpp"

namespace examples {

/// F16 or BF16 where the weights of all members came so, F32 otherwise.
rotorlin::DType dtype_for(const std::vector<Slot>& slots, const std::vector<std::size_t>& members);

/// A ratio that counts from 16-bit weights, bit masks included, as one that counts from 32-bit weights: a
/// mask weighs twice as much against values of half the size. `shared` features have the atoms, `own` has all
/// layers' others.
double ratio_from_floats(double ratio, rotorlin::Index shared, rotorlin::Index own, double ks_ratio);

}  // namespace examples
