// SPDX-License-Identifier: MIT
/// \file
/// Definitions of fit.hpp: the fits of a layer of any type.
#pragma once

#include <limits>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/detail/layer_ref.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/training/detail/fit_loop.hpp"
#include "rotorlin/training/detail/gram_samples.hpp"
#include "rotorlin/training/detail/samples.hpp"
#include "rotorlin/training/fit.hpp"
#include "rotorlin/training/fit_options.hpp"

namespace rotorlin::detail {

template <class S>
void check_samples(const LayerRef<S>& layer, const char* name, const Samples<S>& set) {
  if (set.size() == 0 || set.x.rows() != layer.in_features() || set.y.rows() != layer.out_features() ||
      set.y.cols() != set.size()) {
    throw_invalid("fit: ", name, " samples are ", shape(set.x), " and ", shape(set.y), ", expected ",
                  layer.in_features(), " x N and ", layer.out_features(), " x N, N >= 1, for this ",
                  layer.type_name());
  }
  if (!all_finite(set.x) || !all_finite(set.y))
    throw_domain("fit: ", name, " samples have NaN or infinite entries");
}

template <class S>
FitResult fit(LayerRef<S>& layer, const Samples<S>& train, const Samples<S>* validation,
              const FitOptions& options) {
  check_options(options);
  check_samples(layer, "training", train);
  if (validation) check_samples(layer, "validation", *validation);
  return Fit<S>(layer, train, validation, {}, options).run();
}

/// Keeps the bias of a layer at zero, and puts it back at the end of its life.
template <class S>
class BiasAtRest {
 public:
  explicit BiasAtRest(LayerRef<S>& layer) : layer_(layer), bias_(bias()) { bias().setZero(); }
  BiasAtRest(const BiasAtRest&) = delete;
  BiasAtRest& operator=(const BiasAtRest&) = delete;
  ~BiasAtRest() { bias() = bias_; }

 private:
  auto bias() const { return layer_.parameters().segment(layer_.bias().offset, layer_.bias().size); }

  LayerRef<S>& layer_;
  VectorX<S> bias_;
};

template <class S>
FitResult fit_dense(LayerRef<S>& layer, bool solves_linear, GramSamples<S> samples, FitOptions options) {
  check_options(options);
  if (solves_linear) options.batch_size = samples.x.cols();
  if (options.shuffle && options.batch_size < samples.x.cols()) samples.mix(options.seed);
  const Samples<S> train{samples.x, samples.y};
  check_samples(layer, "training", train);
  const BiasAtRest<S> rest(layer);
  return Fit<S>(layer, train, nullptr, {.relative = true, .freeze_bias = true, .who = "fit_dense"}, options)
      .run();
}
template <class S>
FitResult fit_dense(LayerRef<S>& layer, bool solves_linear, const Matrix<double>& weight,
                    const Matrix<double>& gram, double epsilon, const FitOptions& options) {
  check_options(options);
  check_fit(layer, "fit_dense", weight, gram);
  return fit_dense(layer, solves_linear, GramSamples<S>::from_gram(weight, gram, "fit_dense", epsilon),
                   options);
}
template <class S>
FitResult fit_dense_to_factor(LayerRef<S>& layer, bool solves_linear, const Matrix<double>& weight,
                              const Matrix<double>& factor, const FitOptions& options) {
  if (weight.rows() != layer.out_features() || weight.cols() != layer.in_features() ||
      factor.rows() != weight.cols() || factor.cols() == 0) {
    throw_invalid("fit_dense: weight is ", shape(weight), ", the Gram matrix's factor is ", shape(factor),
                  "; expected ", layer.out_features(), " x ", layer.in_features(), " and ",
                  layer.in_features(), " x N, N >= 1, for this ", layer.type_name());
  }
  if (!all_finite(weight) || !all_finite(factor))
    throw_domain("fit_dense: the weight or the Gram matrix's factor has NaN or infinite entries");
  if (factor.isZero(0)) throw_invalid("fit_dense: the Gram matrix is zero, every map fits equally well");
  if (factor.cols() > 2 * factor.rows()) {  // fewer columns say the same
    const Matrix<double> unit = factor / factor.cwiseAbs().maxCoeff();
    const Matrix<double> gram = unit * unit.transpose();
    return fit_dense(layer, solves_linear, weight, gram, std::numeric_limits<double>::epsilon(), options);
  }
  check_options(options);
  return fit_dense(layer, solves_linear, GramSamples<S>::from_factor(weight, factor), options);
}

}  // namespace rotorlin::detail
