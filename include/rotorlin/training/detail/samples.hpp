// SPDX-License-Identifier: MIT
/// \file
/// What a layer is fitted to.
#pragma once

#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// Inputs (in x N) and outputs (out x N).
template <class S>
struct Samples {
  ConstMatrixRef<S> x, y;
  Index size() const { return x.cols(); }
};

}  // namespace rotorlin::detail
