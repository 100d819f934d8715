// SPDX-License-Identifier: MIT
// A sum of y = R (g * S x): rotors turn the input, gains scale it feature by feature, rotors turn it back.
// With arbitrary rotations in the place of both it would be a singular value decomposition.
#pragma once

#include <vector>

#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/rotor_linear.hpp"

namespace examples {

/// Parameters: of each term the rotors S, R (no bias) and the gains between (out).
template <class S>
class GainedRotors : public rotorlin::LayerBase<GainedRotors<S>, S> {
  using Base = rotorlin::LayerBase<GainedRotors, S>;
  using Index = rotorlin::Index;
  using Rotors = rotorlin::RotorLinear<S>;
  using Matrix = rotorlin::Matrix<S>;

 public:
  static constexpr const char* type_name = "GainedRotors";
  struct Workspace {
    std::vector<Rotors> rotors;  // with the parameters of the last call
    typename Rotors::Workspace scratch;
    Matrix turned, gained, y, grad_gained, grad_turned, grad_x;
  };

  GainedRotors(Index in, Index out, Index terms, std::uint64_t seed = 0)
      : Base(in, out, terms * weights(in, out), false), terms_(terms) {
    rotorlin::Random random(seed);
    for (Index t = 0; t < terms; ++t) {
      for (Index k = 0; k < 2; ++k) {
        const Rotors layer(k == 0 ? in : out, out, options(static_cast<std::uint64_t>(2 * t + k) + seed));
        auto own = this->parameters().segment(offset(t, k), layer.num_parameters());
        own = layer.parameters();
        own.head(layer.alpha_offset()) *= S(0.3);
        own.tail(own.size() - layer.alpha_offset()).setOnes();
      }
      random.fill_uniform(this->parameters().segment(offset(t, 2), out), -0.1, 0.1);
    }
  }

  using Base::forward;
  void forward(const rotorlin::ConstMatrixRef<S>& x, rotorlin::MatrixRef<S> y, Workspace& w) const {
    rotorlin::detail::check_forward(*this, x, y);
    prepare(w);
    y.setZero();
    for (Index t = 0; t < terms_; ++t) {
      turn(x, t, w);
      w.y.resize(y.rows(), y.cols());
      rotors(w, t, 1).forward(w.gained, w.y, w.scratch);
      y += w.y;
    }
  }
  void backward(const rotorlin::ConstMatrixRef<S>& x, const rotorlin::ConstMatrixRef<S>& grad_y,
                rotorlin::MatrixRef<S> grad_x, Workspace& w) {
    rotorlin::detail::check_backward(*this, x, grad_y, grad_x);
    prepare(w);
    grad_x.setZero();
    w.grad_gained.resize(grad_y.rows(), grad_y.cols());
    w.grad_x.resize(x.rows(), x.cols());
    for (Index t = 0; t < terms_; ++t) {
      turn(x, t, w);
      step_back(w, t, 1, w.gained, grad_y, w.grad_gained);
      this->gradients().segment(offset(t, 2), this->out_features()) +=
          w.grad_gained.cwiseProduct(w.turned).rowwise().sum();
      w.grad_turned = gains(t).asDiagonal() * w.grad_gained;
      step_back(w, t, 0, x, w.grad_turned, w.grad_x);
      grad_x += w.grad_x;
    }
  }
  Matrix to_dense() const {
    return this->forward(Matrix::Identity(this->in_features(), this->in_features()));
  }

 private:
  static rotorlin::RotorLinearOptions options(std::uint64_t seed) { return {.bias = false, .seed = seed}; }
  static Index weights(Index in, Index out) {
    return Rotors(in, out, options(0)).num_parameters() + Rotors(out, out, options(0)).num_parameters() + out;
  }
  /// Of S (0), R (1), the gains (2) of a term.
  Index offset(Index term, Index part) const {
    const Index in = this->in_features(), out = this->out_features();
    Index result = term * weights(in, out);
    if (part > 0) result += Rotors(in, out, options(0)).num_parameters();
    if (part > 1) result += Rotors(out, out, options(0)).num_parameters();
    return result;
  }
  auto gains(Index t) const { return this->parameters().segment(offset(t, 2), this->out_features()); }
  Rotors& rotors(Workspace& w, Index t, Index k) const {
    return w.rotors[static_cast<std::size_t>(2 * t + k)];
  }

  void prepare(Workspace& w) const {
    while (static_cast<Index>(w.rotors.size()) < 2 * terms_)
      w.rotors.emplace_back(w.rotors.size() % 2 == 0 ? this->in_features() : this->out_features(),
                            this->out_features(), options(0));
    for (Index t = 0; t < terms_; ++t) {
      for (Index k = 0; k < 2; ++k) {
        Rotors& layer = rotors(w, t, k);
        layer.parameters() = this->parameters().segment(offset(t, k), layer.num_parameters());
      }
    }
  }
  void turn(const rotorlin::ConstMatrixRef<S>& x, Index t, Workspace& w) const {
    w.turned.resize(this->out_features(), x.cols());
    rotors(w, t, 0).forward(x, w.turned, w.scratch);
    w.gained = gains(t).asDiagonal() * w.turned;
  }
  void step_back(Workspace& w, Index t, Index k, const rotorlin::ConstMatrixRef<S>& x,
                 const rotorlin::ConstMatrixRef<S>& grad_y, Matrix& grad_x) {
    Rotors& layer = rotors(w, t, k);
    layer.zero_gradients();
    layer.backward(x, grad_y, grad_x, w.scratch);
    this->gradients().segment(offset(t, k), layer.num_parameters()) += layer.gradients();
  }

  Index terms_;
};

}  // namespace examples
