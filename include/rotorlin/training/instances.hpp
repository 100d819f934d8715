// SPDX-License-Identifier: MIT
/// \file
/// The fits that rotorlin::compiled holds.
#pragma once

#include "rotorlin/layers/instances.hpp"
#include "rotorlin/training/fit.hpp"

#define ROTORLIN_INSTANTIATE_FIT(KEYWORD, L)                                                                \
  KEYWORD template FitResult fit<L>(L&, const ConstMatrixRef<L::Scalar>&, const ConstMatrixRef<L::Scalar>&, \
                                    const FitOptions&);                                                     \
  KEYWORD template FitResult fit<L>(L&, const ConstMatrixRef<L::Scalar>&, const ConstMatrixRef<L::Scalar>&, \
                                    const ConstMatrixRef<L::Scalar>&, const ConstMatrixRef<L::Scalar>&,     \
                                    const FitOptions&);

#if defined(ROTORLIN_COMPILED)
namespace rotorlin {
#define ROTORLIN_EXTERN_FIT(L) ROTORLIN_INSTANTIATE_FIT(extern, L)
ROTORLIN_FOR_LAYERS(ROTORLIN_EXTERN_FIT)
#undef ROTORLIN_EXTERN_FIT
}  // namespace rotorlin
#endif
