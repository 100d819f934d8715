// SPDX-License-Identifier: MIT
/// \file
/// y = sum_t (A_t (x) B_t) x + b, a sum of Kronecker products: a baseline of full rank at few parameters.
///
/// With the sample's features read column by column as a matrix X, (A (x) B) x is B X A^T. A rotor pair is
/// such a product in the spinor basis, with A and B bound to the spin group; here both are free.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/options.hpp"
#include "rotorlin/linalg/products.hpp"
#include "rotorlin/linalg/qr.hpp"

namespace rotorlin {

/// Shapes of the factors; zero means "choose": the divisor next below the root of in or out where there is
/// one of at least half of it, else the root, rounded, with padding.
struct KroneckerLinearOptions {
  Index terms = 1;
  Index left_rows = 0, left_cols = 0;  ///< of A
  bool bias = true;
  std::uint64_t seed = 0;

  static constexpr auto fields() {
    using O = KroneckerLinearOptions;
    return std::tuple(option_field("terms", &O::terms, 1), option_field("left_rows", &O::left_rows, 0),
                      option_field("left_cols", &O::left_cols, 0), option_field("bias", &O::bias));
  }
};

/// A layer of `terms` products. A_t is left_rows x left_cols, B_t right_rows x right_cols = ceil(out /
/// left_rows) x ceil(in / left_cols); inputs are padded with zeros and outputs cut where these do not divide.
/// Parameters: A_1, A_2, ... (column-major), then all B_t below each other (terms right_rows x right_cols,
/// column-major), then the bias (out).
template <class S>
class KroneckerLinear : public OptionsLayer<KroneckerLinear<S>, S, KroneckerLinearOptions> {
  using Base = OptionsLayer<KroneckerLinear, S, KroneckerLinearOptions>;
  using Uninitialised = typename Base::Uninitialised;
  friend Base;

 public:
  static constexpr const char* type_name = "KroneckerLinear";
  using Options = KroneckerLinearOptions;
  struct Workspace {
    VectorX<S> x, z, grad_z, y;
  };

  /// Entries uniform such that outputs have the scale of DenseLinear's; bias zero. \throws
  /// std::invalid_argument for in, out or terms < 1, or a left factor with more rows than out or more columns
  /// than in.
  KroneckerLinear(Index in, Index out, const Options& options = {})
      : KroneckerLinear(Uninitialised{}, in, out, options) {
    Random random(options.seed);
    const double left_bound = std::sqrt(6.0 / static_cast<double>(this->options().left_cols * terms()));
    const double right_bound = std::sqrt(3.0 / static_cast<double>(right_cols()));
    random.fill_uniform(this->parameters().head(left_size()), -left_bound, left_bound);
    random.fill_uniform(this->parameters().segment(left_size(), right_size()), -right_bound, right_bound);
  }

  /// The number of products, and the shape of their right factors B_t, padded to whole blocks.
  Index terms() const { return this->options().terms; }
  Index right_rows() const { return ceil_divide(this->out_features(), this->options().left_rows); }
  Index right_cols() const { return ceil_divide(this->in_features(), this->options().left_cols); }

  /// A_t and B_t. The range of t is not checked.
  Eigen::Map<const Matrix<S>> left(Index t) const { return left_of(this->parameters().data(), t); }
  Matrix<S> right(Index t) const {
    return rights_of(this->parameters().data()).middleRows(t * right_rows(), right_rows());
  }

  Matrix<S> to_dense() const;
  ParameterRange linear_parameters() const { return {0, left_size()}; }

  /// Sets all factors to the sum of products next to `weight` (out x in) in the Frobenius norm: the leading
  /// singular triples of the matrix whose rows are the vectorised blocks of the weight (Van Loan and
  /// Pitsianis 1993), by subspace iteration. |A_t| = |B_t|. Leaves the bias, and returns the relative error.
  /// std::invalid_argument on a wrong shape, std::domain_error when `weight` is not finite.
  template <class W>
  double fit_closed_form(const Eigen::MatrixBase<W>& weight) {
    return nearest_products(weight.template cast<double>());
  }

