// SPDX-License-Identifier: MIT
/// \file
/// The layers that rotorlin::compiled holds, in float and double: their files (files/instances.hpp) and fits
/// (training/instances.hpp) follow this list.
#pragma once

#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"

/// DO(layer) for every layer that has a description.
#define ROTORLIN_FOR_LAYERS(DO)  \
  DO(RotorLinear<float>)         \
  DO(RotorLinear<double>)        \
  DO(RotorNetwork<float>)        \
  DO(RotorNetwork<double>)       \
  DO(DenseLinear<float>)         \
  DO(DenseLinear<double>)        \
  DO(LowRankLinear<float>)       \
  DO(LowRankLinear<double>)      \
  DO(BlockHadamardLinear<float>) \
  DO(BlockHadamardLinear<double>)
