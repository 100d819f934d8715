// SPDX-License-Identifier: MIT
#include "rotorlin/training/instances.hpp"

namespace rotorlin {
template class Adam<float>;
template class Adam<double>;
namespace detail {
ROTORLIN_INSTANTIATE_FIT(, float)
ROTORLIN_INSTANTIATE_FIT(, double)
}  // namespace detail
}  // namespace rotorlin
