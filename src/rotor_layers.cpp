// SPDX-License-Identifier: MIT
#include "rotorlin/layers/rotor_encoder_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"

namespace rotorlin {
template class RotorEncoderLinear<float>;
template class RotorEncoderLinear<double>;
template class RotorLinear<float>;
template class RotorLinear<double>;
template class RotorNetwork<float>;
template class RotorNetwork<double>;
}  // namespace rotorlin
