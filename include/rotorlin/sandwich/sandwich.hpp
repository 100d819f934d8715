// SPDX-License-Identifier: MIT
/// \file
/// The action of rotors on batches of multivectors, x -> r x s~, through the kernels that layers use.
#pragma once

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/overlap.hpp"
#include "rotorlin/core/parallel.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/sandwich/kernel.hpp"

namespace rotorlin {

/// One or two rotors of Cl(n), 1 <= n <= 14, made ready to act on many multivectors. `apply` is const and may
/// run on several threads at once, each with a workspace of its own.
template <class S>
class Sandwich {
  static constexpr int tile_lanes = detail::native_lanes<S>;
  using Spinor = detail::SpinorKernel<S>;
  using Shears = detail::ShearKernel<S>;
  using Parity = detail::ParityKernel<S>;

 public:
  /// Scratch memory of one call; a call that meets it again allocates nothing.
  class Workspace {
    friend class Sandwich;
    std::vector<detail::PackBuffer<S>> threads_;
  };

  /// x -> r x s~.
  /// \throws std::invalid_argument for rotors of different algebras, n = 0, or the kernels shears and dense.
  template <int N>
  Sandwich(const Rotor<S, N>& r, const Rotor<S, N>& s, Kernel kernel = Kernel::automatic)
      : Sandwich(r, s, false, kernel) {}
  /// x -> r x r~, a rotation of all grades.
  /// \throws std::invalid_argument for n = 0 or the kernel dense.
  template <int N>
  explicit Sandwich(const Rotor<S, N>& r, Kernel kernel = Kernel::automatic) : Sandwich(r, r, true, kernel) {}

  int dimension() const { return n_; }           ///< n
  Index size() const { return Index{1} << n_; }  ///< 2^n
  Kernel kernel() const { return kernel_; }      ///< in use; never `automatic`

  /// y = r x s~ for each column: x and y are 2^n x batch, coefficients in graded order; y may be x itself.
  /// \throws std::invalid_argument for other shapes, an empty batch, and a y that shares memory with x but is
  /// not x.
  void apply(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
    run(
        "Sandwich::apply", x, y, workspace,
        [](const auto& weights) -> const auto& { return weights.forward; });
  }
  Matrix<S> apply(const ConstMatrixRef<S>& x) const {
    Workspace workspace;
    Matrix<S> y(x.rows(), x.cols());
    apply(x, y, workspace);
    return y;
  }

  /// The adjoint, which is the inverse: x = r~ y s for each column. Takes dL/dy to dL/dx.
  /// \throws as `apply`.
  void apply_adjoint(const ConstMatrixRef<S>& y, MatrixRef<S> x, Workspace& workspace) const {
    run(
        "Sandwich::apply_adjoint", y, x, workspace,
        [](const auto& weights) -> const auto& { return weights.adjoint; });
  }

 private:
  template <int N>
  Sandwich(const Rotor<S, N>& r, const Rotor<S, N>& s, bool single, Kernel kernel) : n_(r.dimension()) {
    r.check_same_algebra("Sandwich", s);
    if (n_ < 1)
      detail::throw_invalid("Sandwich: rotors of ", r.signature(), ", expected 1 <= n <= ", max_dimension);
    kernel_ = kernel != Kernel::automatic ? kernel
              : n_ <= 5                   ? Kernel::parity_blocks
              : single                    ? Kernel::shears
                                          : Kernel::spinor;
    if (kernel_ == Kernel::dense || (kernel_ == Kernel::shears && !single)) {
      detail::throw_invalid("Sandwich: the kernel ", to_string(kernel_),
                            kernel_ == Kernel::dense ? " is one of layers; take parity_blocks"
                                                     : " needs one rotor for both sides");
    }
    if (!is_kernel(kernel_)) {
      detail::throw_invalid("Sandwich: kernel = ", static_cast<int>(kernel_),
                            "; expected one of the enumeration Kernel");
    }
    if (!r.all_finite() || !s.all_finite())
      detail::throw_domain("Sandwich: a rotor has NaN or infinite coefficients");
    Matrix<S> rotation;
    if (kernel_ == Kernel::shears) {
      const S deviation = std::abs(r.squared_norm() - S(1));
      if (!(deviation < std::sqrt(Eigen::NumTraits<S>::epsilon()))) {
        detail::throw_invalid("Sandwich: |r r~ - 1| = ", deviation,
                              ", expected a rotor; take r.normalized(), or the kernel spinor for any even r");
      }
      rotation = r.to_rotation_matrix();
    }
    const detail::RotorPair<S> pair{n_, r.coeffs().data(), s.coeffs().data(), rotation.data()};
    detail::PackBuffer<S> memory;
    const auto prepare = [&](auto kernel_type) {
      using K = decltype(kernel_type);
      K::prepare(pair, S(1), true, weights_.template emplace<typename K::Weights>(), memory);
    };
    if (kernel_ == Kernel::parity_blocks) prepare(Parity{});
    if (kernel_ == Kernel::shears) prepare(Shears{});
    if (kernel_ == Kernel::spinor) prepare(Spinor{});
  }