  using Base::forward;
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const;

  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace);

 private:
  KroneckerLinear(Uninitialised tag, Index in, Index out, const Options& options)
      : Base(tag, in, out, options) {}

  static Index ceil_divide(Index a, Index b) { return (a - 1) / b + 1; }

  static Index left_side(Index features) {
    const auto root = static_cast<Index>(std::sqrt(static_cast<double>(features)));
    for (Index side = root; side >= 1 && 2 * side >= root; --side) {
      if (features % side == 0) return side;
    }
    return root;
  }

  static Options complete(Index in, Index out, Options options) {
    if (options.left_rows == 0 && out >= 1) options.left_rows = left_side(out);
    if (options.left_cols == 0 && in >= 1) options.left_cols = left_side(in);
    if (in < 1 || out < 1 || options.terms < 1 || options.left_rows < 1 || options.left_cols < 1 ||
        options.left_rows > out || options.left_cols > in) {
      detail::throw_invalid(
          type_name, ": in = ", in, ", out = ", out, ", terms = ", options.terms, ", left factors of ",
          options.left_rows, " x ", options.left_cols,
          "; expected in, out and terms of at least 1, and left factors of at most out x in");
    }
    return options;
  }

  static Index count_weights(Index in, Index out, const Options& options) {
    const Index left = detail::checked_product(options.left_rows, options.left_cols);
    const Index right =
        detail::checked_product(ceil_divide(out, options.left_rows), ceil_divide(in, options.left_cols));
    return detail::checked_product(options.terms, detail::checked_sum(left, right));
  }

  Index left_size() const {
    return this->options().terms * this->options().left_rows * this->options().left_cols;
  }
  Index right_size() const { return this->options().terms * right_rows() * right_cols(); }
  Index padded_in() const { return this->options().left_cols * right_cols(); }

  Eigen::Map<const Matrix<S>> left_of(const S* data, Index t) const {
    return {data + t * this->options().left_rows * this->options().left_cols, this->options().left_rows,
            this->options().left_cols};
  }
  Eigen::Map<Matrix<S>> left_of(S* data, Index t) const {
    return {data + t * this->options().left_rows * this->options().left_cols, this->options().left_rows,
            this->options().left_cols};
  }
  Eigen::Map<Matrix<S>> rights_of(S* data) const {
    return {data + left_size(), terms() * right_rows(), right_cols()};
  }
  Eigen::Map<const Matrix<S>> rights_of(const S* data) const {
    return {data + left_size(), terms() * right_rows(), right_cols()};
  }

  /// B_t X of one sample: right_rows x left_cols.
  template <class Z>
  auto part(Z& z, Index sample, Index t) const {
    return z.block(t * right_rows(), sample * this->options().left_cols, right_rows(),
                   this->options().left_cols);
  }

  /// All B_t X of all samples, side by side; the padded inputs stay in the workspace.
  Eigen::Map<Matrix<S>> right_products(const ConstMatrixRef<S>& x, Workspace& workspace) const;

  double nearest_products(const Matrix<double>& weight);

  /// Makes the columns of m orthogonal by rotations, which the columns of `beside` follow (one-sided Jacobi,
  /// Hestenes 1958).
  static void orthogonalize(Matrix<double>& m, Matrix<double>& beside);
};

template <class S>
Matrix<S> KroneckerLinear<S>::to_dense() const {
  const Index a = this->options().left_rows, c = this->options().left_cols, rows = right_rows(),
              cols = right_cols();
  Matrix<S> padded = Matrix<S>::Zero(a * rows, c * cols);
  for (Index t = 0; t < terms(); ++t) {
    const Matrix<S> b = right(t);
    for (Index j = 0; j < c; ++j) {
      for (Index i = 0; i < a; ++i) padded.block(i * rows, j * cols, rows, cols) += left(t)(i, j) * b;
    }
  }
  return padded.topLeftCorner(this->out_features(), this->in_features());
}

