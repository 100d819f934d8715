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

#include <cmath>
#include <limits>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/training/detail/fit_loop.hpp"
#include "rotorlin/training/detail/gram_samples.hpp"
#include "rotorlin/training/fit_options.hpp"

namespace rotorlin {

namespace detail {

template <Layer L>
void check_samples(const L& layer, const char* name, const Samples<typename L::Scalar>& set) {
  if (set.size() == 0 || set.x.rows() != layer.in_features() || set.y.rows() != layer.out_features() ||
      set.y.cols() != set.size()) {
    throw_invalid("fit: ", name, " samples are ", shape(set.x), " and ", shape(set.y), ", expected ",
                  layer.in_features(), " x N and ", layer.out_features(), " x N, N >= 1, for this ",
                  L::type_name);
  }
  if (!all_finite(set.x) || !all_finite(set.y))
    throw_domain("fit: ", name, " samples have NaN or infinite entries");
}

/// Keeps the bias of a layer at zero, and puts it back at the end of its life.
template <LinearLayer L>
class BiasAtRest {
 public:
  explicit BiasAtRest(L& layer) : layer_(layer), bias_(layer.bias()) { layer.bias().setZero(); }
  BiasAtRest(const BiasAtRest&) = delete;
  BiasAtRest& operator=(const BiasAtRest&) = delete;
  ~BiasAtRest() { layer_.bias() = bias_; }

 private:
  L& layer_;
  VectorX<typename L::Scalar> bias_;
};

template <LinearLayer L>
FitResult fit_dense(L& layer, GramSamples<typename L::Scalar> samples, FitOptions options) {
  check_options(options);
  if constexpr (requires { &L::solve_linear; }) options.batch_size = samples.x.cols();
  if (options.shuffle && options.batch_size < samples.x.cols()) samples.mix(options.seed);
  const Samples<typename L::Scalar> train{samples.x, samples.y};
  check_samples(layer, "training", train);
  const BiasAtRest<L> rest(layer);
  return Fit<L>(layer, train, nullptr, {.relative = true, .freeze_bias = true, .who = "fit_dense"}, options)
      .run();
}

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
  const detail::Samples<typename L::Scalar> train{x, y};
  detail::check_options(options);
  detail::check_samples(layer, "training", train);
  return detail::Fit<L>(layer, train, nullptr, {}, options).run();
}

/// The same, with samples apart that tell which parameters are the best and when to stop.
template <Layer L>
FitResult fit(L& layer, const ConstMatrixRef<typename L::Scalar>& x,
              const ConstMatrixRef<typename L::Scalar>& y,
              const ConstMatrixRef<typename L::Scalar>& x_validation,
              const ConstMatrixRef<typename L::Scalar>& y_validation, const FitOptions& options = {}) {
  const detail::Samples<typename L::Scalar> train{x, y}, validation{x_validation, y_validation};
  detail::check_options(options);
  detail::check_samples(layer, "training", train);
  detail::check_samples(layer, "validation", validation);
  return detail::Fit<L>(layer, train, &validation, {}, options).run();
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
  const Matrix<double> w = weight.template cast<double>(), g = gram.template cast<double>();
  detail::check_options(options);
  detail::check_fit(layer, "fit_dense", w, g);
  return detail::fit_dense(layer, detail::GramSamples<S>::from_gram(w, g, "fit_dense", epsilon), options);
}

/// A Gram matrix given as F (in x any number of columns), G = F F^T up to a factor that does not matter: the
/// inputs themselves, or what is left of them.
struct GramFactor {
  Matrix<double> columns;
};

template <LinearLayer L, class A>
FitResult fit_dense(L& layer, const Eigen::MatrixBase<A>& weight, const GramFactor& factor,
                    const FitOptions& options = {}) {
  const Matrix<double> w = weight.template cast<double>();
  const Matrix<double>& f = factor.columns;
  if (w.rows() != layer.out_features() || w.cols() != layer.in_features() || f.rows() != w.cols() ||
      f.cols() == 0) {
    detail::throw_invalid("fit_dense: weight is ", detail::shape(w), ", the Gram matrix's factor is ",
                          detail::shape(f), "; expected ", layer.out_features(), " x ", layer.in_features(),
                          " and ", layer.in_features(), " x N, N >= 1, for this ", L::type_name);
  }
  if (!detail::all_finite(w) || !detail::all_finite(f))
    detail::throw_domain("fit_dense: the weight or the Gram matrix's factor has NaN or infinite entries");
  if (f.isZero(0)) detail::throw_invalid("fit_dense: the Gram matrix is zero, every map fits equally well");
  if (f.cols() > 2 * f.rows()) {  // fewer columns say the same
    const Matrix<double> unit = f / f.cwiseAbs().maxCoeff();
    return fit_dense(layer, w, (unit * unit.transpose()).eval(), options);
  }
  detail::check_options(options);
  return detail::fit_dense(layer, detail::GramSamples<typename L::Scalar>::from_factor(w, f), options);
}

}  // namespace rotorlin

#if defined(ROTORLIN_COMPILED)
#include "rotorlin/training/instances.hpp"
#endif
