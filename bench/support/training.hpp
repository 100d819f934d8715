// SPDX-License-Identifier: MIT
/// \file
/// Training steps: forward, gradient of 0.5 |y - target|^2, backward (dL/dx too), Adam.
#pragma once

#include <cmath>

#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/training/adam.hpp"
#include "support/dense.hpp"
#include "support/layers.hpp"

namespace bench {

/// The network that stands in for a query projection of 2048 to 2048: depth 2, width 3, double rotors.
template <class S>
rotorlin::RotorNetwork<S> paper_network() {
  return {2048, 2048};
}

/// Any layer of the library.
template <class L>
class LayerTraining {
 public:
  using S = typename L::Scalar;
  explicit LayerTraining(L& layer) : layer_(layer) {}

  void step(const rotorlin::Matrix<S>& x, const rotorlin::Matrix<S>& target) {
    y.resize(target.rows(), x.cols());
    grad_x.resize(x.rows(), x.cols());
    layer_.forward(x, y, workspace_);
    y -= target;
    layer_.zero_gradients();
    layer_.backward(x, y, grad_x, workspace_);
    adam_.step(layer_.parameters(), layer_.gradients(), 1e-3);
  }

  rotorlin::Matrix<S> y;  ///< after a step: dL/dy
  rotorlin::Matrix<S> grad_x;

 private:
  L& layer_;
  typename L::Workspace workspace_;
  rotorlin::Adam<S> adam_;
};

/// A dense layer without bias: W, dL/dW and Adam's moments, as fast as the library in question makes it.
template <class S>
class DenseTraining {
 public:
  DenseTraining(Library library, Index size) : library_(library), size_(size), grad_x_(size, 0) {
    for (rotorlin::Matrix<S>* m : {&weight_, &gradient_, &mean_, &square_}) m->setZero(size, size);
    rotorlin::Random(3).fill_uniform(weight_, -0.03, 0.03);
  }

  void step(const rotorlin::Matrix<S>& x, const rotorlin::Matrix<S>& target) {
    y_.resize(size_, x.cols());
    grad_x_.resize(size_, x.cols());
    dense_forward(library_, false, weight_.data(), x, y_);
    y_ -= target;
#if defined(ROTORLIN_BENCH_OPENBLAS)
    if (library_ == Library::openblas) {
      gemm(CblasTrans, CblasNoTrans, size_, x.cols(), size_, weight_.data(), size_, y_.data(), size_,
           grad_x_.data(), size_);
      gemm(CblasNoTrans, CblasTrans, size_, size_, x.cols(), y_.data(), size_, x.data(), size_,
           gradient_.data(), size_);
      return adam();
    }
#endif
    grad_x_.noalias() = weight_.transpose() * y_;
    gradient_.noalias() = y_ * x.transpose();
    adam();
  }

 private:
  /// In blocks that stay in the first cache, with Eigen's packets.
  void adam() {
    constexpr Index block = 1024;
    constexpr S beta1 = S(0.9), beta2 = S(0.999), rate = S(1e-3), epsilon = S(1e-8);
    ++steps_;
    const S scale1 = rate / (1 - std::pow(beta1, S(steps_)));
    const S scale2 = 1 / (1 - std::pow(beta2, S(steps_)));
    const auto part = [](rotorlin::Matrix<S>& matrix, Index first) {
      return Eigen::Map<Eigen::Array<S, Eigen::Dynamic, 1>>(matrix.data() + first, block);
    };
    for (Index first = 0; first < weight_.size(); first += block) {
      const auto g = part(gradient_, first);
      auto m = part(mean_, first);
      auto v = part(square_, first);
      auto w = part(weight_, first);
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g.square();
      w -= scale1 * m / ((scale2 * v).sqrt() + epsilon);
    }
  }

  Library library_;
  Index size_;
  int steps_ = 0;
  rotorlin::Matrix<S> weight_, gradient_, mean_, square_, y_, grad_x_;
};

}  // namespace bench
