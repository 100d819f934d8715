// SPDX-License-Identifier: MIT
// In which type the values of a compressed group are stored: in 16 bits where its weights came in 16 bits.
#pragma once

#include <cstddef>
#include <vector>

#include "checkpoint.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/io/safetensors.hpp"

namespace examples {

/// F16 or BF16 where the weights of all members came so, F32 otherwise.
rotorlin::DType dtype_for(const std::vector<Slot>& slots, const std::vector<std::size_t>& members);

/// A ratio that counts from 16-bit weights, bit masks included, as one that counts from 32-bit weights: a
/// mask weighs twice as much against values of half the size. `shared` features have the atoms, `own` has all
/// layers' others.
double ratio_from_floats(double ratio, Index shared, Index own, double ks_ratio);

/// Every atom, coefficient and value rounded to a type, biases as they are. F16 and BF16; infinite where a
/// value is beyond the range.
std::vector<rotorlin::SharedDictionaryLinear<float>> rounded(
    const std::vector<rotorlin::SharedDictionaryLinear<float>>& layers, rotorlin::DType dtype);

/// Adds layers whose values have the precision of `dtype` to a file, stored in it. Biases are F32.
void write_group(rotorlin::SafetensorsWriter& writer,
                 const std::vector<rotorlin::NamedSharedLayer<float>>& layers, rotorlin::DType dtype);

}  // namespace examples
