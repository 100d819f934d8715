// SPDX-License-Identifier: MIT
/// \file
/// Names used throughout: Eigen's Index and Dynamic, and the shapes in which batches and parameters travel.
///
/// A batch is a column-major matrix, features x batch: one sample a column. It is the same memory as
/// PyTorch's contiguous (row-major) batch x features tensor. The order is part of every type here, so that a
/// program may compile with EIGEN_DEFAULT_TO_ROW_MAJOR; its own row-major matrices are copied where they go
/// in.
#pragma once

#include <Eigen/Core>
#include <cstddef>

#include "rotorlin/core/config.hpp"

namespace rotorlin {

using Eigen::Dynamic;
using Eigen::Index;

namespace detail {
/// The bound of an array: sizes are signed here, and bounds are not. Under -Wsign-conversion gcc asks for the
/// conversion to be spelled where the size is a template's.
constexpr std::size_t to_size(Index n) { return static_cast<std::size_t>(n); }

/// No layer has more features: enough for everything, and the next power of two, doubled, is still an Index.
inline constexpr Index max_features = Index{1} << (sizeof(Index) > 4 ? 40 : 28);
}  // namespace detail

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Dynamic, Dynamic, Eigen::ColMajor>;
template <class Scalar>
using VectorX = Eigen::Matrix<Scalar, Dynamic, 1, Eigen::ColMajor>;

template <class Scalar>
using MatrixRef = Eigen::Ref<Matrix<Scalar>>;
template <class Scalar>
using ConstMatrixRef = Eigen::Ref<const Matrix<Scalar>>;
template <class Scalar>
using VectorRef = Eigen::Ref<VectorX<Scalar>>;
template <class Scalar>
using ConstVectorRef = Eigen::Ref<const VectorX<Scalar>>;

}  // namespace rotorlin
