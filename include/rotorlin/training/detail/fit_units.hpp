// SPDX-License-Identifier: MIT
/// \file
/// The units in which a fit measures: what makes its steps independent of the scales of inputs and outputs.
///
/// Let u_x and u_y be the root mean squares of the inputs' and outputs' entries. The loss is measured in
/// u_y^2, and Adam steps on p / u for every parameter p, with a unit u of its own: u_y for a bias, u_y / u_x
/// for the parameters in which a linear layer's matrix is linear, 1 for the rest (bivectors are angles). To
/// fit (s x, t y) is then the same as to fit (x, y), with the matrix times t / s and the bias times t.
#pragma once

#include <cmath>

#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/detail/layer_ref.hpp"
#include "rotorlin/layers/layer.hpp"

namespace rotorlin::detail {

/// |m|^2 in double precision, in units of unit^2.
template <class S>
double squared_norm(const ConstMatrixRef<S>& m, double unit = 1) {
  return (m.template cast<double>() / unit).squaredNorm();
}

/// Of the entries; neither overflows nor underflows.
template <class S>
double root_mean_square(const ConstMatrixRef<S>& m) {
  const auto largest = static_cast<double>(m.cwiseAbs().maxCoeff());
  if (!(largest > 0) || !is_finite(largest)) return largest;
  return largest * std::sqrt(squared_norm<S>(m, largest) / static_cast<double>(m.size()));
}

/// layer(x).
template <class S>
Matrix<S> output_of(LayerRef<S>& layer, const ConstMatrixRef<S>& x) {
  Matrix<S> y(layer.out_features(), x.cols());
  layer.forward(x, y);
  return y;
}

/// A positive finite unit, or 1.
inline double unit_or_one(double unit) { return unit > 0 && is_finite(unit) ? unit : 1; }

/// The units of all parameters of a layer at its present parameters, for entries of root mean squares u_x and
/// u_y.
template <class S>
VectorX<S> parameter_units(LayerRef<S>& layer, const ConstMatrixRef<S>& x, double u_x, double u_y,
                           bool freeze_bias) {
  const auto valid = [](double unit) {
    const S value = static_cast<S>(unit);
    return value > 0 && is_finite(value) && is_finite(1 / value) ? value : S(1);
  };
  VectorX<S> units = VectorX<S>::Ones(layer.num_parameters());
  const ParameterRange linear = layer.linear(), bias = layer.bias();
  if (linear.size != 0) {
    double features = u_x;  // a layer that is not linear is asked how large its output is
    if (!layer.is_linear()) {
      const auto weights = layer.parameters().segment(linear.offset, linear.size);
      features =
          root_mean_square<S>(output_of<S>(layer, x)) / static_cast<double>(weights.cwiseAbs().maxCoeff());
    }
    units.segment(linear.offset, linear.size).setConstant(valid(u_y / unit_or_one(features)));
  }
  if (bias.size != 0 && !freeze_bias) {
    // A layer may scale its bias before it adds it.
    auto values = layer.parameters().segment(bias.offset, bias.size);
    const VectorX<S> present = values;
    values.setOnes();
    const Matrix<S> added = output_of<S>(layer, Matrix<S>::Zero(layer.in_features(), 1));
    values = present;
    for (Index i = 0; i < bias.size; ++i) {
      units[bias.offset + i] = valid(u_y / unit_or_one(std::abs(static_cast<double>(added(i, 0)))));
    }
  }
  return units;
}

/// The factor c and the bias b with the least sum |c phi(x) + b - y|^2, phi the layer without its bias;
/// without a bias to move b = 0. Sums in double precision, over as many calls of `add` as there are.
class ScaleFit {
 public:
  ScaleFit(Index features, bool centred)
      : centred_(centred), sum_phi_(VectorX<double>::Zero(features)), sum_y_(sum_phi_) {}

  void add(const Matrix<double>& phi, const Matrix<double>& y) {
    count_ += static_cast<double>(phi.cols());
    phi_phi_ += phi.squaredNorm();
    phi_y_ += phi.cwiseProduct(y).sum();
    if (!centred_) return;
    sum_phi_ += phi.rowwise().sum();
    sum_y_ += y.rowwise().sum();
  }

  /// 1 where every phi is the same.
  double factor() const {
    const double variance = phi_phi_ - sum_phi_.squaredNorm() / count_;
    if (!(variance > 1e-12 * phi_phi_)) return 1;
    return (phi_y_ - sum_phi_.dot(sum_y_) / count_) / variance;
  }
  VectorX<double> mean_y() const { return sum_y_ / count_; }

 private:
  bool centred_;
  VectorX<double> sum_phi_, sum_y_;
  double count_ = 0, phi_phi_ = 0, phi_y_ = 0;
};

}  // namespace rotorlin::detail