template <class S>
void KroneckerLinear<S>::forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
  detail::check_forward(*this, x, y);
  const auto z = right_products(x, workspace);
  auto padded = detail::scratch(workspace.y, right_rows(), this->options().left_rows);
  for (Index sample = 0; sample < x.cols(); ++sample) {
    padded.setZero();
    for (Index t = 0; t < terms(); ++t)
      linalg::gemm<S>(1, part(z, sample, t), linalg::Op::plain, left(t), linalg::Op::transposed, 1, padded);
    y.col(sample) = Eigen::Map<const VectorX<S>>(padded.data(), y.rows());
  }
  if (this->has_bias()) y.colwise() += this->bias();
  detail::check_result(*this, "forward", y);
}

template <class S>
void KroneckerLinear<S>::backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                                  MatrixRef<S> grad_x, Workspace& workspace) {
  detail::check_backward(*this, x, grad_y, grad_x);
  const auto z = right_products(x, workspace);
  auto grad_z = detail::scratch(workspace.grad_z, z.rows(), z.cols());
  auto padded = detail::scratch(workspace.y, right_rows(), this->options().left_rows);
  padded.setZero();
  for (Index sample = 0; sample < x.cols(); ++sample) {
    Eigen::Map<VectorX<S>>(padded.data(), grad_y.rows()) = grad_y.col(sample);
    for (Index t = 0; t < terms(); ++t) {
      linalg::gemm<S>(1, padded, linalg::Op::plain, left(t), linalg::Op::plain, 0, part(grad_z, sample, t));
      linalg::gemm<S>(1, padded, linalg::Op::transposed, part(z, sample, t), linalg::Op::plain, 1,
                      left_of(this->gradients().data(), t));
    }
  }
  auto padded_x = detail::scratch(workspace.x, right_cols(), this->options().left_cols * x.cols());
  linalg::gemm<S>(1, grad_z, linalg::Op::plain, padded_x, linalg::Op::transposed, 1,
                  rights_of(this->gradients().data()));
  const KroneckerLinear& constant = *this;
  linalg::gemm<S>(1, constant.rights_of(constant.parameters().data()), linalg::Op::transposed, grad_z,
                  linalg::Op::plain, 0, padded_x);
  for (Index sample = 0; sample < x.cols(); ++sample) {
    grad_x.col(sample) = Eigen::Map<const VectorX<S>>(padded_x.data() + sample * padded_in(), grad_x.rows());
  }
  detail::check_result(*this, "backward", grad_x);
  if (this->has_bias()) this->bias_gradients() += grad_y.rowwise().sum();
}

template <class S>
Eigen::Map<Matrix<S>> KroneckerLinear<S>::right_products(const ConstMatrixRef<S>& x,
                                                         Workspace& workspace) const {
  auto padded = detail::scratch(workspace.x, right_cols(), this->options().left_cols * x.cols());
  padded.setZero();
  for (Index sample = 0; sample < x.cols(); ++sample) {
    Eigen::Map<VectorX<S>>(padded.data() + sample * padded_in(), x.rows()) = x.col(sample);
  }
  auto z = detail::scratch(workspace.z, terms() * right_rows(), padded.cols());
  linalg::gemm<S>(1, rights_of(this->parameters().data()), linalg::Op::plain, padded, linalg::Op::plain, 0,
                  z);
  return z;
}

