// SPDX-License-Identifier: MIT
/// \file
/// Fitting a layer to samples, or a linear layer to a matrix.
///
/// `fit` minimises the mean squared error of layer(X) against Y by Adam on mini-batches. `fit_dense`
/// minimises tr((W - M) G (W - M)^T) over the layer's matrix M, where G = E[x x^T] is the second moment of
/// the inputs: the expectation of |W x - M x|^2 without any sampling. With G = F F^T it is |W F - M F|_F^2,
/// and the columns of F stand for all samples (detail/gram_samples.hpp).
///
/// Neither depends on the units of its data (detail/fit_units.hpp). Both keep the best parameters that they
/// have seen, those at the start included (FitResult says what best means), and are the same in every run
/// with the same seed.
#pragma once

#include <limits>

#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/detail/layer_ref.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/training/adam.hpp"
#include "rotorlin/training/detail/samples.hpp"
#include "rotorlin/training/fit_options.hpp"

namespace rotorlin {

namespace detail {

/// The fits below, of a layer of any type: compiled once a scalar. `validation` may be null.
template <class S>
FitResult fit(LayerRef<S>& layer, const Samples<S>& train, const Samples<S>* validation,
              const FitOptions& options);
template <class S>
FitResult fit_dense(LayerRef<S>& layer, bool solves_linear, const Matrix<double>& weight,
                    const Matrix<double>& gram, double epsilon, const FitOptions& options);
template <class S>
FitResult fit_dense_to_factor(LayerRef<S>& layer, bool solves_linear, const Matrix<double>& weight,
                              const Matrix<double>& factor, const FitOptions& options);

template <Layer L>
constexpr bool solves_linear = requires {
  &L::solve_linear;
};

}  // namespace detail

/// Fits a layer to outputs Y (out x N) at inputs X (in x N); the loss is the mean of the squared entries of
/// layer(X) - Y. Keeps the parameters with the least loss; a fit that diverges stops there
/// (FitStop::diverged), so that no fit leaves a layer worse than it was, nor, unless `match_scale` is off,
/// worse than a layer of zeros. Gradients are zero afterwards.
///
/// std::invalid_argument on wrong shapes or options; std::domain_error when X, Y or the layer's parameters
/// have NaN or infinite entries, or when the loss overflows at the start.
template <Layer L>
FitResult fit(L& layer, const ConstMatrixRef<typename L::Scalar>& x,
              const ConstMatrixRef<typename L::Scalar>& y, const FitOptions& options = {}) {
  using S = typename L::Scalar;
  detail::LayerRefTo<L> ref(layer);
  return detail::fit<S>(ref, {x, y}, nullptr, options);
}

/// The same, with samples apart that tell which parameters are the best and when to stop.
template <Layer L>
FitResult fit(L& layer, const ConstMatrixRef<typename L::Scalar>& x,
              const ConstMatrixRef<typename L::Scalar>& y,
              const ConstMatrixRef<typename L::Scalar>& x_validation,
              const ConstMatrixRef<typename L::Scalar>& y_validation, const FitOptions& options = {}) {
  using S = typename L::Scalar;
  detail::LayerRefTo<L> ref(layer);
  const detail::Samples<S> validation{x_validation, y_validation};
  return detail::fit<S>(ref, {x, y}, &validation, options);
}

/// Fits a linear layer's matrix M to W (out x in) in the metric of a Gram matrix G (in x in, symmetric
/// positive semidefinite, of any rank and scale), both of any scalar. The loss is the squared relative error
/// tr((W - M) G (W - M)^T) / tr(W G W^T) (not divided where W F is zero), and `relative_error` its root:
/// never above 1 unless `match_scale` is off. A step sees `batch_size` columns of F, mixed so that each tells
/// of all inputs; an epoch is a pass over all of them, a single step where in <= batch_size. A diagonal G
/// costs nothing to factor, a positive definite one in^3 / 3 multiplications, one of low rank in rank^2.
///
/// The bias takes no part and stays as it is. For the best bias beside M give the covariance of the inputs as
/// G, and call `match_bias(layer, mean, W mean + bias)` afterwards.
///
/// Throws what `factor_gram` throws; std::domain_error when W is not finite, else as `fit`.
template <LinearLayer L, class A, class B>
FitResult fit_dense(L& layer, const Eigen::MatrixBase<A>& weight, const Eigen::MatrixBase<B>& gram,
                    const FitOptions& options = {}) {
  using S = typename L::Scalar;
  const auto epsilon = static_cast<double>(std::numeric_limits<typename B::Scalar>::epsilon());
  detail::LayerRefTo<L> ref(layer);
  return detail::fit_dense<S>(ref, detail::solves_linear<L>, weight.template cast<double>(),
                              gram.template cast<double>(), epsilon, options);
}

/// A Gram matrix given as F (in x any number of columns), G = F F^T up to a factor that does not matter: the
/// inputs themselves, or what is left of them.
struct GramFactor {
  Matrix<double> columns;
};

/// As above, with a factor of the Gram matrix in its place; in x any. \throws as above.
template <LinearLayer L, class A>
FitResult fit_dense(L& layer, const Eigen::MatrixBase<A>& weight, const GramFactor& factor,
                    const FitOptions& options = {}) {
  using S = typename L::Scalar;
  detail::LayerRefTo<L> ref(layer);
  return detail::fit_dense_to_factor<S>(ref, detail::solves_linear<L>, weight.template cast<double>(),
                                        factor.columns, options);
}

}  // namespace rotorlin

#if defined(ROTORLIN_COMPILED)
#include "rotorlin/training/instances.hpp"
#else
#include "rotorlin/training/detail/layer_fits.hpp"
#endif
