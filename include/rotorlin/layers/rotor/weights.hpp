// SPDX-License-Identifier: MIT
/// \file
/// What a rotor layer computes with, made from its parameters: the planes of every rotor and the weights of a
/// kernel for every rotor pair, or the whole layer as a matrix.
#pragma once

#include <cmath>
#include <cstddef>
#include <tuple>
#include <vector>

#include "rotorlin/algebra/bivector.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/exponential/invariant_decomposition.hpp"
#include "rotorlin/layers/rotor/chunking.hpp"
#include "rotorlin/sandwich/kernel.hpp"

namespace rotorlin::detail {

/// The weights of kernels K for all rotor pairs; those of one kernel are in use.
template <class List>
struct KernelWeights;
template <class... K>
struct KernelWeights<KernelList<K...>> {
  std::tuple<std::vector<typename K::Weights>...> pairs;
  template <class T>
  std::vector<typename T::Weights>& of() {
    return std::get<std::vector<typename T::Weights>>(pairs);
  }
  template <class T>
  const std::vector<typename T::Weights>& of() const {
    return std::get<std::vector<typename T::Weights>>(pairs);
  }
};

/// The rotors are made in double precision also for a float layer: it costs little and is not repeated.
template <class S>
class RotorWeights {
 public:
  using Decomposition = InvariantDecomposition<Wide<S>>;

  /// For the rotor parameters of a layer. With `adjoint`, ready for gradients too. \throws std::domain_error
  /// where a bivector is not finite.
  void make(const RotorChunking<S>& shape, const S* parameters, bool adjoint) {
    const auto pairs = static_cast<std::size_t>(shape.pairs());
    const bool single = shape.single_rotor;
    const std::size_t kept = adjoint ? pairs : 1;  // only gradients ask for planes
    left_.resize(kept);
    if (!single) right_.resize(kept);
    even_left_.resize(shape.chunk / 2);
    even_right_.resize(shape.chunk / 2);
    if (bivector_.dimension() != shape.n) bivector_ = Bivector<Wide<S>, Dynamic>(shape.n);
    const bool dense_layer = shape.kernel == Kernel::dense;
    const Kernel kernel = dense_layer ? Kernel::parity_blocks : shape.kernel;
    const S* alpha = parameters + shape.alpha_offset();
    const bool two = !dense_layer && shape.sample_kernel != kernel;
    resize(kernel, pairs);
    if (two) resize(shape.sample_kernel, pairs);
    for (std::size_t p = 0; p < pairs; ++p) {
      const Index offset = static_cast<Index>(p) * shape.bivector_size();
      Decomposition& left = left_[adjoint ? p : 0];
      decompose(parameters + offset, left, even_left_);
      if (!single)
        decompose(parameters + shape.right_offset() + offset, right_[adjoint ? p : 0], even_right_);
      if (needs_single_rotor(kernel)) rotation_of(left);
      const RotorPair<Wide<S>> pair{shape.n, even_left_.data(), (single ? even_left_ : even_right_).data(),
                                    rotation_.data()};
      prepare(kernel, pair, alpha[p], adjoint, p);
      if (two) prepare(shape.sample_kernel, pair, alpha[p], false, p);
    }
    if (dense_layer) make_dense(shape, alpha);
  }

  /// The planes of rotor pair p, made with `adjoint`; a single rotor has only left ones.
  const Decomposition& left(Index p) const { return left_[static_cast<std::size_t>(p)]; }
  const Decomposition& right(Index p) const { return right_[static_cast<std::size_t>(p)]; }

  /// Kernel K's weights of all rotor pairs.
  template <class K>
  const std::vector<typename K::Weights>& of() const {
    return kernel_.template of<K>();
  }

  /// The layer's matrix, out x in, where its kernel is `dense`.
  const Matrix<S>& dense() const { return dense_; }

 private:
  void resize(Kernel kernel, std::size_t pairs) {
    visit_kernel<S>(kernel, [&]<class K>(K) { kernel_.template of<K>().resize(pairs); });
  }
  void prepare(Kernel kernel, const RotorPair<Wide<S>>& pair, S alpha, bool adjoint, std::size_t p) {
    visit_kernel<S>(kernel, [&]<class K>(K) {
      K::prepare(pair, static_cast<Wide<S>>(alpha), adjoint, kernel_.template of<K>()[p], memory_);
    });
  }
  void decompose(const S* coefficients, Decomposition& d, VectorX<Wide<S>>& even) {
    for (Index i = 0; i < bivector_.size(); ++i) bivector_[i] = static_cast<Wide<S>>(coefficients[i]);
    d.compute(bivector_);
    d.rotor(even);
  }

  /// The rotation of vectors v -> r v r~: every plane turned by twice its angle.
  void rotation_of(const Decomposition& d) {
    const Index n = d.dimension();
    const auto& basis = d.basis();
    rotation_.setZero(n, n);
    for (Index k = 0; k < n; ++k) {
      const bool in_plane = k < 2 * d.num_planes();
      const Wide<S> angle = in_plane ? 2 * d.angles()[k / 2] : Wide<S>(0);
      const Wide<S> c = std::cos(angle), s = k % 2 == 0 ? -std::sin(angle) : std::sin(angle);
      const Index other = in_plane ? k ^ 1 : k;
      for (Index j = 0; j < n; ++j) {
        for (Index i = 0; i < n; ++i) {
          const Wide<S> turned = in_plane ? c * basis(i, k) + s * basis(i, other) : basis(i, k);
          rotation_(i, j) += turned * basis(j, k);
        }
      }
    }
  }

  /// The whole layer as a matrix, from the parity blocks of its pairs.
  void make_dense(const RotorChunking<S>& shape, const S* alpha) {
    const auto& weights = of<ParityKernel<S>>();
    dense_.setZero(shape.out, shape.in);
    shape.for_each_pair([&](Index i, Index o, Index p) {
      const Matrix<S>& blocks = weights[static_cast<std::size_t>(p)].blocks;
      shape.for_each_entry(i, o, [&](Index row, Index column, Index out, Index in) {
        dense_(out, in) += alpha[p] * shape.scale[out] * blocks(row, column);
      });
    });
  }

  std::vector<Decomposition> left_, right_;
  KernelWeights<SandwichKernels<S>> kernel_;
  Matrix<S> dense_;
  // scratch
  Bivector<Wide<S>, Dynamic> bivector_;
  VectorX<Wide<S>> even_left_, even_right_;
  Matrix<Wide<S>> rotation_;
  PackBuffer<Wide<S>> memory_;
};

}  // namespace rotorlin::detail