template <class S>
double KroneckerLinear<S>::nearest_products(const Matrix<double>& weight) {
  const Index in = this->in_features(), out = this->out_features();
  if (weight.rows() != out || weight.cols() != in) {
    detail::throw_invalid(type_name, "::fit_closed_form: weight is ", detail::shape(weight), ", expected ",
                          out, " x ", in, " for this layer");
  }
  if (!detail::all_finite(weight))
    detail::throw_domain(type_name, "::fit_closed_form: the weight has NaN or infinite entries");
  this->parameters().head(this->bias_offset()).setZero();
  const double largest = weight.cwiseAbs().maxCoeff();
  if (largest == 0) return 0;

  // Row (i, j) of `blocks` is block (i, j) of the weight, of which A has the entry and B the shape.
  const Index a = this->options().left_rows, c = this->options().left_cols, rows = right_rows(),
              cols = right_cols();
  Matrix<double> blocks = Matrix<double>::Zero(a * c, rows * cols);
  for (Index column = 0; column < in; ++column) {
    for (Index row = 0; row < out; ++row) {
      blocks(row / rows + column / cols * a, row % rows + column % cols * rows) =
          weight(row, column) / largest;
    }
  }
  const Index rank = std::min({this->options().terms, blocks.rows(), blocks.cols()});
  const Index searched = std::min({rank + 8, blocks.rows(), blocks.cols()});
  Matrix<double> left(blocks.rows(), searched), right(blocks.cols(), searched);
  Random(this->options().seed).fill_uniform(left, -1, 1);
  const auto orthonormal = [](const Matrix<double>& m) { return linalg::Qr<double>(m).q(m.cols()); };
  constexpr int iterations = 30;
  for (int i = 0; i < iterations; ++i) {
    right = linalg::product_tn<double>(blocks, orthonormal(left));
    left = linalg::product<double>(blocks, orthonormal(right));
  }
  Matrix<double> basis = orthonormal(left);
  right = linalg::product_tn<double>(blocks, basis);
  orthogonalize(right, basis);
  std::vector<Index> order(static_cast<std::size_t>(searched));
  std::iota(order.begin(), order.end(), Index{0});
  const VectorX<double> singular = right.colwise().norm();
  std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return singular[i] > singular[j]; });

  double captured = 0;
  auto rights = rights_of(this->parameters().data());
  for (Index t = 0; t < rank; ++t) {
    const Index k = order[static_cast<std::size_t>(t)];
    if (!(singular[k] > 0)) break;
    captured += singular[k] * singular[k];
    const double length = std::sqrt(singular[k]) * std::sqrt(largest);
    const VectorX<double> u = length * basis.col(k), v = (length / singular[k]) * right.col(k);
    left_of(this->parameters().data(), t) = Eigen::Map<const Matrix<double>>(u.data(), a, c).cast<S>();
    rights.middleRows(t * rows, rows) = Eigen::Map<const Matrix<double>>(v.data(), rows, cols).cast<S>();
  }
  return std::sqrt(std::max(0.0, 1 - captured / blocks.squaredNorm()));
}

template <class S>
void KroneckerLinear<S>::orthogonalize(Matrix<double>& m, Matrix<double>& beside) {
  constexpr int most_sweeps = 30;
  bool moved = true;
  for (int sweep = 0; moved && sweep < most_sweeps; ++sweep) {
    moved = false;
    for (Index q = 1; q < m.cols(); ++q) {
      for (Index p = 0; p < q; ++p) {
        const double pp = m.col(p).squaredNorm(), qq = m.col(q).squaredNorm(), pq = m.col(p).dot(m.col(q));
        if (!(std::abs(pq) > 1e-14 * std::sqrt(pp * qq))) continue;
        moved = true;
        const double angle = 0.5 * std::atan2(2 * pq, pp - qq), cosine = std::cos(angle),
                     sine = std::sin(angle);
        for (Matrix<double>* each : {&m, &beside}) {
          const VectorX<double> first = each->col(p);
          each->col(p) = cosine * first + sine * each->col(q);
          each->col(q) = cosine * each->col(q) - sine * first;
        }
      }
    }
  }
}

static_assert(LinearLayer<KroneckerLinear<float>> && DescribedLayer<KroneckerLinear<double>>);

ROTORLIN_COMPILED_LAYER(KroneckerLinear)

}  // namespace rotorlin
