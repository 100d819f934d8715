// SPDX-License-Identifier: MIT
/// \file
/// The fits that rotorlin::compiled holds: of every layer, since a fit sees it through a LayerRef.
#pragma once

#include "rotorlin/training/fit.hpp"

#define ROTORLIN_INSTANTIATE_FIT(KEYWORD, S)                                                                \
  KEYWORD template FitResult fit<S>(LayerRef<S>&, const Samples<S>&, const Samples<S>*, const FitOptions&); \
  KEYWORD template FitResult fit_dense<S>(LayerRef<S>&, bool, const Matrix<double>&, const Matrix<double>&, \
                                          double, const FitOptions&);                                       \
  KEYWORD template FitResult fit_dense_to_factor<S>(LayerRef<S>&, bool, const Matrix<double>&,              \
                                                    const Matrix<double>&, const FitOptions&);

#if defined(ROTORLIN_COMPILED)
namespace rotorlin {
namespace detail {
ROTORLIN_INSTANTIATE_FIT(extern, float)
ROTORLIN_INSTANTIATE_FIT(extern, double)
}  // namespace detail
}  // namespace rotorlin
#endif
