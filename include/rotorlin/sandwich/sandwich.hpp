// SPDX-License-Identifier: MIT
/// \file
/// The action of rotors on batches of multivectors, x -> r x s~, through the kernels that layers use.
#pragma once

#include <algorithm>
#include <cmath>
#include <variant>

#include "rotorlin/algebra/rotor.hpp"
#include "rotorlin/core/arena.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/overlap.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/sandwich/kernel.hpp"

namespace rotorlin {

namespace detail {

template <class List>
struct AnyKernelWeights;
/// The weights of one of the kernels.
template <class... K>
struct AnyKernelWeights<KernelList<K...>> {
  using type = std::variant<typename K::Weights...>;
};

/// y = op x for packs of W samples of 2^n coefficients in graded order, through kernel K. x and y may be the
/// same.
template <class K, int W, class S>
void act(int n, const typename K::Operator& op, const S* x, S* y, Arena<S> arena) {
  const Index size = (Index{1} << n) * W;
  S* domain = arena.take(size);
  S* result = arena.take(size);
  S* scratch = arena.take(K::scratch_size(n) * W);
  const S* entered = K::template enter<W>(n, x, domain, scratch);
  K::template apply<W, false>(n, op, entered, result, scratch);
  const S* left = K::template leave<W>(n, result, y, scratch);
  if (left != y) std::copy(left, left + size, y);
}
/// What `act` takes from an arena.
template <class K, class S>
Index act_memory(int n, int width) {
  const Index size = Arena<S>::rounded((Index{1} << n) * width);
  return 2 * size + Arena<S>::rounded(K::scratch_size(n) * width);
}

}  // namespace detail

/// One or two rotors of Cl(n), 1 <= n <= 14, made ready to act on many multivectors. `apply` is const and may
/// run on several threads at once, each with a workspace of its own.
template <class S>
class Sandwich {
 public:
  /// Scratch memory of one call; a call that meets it again allocates nothing.
  class Workspace {
    friend class Sandwich;
    detail::BatchScratch<S> scratch_;
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
    if (!is_kernel(kernel)) {
      detail::throw_invalid("Sandwich: kernel = ", static_cast<int>(kernel),
                            "; expected one of the enumeration Kernel");
    }
    kernel_ = kernel == Kernel::automatic ? choose_kernel(n_, single) : kernel;
    if (!detail::is_sandwich_kernel(kernel_)) {
      detail::throw_invalid("Sandwich: the kernel ", to_string(kernel_), " is one of layers; take ",
                            to_string(Kernel::parity_blocks));
    }
    if (!single && needs_single_rotor(kernel_)) {
      detail::throw_invalid("Sandwich: the kernel ", to_string(kernel_), " needs one rotor for both sides");
    }
    if (!r.all_finite() || !s.all_finite())
      detail::throw_domain("Sandwich: a rotor has NaN or infinite coefficients");
    Matrix<S> rotation;
    if (needs_single_rotor(kernel_)) {
      const S deviation = std::abs(r.squared_norm() - S(1));
      if (!(deviation < std::sqrt(Eigen::NumTraits<S>::epsilon()))) {
        detail::throw_invalid("Sandwich: |r r~ - 1| = ", deviation,
                              ", expected a rotor; take r.normalized(), or the kernel spinor for any even r");
      }
      rotation = r.to_rotation_matrix();
    }
    const detail::RotorPair<S> pair{n_, r.coeffs().data(), s.coeffs().data(), rotation.data()};
    detail::PackBuffer<S> memory;
    detail::visit_kernel<S>(kernel_, [&]<class K>(K) {
      K::prepare(pair, S(1), true, weights_.template emplace<typename K::Weights>(), memory);
    });
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
    detail::visit_kernel<S>(kernel_, [&]<class K>(K) {
      const typename K::Operator& op = direction(std::get<typename K::Weights>(weights_));
      detail::map_batch<S>(
          x, y, K::singles_per_tile(n_), workspace.scratch_,
          [&](int width) { return detail::act_memory<K, S>(n_, width); },
          [&](auto width, const S* x_tile, S* y_tile, const detail::Arena<S>& arena) {
            detail::act<K, decltype(width)::value>(n_, op, x_tile, y_tile, arena);
          });
    });
  }

  int n_;
  Kernel kernel_;
  typename detail::AnyKernelWeights<detail::SandwichKernels<S>>::type weights_;
};

}  // namespace rotorlin
