// SPDX-License-Identifier: MIT
/// \file
/// A rotor layer as the one matrix that it is: for layers whose sandwiches would be more work.
#pragma once

#include <algorithm>

#include "rotorlin/core/arena.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/rotor/chunking.hpp"
#include "rotorlin/layers/rotor/kernel_pass.hpp"
#include "rotorlin/layers/rotor/weights.hpp"
#include "rotorlin/linalg/products.hpp"

namespace rotorlin::detail {

/// The calls of a pass (pass.hpp), and the same for a whole batch at once.
template <class S>
class DensePass {
  using Op = linalg::Op;
  static constexpr int lanes = native_lanes<S>;

 public:
  explicit DensePass(const RotorView<S>& view)
      : shape_(view.shape),
        weights_(view.weights),
        bias_(view.bias, view.bias == nullptr ? 0 : view.shape.out),
        bias_scale_(view.bias_scale) {}

  Index singles_per_tile() const { return 0; }
  Index domain_size() const { return shape_.in * lanes; }
  template <int W>
  const S* enter(const S*, S*, Arena<S>) const {
    return nullptr;
  }

  Index forward_memory(int) const { return 0; }
  template <int W>
  void forward(const S* x_tile, const S*, S* y_tile, Arena<S>) const {
    const Eigen::Map<const Matrix<S>> x(x_tile, W, shape_.in);
    Eigen::Map<Matrix<S>> y(y_tile, W, shape_.out);
    linalg::gemm<S>(1, x, Op::plain, weights_.dense(), Op::transposed, 0, y);
    for (Index f = 0; f < bias_.size(); ++f) {
      for (Index k = 0; k < W; ++k) y(k, f) += bias_scale_ * bias_[f];
    }
  }
  void forward_batch(const ConstMatrixRef<S>& x, MatrixRef<S>& y) const {
    forward_batch(weights_.dense(), bias_.size() > 0 ? bias_.data() : nullptr, bias_scale_, x, y);
  }
  /// y = matrix x + bias_scale bias; `bias` may be null.
  static void forward_batch(const Matrix<S>& matrix, const S* bias, S bias_scale, const ConstMatrixRef<S>& x,
                            MatrixRef<S>& y) {
    linalg::gemm<S>(1, matrix, Op::plain, x, Op::plain, 0, y);
    if (bias == nullptr) return;
    for (Index sample = 0; sample < y.cols(); ++sample) {
      for (Index f = 0; f < y.rows(); ++f) y(f, sample) += bias_scale * bias[f];
    }
  }

  /// The sums are those of grad_y x^T, out x in, and behind them the scratch of `finish`.
  Index sums_size() const { return shape_.in * shape_.out + shape_.chunk * shape_.chunk; }
  Index backward_memory() const { return 0; }
  Index singles_of_gradient() const { return 0; }
  template <int W>
  void backward(const S* x_tile, const S*, const S* grad_y_tile, S scale, S* grad_domain, S* sums,
                Arena<S>) const {
    const Eigen::Map<const Matrix<S>> x(x_tile, W, shape_.in), g(grad_y_tile, W, shape_.out);
    linalg::gemm<S>(scale, g, Op::plain, weights_.dense(), Op::plain, 1,
                    Eigen::Map<Matrix<S>>(grad_domain, W, shape_.in));
    linalg::gemm<S>(1, g, Op::transposed, x, Op::plain, 1,
                    Eigen::Map<Matrix<S>>(sums, shape_.out, shape_.in));
  }
  template <int W>
  void leave_gradient(const S* grad_domain, S* grad_x_tile, Arena<S>) const {
    std::copy(grad_domain, grad_domain + shape_.in * W, grad_x_tile);
  }
  void backward_batch(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S>& grad_x,
                      S* sums) const {
    linalg::gemm<S>(1, weights_.dense(), Op::transposed, grad_y, Op::plain, 0, grad_x);
    linalg::gemm<S>(1, grad_y, Op::plain, x, Op::transposed, 0,
                    Eigen::Map<Matrix<S>>(sums, shape_.out, shape_.in));
  }

  void finish(S* sums, Wide<S>* partial, PackBuffer<Wide<S>>& wide) const {
    using K = ParityKernel<S>;
    const Eigen::Map<const Matrix<S>> outer(sums, shape_.out, shape_.in);
    const Index block = shape_.chunk / 2, bivectors = shape_.bivector_size();
    Eigen::Map<Matrix<S>> gradient(sums + outer.size(), block, 2 * block);
    Eigen::Map<Matrix<S>> pair_sums(gradient.data() + gradient.size(), block, 2 * block);
    shape_.for_each_pair([&](Index i, Index o, Index p) {
      shape_.for_each_entry(i, o, [&](Index row, Index column, Index out, Index in) {
        gradient(row, column) = shape_.scale[out] * outer(out, in);
      });
      const Matrix<S>& blocks = weights_.template of<K>()[static_cast<std::size_t>(p)].blocks;
      for (Index part = 0; part < 2; ++part) {  // gx x^T = M^T (g x^T)
        linalg::gemm<S>(1, blocks.middleCols(part * block, block), Op::transposed,
                        gradient.middleCols(part * block, block), Op::plain, 0,
                        pair_sums.middleCols(part * block, block));
      }
      Wide<S>* own = partial + p * (2 * bivectors + 1);
      K::finish_gradient(shape_.n, pair_sums.data(), own, own + bivectors, own[2 * bivectors], wide);
    });
  }

 private:
  const RotorChunking<S>& shape_;
  const RotorWeights<S>& weights_;
  Eigen::Map<const VectorX<S>> bias_;
  S bias_scale_;
};

}  // namespace rotorlin::detail
