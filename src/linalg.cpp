// SPDX-License-Identifier: MIT
#include "rotorlin/linalg/products.hpp"
#include "rotorlin/linalg/qr.hpp"
#include "rotorlin/linalg/symmetric_eigen.hpp"
#include "rotorlin/linalg/triangular.hpp"

namespace rotorlin::linalg {
ROTORLIN_INSTANTIATE_PRODUCTS(, float);
ROTORLIN_INSTANTIATE_PRODUCTS(, double);
ROTORLIN_INSTANTIATE_TRIANGULAR(, float);
ROTORLIN_INSTANTIATE_TRIANGULAR(, double);
ROTORLIN_INSTANTIATE_QR(, float);
ROTORLIN_INSTANTIATE_QR(, double);
ROTORLIN_INSTANTIATE_SYMMETRIC_EIGEN(, float);
ROTORLIN_INSTANTIATE_SYMMETRIC_EIGEN(, double);
}  // namespace rotorlin::linalg
