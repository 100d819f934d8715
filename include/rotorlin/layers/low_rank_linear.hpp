// SPDX-License-Identifier: MIT
/// \file
/// y = U V x + b, a matrix of low rank: the baseline with a closed-form best fit.
///
/// Best means the least E|W x - U V x|^2 = |(W - U V) F|^2, where F F^T = G = E[x x^T]. By Eckart and Young
/// (1936) U V F must be the truncated singular value decomposition of W F, that is, its projection on the
/// first left singular vectors S of W F; so U V = S S^T W does it, without an inverse of F, and also where G
/// is singular.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <tuple>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/options.hpp"
#include "rotorlin/linalg/gram_factor.hpp"
#include "rotorlin/linalg/leading_vectors.hpp"

namespace rotorlin {

struct LowRankLinearOptions {
  Index rank = 0;          ///< 1 ... the smaller of in and out
  bool bias = true;        ///< add a bias to every output feature
  std::uint64_t seed = 0;  ///< of the initial weights

  static constexpr auto fields() {
    return std::tuple(option_field("rank", &LowRankLinearOptions::rank),
                      option_field("bias", &LowRankLinearOptions::bias));
  }
};

/// A layer of rank <= `rank`. Parameters: U (out x rank), V (rank x in), both column-major, then the bias
/// (out).
template <class S>
class LowRankLinear : public OptionsLayer<LowRankLinear<S>, S, LowRankLinearOptions> {
  using Base = OptionsLayer<LowRankLinear, S, LowRankLinearOptions>;
  using Uninitialised = typename Base::Uninitialised;
  friend Base;

 public:
  static constexpr const char* type_name = "LowRankLinear";
  struct Workspace {
    VectorX<S> hidden, grad_hidden;
  };

  /// U uniform in +-sqrt(6 / rank), V in +-sqrt(3 / in): the scale of DenseLinear. Bias zero. \throws
  /// std::invalid_argument for in or out < 1 or an impossible rank.
  LowRankLinear(Index in, Index out, const LowRankLinearOptions& options)
      : LowRankLinear(Uninitialised{}, in, out, options) {
    Random random(options.seed);
    const double u_bound = std::sqrt(6.0 / static_cast<double>(options.rank));
    const double v_bound = std::sqrt(3.0 / static_cast<double>(in));
    random.fill_uniform(u(), -u_bound, u_bound);
    random.fill_uniform(v(), -v_bound, v_bound);
  }
  /// Of this rank, the other options as they are by default.
  LowRankLinear(Index in, Index out, Index rank)
      : LowRankLinear(in, out, LowRankLinearOptions{.rank = rank}) {}

  /// The factors U (out x rank) and V (rank x in), in the parameters' memory.
  Index rank() const { return this->options().rank; }
  Eigen::Map<Matrix<S>> u() { return u_of(this->parameters().data()); }
  Eigen::Map<Matrix<S>> v() { return v_of(this->parameters().data()); }
  Eigen::Map<const Matrix<S>> u() const { return u_of(this->parameters().data()); }
  Eigen::Map<const Matrix<S>> v() const { return v_of(this->parameters().data()); }
  Matrix<S> to_dense() const;
  ParameterRange linear_parameters() const { return {0, u().size()}; }

  /// Sets U and V to the best fit of this rank to `weight` (out x in) in the metric of `gram` (in x in), both
  /// of any scalar; columns of U and rows of V have equal lengths. Leaves the bias: see `match_bias`. Returns
  /// the relative error sqrt(tr((W - UV) G (W - UV)^T) / tr(W G W^T)) (0 where W F is zero). Throws what
  /// `factor_gram` throws, std::domain_error when `weight` is not finite, std::invalid_argument on a wrong
  /// shape.
  template <class A, class B>
  double fit_closed_form(const Eigen::MatrixBase<A>& weight, const Eigen::MatrixBase<B>& gram);

  using Base::forward;
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const;

  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace);

 private:
  double fit_closed_form(const Matrix<double>& weight, const Matrix<double>& gram, double epsilon);

  LowRankLinear(Uninitialised tag, Index in, Index out, const LowRankLinearOptions& options)
      : Base(tag, in, out, options) {}

