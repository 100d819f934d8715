// SPDX-License-Identifier: MIT
#include "rotorlin/training/adam.hpp"
#include "rotorlin/training/detail/layer_fits.hpp"
#include "rotorlin/training/instances.hpp"

namespace rotorlin {
template class Adam<float>;
template class Adam<double>;
namespace detail {
ROTORLIN_INSTANTIATE_FIT(, float)
ROTORLIN_INSTANTIATE_FIT(, double)
}  // namespace detail
}  // namespace rotorlin