  template <class Direction>
  void run(const char* who, const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace,
           Direction&& direction) const {
    if (x.rows() != size() || x.cols() == 0) {
      detail::throw_invalid(who, ": input is ", detail::shape(x), ", expected ", size(),
                            " x batch with at least one sample");
    }
    if (y.rows() != x.rows() || y.cols() != x.cols()) {
      detail::throw_invalid(who, ": output is ", detail::shape(y), ", expected ", detail::shape(x));
    }
    const bool in_place = x.data() == y.data() && (x.cols() == 1 || x.outerStride() == y.outerStride());
    if ((!in_place && detail::share_memory(x, y)) || detail::overlaps_itself(y)) {
      detail::throw_invalid(who, ": input and output share the same memory in part, expected an output that ",
                            "is the input or has memory of its own");
    }
    switch (kernel_) {
      case Kernel::parity_blocks:
        return run<Parity>(direction(std::get<typename Parity::Weights>(weights_)), x, y, workspace);
      case Kernel::shears:
        return run<Shears>(direction(std::get<typename Shears::Weights>(weights_)), x, y, workspace);
      default:
        return run<Spinor>(direction(std::get<typename Spinor::Weights>(weights_)), x, y, workspace);
    }
  }

  template <class K>
  void run(const typename K::Operator& op, const ConstMatrixRef<S>& x, MatrixRef<S> y,
           Workspace& workspace) const {
    const Index batch = x.cols();
    Index tiles = batch / tile_lanes;
    if (batch % tile_lanes > K::singles_per_tile(n_)) ++tiles;
    const Index singles = std::max<Index>(0, batch - tiles * tile_lanes);
    const int threads = static_cast<int>(std::min<Index>(tiles + singles, num_threads()));
    if (workspace.threads_.size() < static_cast<std::size_t>(threads)) {
      workspace.threads_.resize(static_cast<std::size_t>(threads));
    }
    detail::parallel_for(tiles + singles, threads, [&](Index part, int thread) {
      detail::PackBuffer<S>& memory = workspace.threads_[static_cast<std::size_t>(thread)];
      if (part >= tiles) {
        const Index sample = tiles * tile_lanes + (part - tiles);
        act<K, 1>(op, x.col(sample).data(), y.col(sample).data(), memory.reserve(memory_size<K>()));
        return;
      }
      const Index sample = part * tile_lanes;
      const Index count = std::min<Index>(tile_lanes, batch - sample);
      S* tile = memory.reserve((size() + memory_size<K>()) * tile_lanes);
      detail::load_tile<S, tile_lanes>(x.col(sample).data(), x.outerStride(), size(), count, tile);
      act<K, tile_lanes>(op, tile, tile, tile + size() * tile_lanes);
      detail::store_tile<S, tile_lanes>(tile, size(), y.col(sample).data(), y.outerStride(), count);
    });
  }

  /// Scalars a sample that `act` needs.
  template <class K>
  Index memory_size() const {
    return 2 * size() + K::scratch_size(n_);
  }

  /// y = r x s~ for packs of W samples; x and y may be the same.
  template <class K, int W>
  void act(const typename K::Operator& op, const S* x, S* y, S* memory) const {
    S* domain = memory;
    S* result = domain + size() * W;
    S* scratch = result + size() * W;
    const S* entered = K::template enter<W>(n_, x, domain, scratch);
    K::template apply<W, false>(n_, op, entered, K::transforms ? result : y, scratch);
    if (K::transforms) K::template leave<W>(n_, result, y, scratch);
  }

  int n_;
  Kernel kernel_;
  std::variant<typename Spinor::Weights, typename Shears::Weights, typename Parity::Weights> weights_;
};

}  // namespace rotorlin