  static Index count_weights(Index in, Index out, const LowRankLinearOptions& options) {
    if (options.rank < 1 || options.rank > std::min(in, out)) {
      detail::throw_invalid(type_name, ": rank = ", options.rank, ", expected 1 ... ", std::min(in, out),
                            ", the smaller of in = ", in, " and out = ", out);
    }
    return detail::checked_product(options.rank, detail::checked_sum(in, out));
  }

  template <class P>
  auto u_of(P* data) const {
    return matrix_at(data, this->out_features(), rank());
  }
  template <class P>
  auto v_of(P* data) const {
    return matrix_at(data + this->out_features() * rank(), rank(), this->in_features());
  }
  static Eigen::Map<Matrix<S>> matrix_at(S* data, Index rows, Index cols) { return {data, rows, cols}; }
  static Eigen::Map<const Matrix<S>> matrix_at(const S* data, Index rows, Index cols) {
    return {data, rows, cols};
  }
};

template <class S>
Matrix<S> LowRankLinear<S>::to_dense() const {
  return linalg::product<S>(u(), v());
}

template <class S>
template <class A, class B>
double LowRankLinear<S>::fit_closed_form(const Eigen::MatrixBase<A>& weight,
                                         const Eigen::MatrixBase<B>& gram) {
  return fit_closed_form(weight.template cast<double>().eval(), gram.template cast<double>().eval(),
                         static_cast<double>(std::numeric_limits<typename B::Scalar>::epsilon()));
}

template <class S>
double LowRankLinear<S>::fit_closed_form(const Matrix<double>& weight, const Matrix<double>& gram,
                                         double epsilon) {
  constexpr const char* who = "LowRankLinear::fit_closed_form";
  detail::check_fit(*this, who, weight, gram);
  const Matrix<double> wf = linalg::product<double>(weight, factor_gram(gram, who, epsilon));
  const Matrix<double> left = linalg::leading_left_vectors<double>(wf, rank());
  const Matrix<double> right = linalg::product_tn<double>(left, weight);
  this->parameters().head(this->bias_offset()).setZero();
  for (Index i = 0; i < left.cols(); ++i) {
    const double balance = std::sqrt(right.row(i).norm());
    if (balance == 0) continue;
    u().col(i) = (left.col(i) * balance).template cast<S>();
    v().row(i) = (right.row(i) / balance).template cast<S>();
  }
  const double norm = wf.stableNorm();
  Matrix<double> missing = wf;
  linalg::add_product<double>(-1, left, linalg::product_tn<double>(left, wf), missing);
  return norm == 0 ? 0 : missing.stableNorm() / norm;
}

template <class S>
void LowRankLinear<S>::forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
  detail::check_forward(*this, x, y);
  auto hidden = detail::scratch(workspace.hidden, rank(), x.cols());
  hidden.noalias() = v() * x;
  y.noalias() = u() * hidden;
  if (this->has_bias()) y.colwise() += this->bias();
  detail::check_result(*this, "forward", y);
}

template <class S>
void LowRankLinear<S>::backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                                MatrixRef<S> grad_x, Workspace& workspace) {
  detail::check_backward(*this, x, grad_y, grad_x);
  auto hidden = detail::scratch(workspace.hidden, rank(), x.cols());
  auto grad_hidden = detail::scratch(workspace.grad_hidden, rank(), x.cols());
  hidden.noalias() = v() * x;
  grad_hidden.noalias() = u().transpose() * grad_y;
  grad_x.noalias() = v().transpose() * grad_hidden;
  detail::check_result(*this, "backward", grad_x);
  u_of(this->gradients().data()).noalias() += grad_y * hidden.transpose();
  v_of(this->gradients().data()).noalias() += grad_hidden * x.transpose();
  if (this->has_bias()) this->bias_gradients() += grad_y.rowwise().sum();
}

static_assert(LinearLayer<LowRankLinear<float>> && DescribedLayer<LowRankLinear<double>>);

ROTORLIN_COMPILED_LAYER(LowRankLinear)

}  // namespace rotorlin
