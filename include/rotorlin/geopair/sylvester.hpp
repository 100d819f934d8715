// SPDX-License-Identifier: MIT
/// \file
/// The dictionary step: generalised Sylvester equations  sum_i G_i X B_i = S  (X, S: d x r) with symmetric
/// positive semidefinite G_i = L_i^T L_i (d x d) and B_i = C_i C_i^T (r x r). They are the normal equations
/// of min_D sum_i |A_i - L_i D C_i|_F^2, where from a present D the step is D += X for S = sum_i L_i^T (A_i -
/// L_i D C_i) C_i^T.
///
/// Two terms have a closed form: congruences P and Q make both G_i and both B_i diagonal,
///
///     P^T G_1 P = diag(alpha),  P^T G_2 P = diag(beta),  Q^T B_1 Q = diag(a),  Q^T B_2 Q = diag(b),
///     X = P ((P^T S Q) / (alpha a^T + beta b^T)) Q^T.
///
/// P comes from the factors and not from the products, which would square their condition: an orthogonal
/// factorisation of the stack of both, balanced, and the CS decomposition of its two halves. More terms are
/// solved by conjugate gradients, preconditioned by one Kronecker product.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/linalg/elementwise.hpp"
#include "rotorlin/linalg/least_squares.hpp"
#include "rotorlin/linalg/symmetric_eigen.hpp"

namespace rotorlin {

namespace detail {

/// Of a tall M = Q R the R, which has the same R^T R; otherwise M.
template <class = void>
Matrix<double> reduced(Matrix<double> m) {
  const Index n = m.cols();
  if (m.rows() < 3 * n / 2) return m;
  return linalg::Qr<double>(std::move(m)).r(n);
}

}  // namespace detail

/// P with P^T F^T F P = diag(first) and P^T H^T H P = diag(second), of two factors F and H with the same
/// number n of columns. The columns of P (n x rank) span what F or H see: all of it, unless both are
/// deficient.
class JointDiagonalization {
 public:
  /// \throws std::invalid_argument on factors with different numbers of columns.
  template <class = void>
  JointDiagonalization(const ConstMatrixRef<double>& f, const ConstMatrixRef<double>& h) {
    if (f.cols() != h.cols()) {
      detail::throw_invalid("JointDiagonalization: the factors are ", detail::shape(f), " and ",
                            detail::shape(h), ", expected as many columns");
    }
    const double f_norm = std::sqrt(linalg::squared_norm<double>(f)),
                 h_norm = std::sqrt(linalg::squared_norm<double>(h));
    const double f_scale = f_norm > 0 ? 1 / f_norm : 1, h_scale = h_norm > 0 ? 1 / h_norm : 1;
    Index upper = 0;  // rows of the stack's upper half
    const LeastSquares factored([&] {
      Matrix<double> top = f, bottom = h;
      linalg::scale<double>(f_scale, top);
      linalg::scale<double>(h_scale, bottom);
      top = detail::reduced(std::move(top));
      bottom = detail::reduced(std::move(bottom));
      upper = top.rows();
      Matrix<double> stack(top.rows() + bottom.rows(), f.cols());
      stack.topRows(upper) = top;
      stack.bottomRows(bottom.rows()) = bottom;
      return stack;
    }());
    if (factored.rank() == 0) {
      transform_.resize(f.cols(), 0);
      return;
    }
    // The CS decomposition: the same V diagonalises both halves of the basis, to rounding of the whole.
    const Matrix<double> basis = factored.basis();
    const auto top = basis.topRows(upper), bottom = basis.bottomRows(basis.rows() - upper);
    const Matrix<double> v =
        linalg::symmetric_eigen<double>(linalg::symmetric_product<double>(top, linalg::Op::transposed))
            .vectors;
    transform_ = factored.pull_back(v);
    first_ = linalg::column_energies<double>(linalg::product<double>(top, v));
    second_ = linalg::column_energies<double>(linalg::product<double>(bottom, v));
    for (Index j = 0; j < first_.size(); ++j) {
      first_[j] /= f_scale * f_scale;
      second_[j] /= h_scale * h_scale;
    }
  }

  /// V, and the diagonals of both matrices in its columns: V^T A V and V^T B V.
  const Matrix<double>& transform() const { return transform_; }
  const VectorX<double>& first() const { return first_; }
  const VectorX<double>& second() const { return second_; }

 private:
  Matrix<double> transform_;
  VectorX<double> first_, second_;
};

namespace detail {

/// x_ij / (alpha_i a_j + beta_i b_j); zero where nothing sees the entry.
template <class = void>
void divide_sylvester(const JointDiagonalization& grams, const JointDiagonalization& coefficients,
                      Matrix<double>& x) {
  for (Index j = 0; j < x.cols(); ++j) {
    for (Index i = 0; i < x.rows(); ++i) {
      const double divisor =
          grams.first()[i] * coefficients.first()[j] + grams.second()[i] * coefficients.second()[j];
      x(i, j) = divisor > 0 ? x(i, j) / divisor : 0;
    }
  }
}

}  // namespace detail

/// X of G_1 X B_1 + G_2 X B_2 = S (d x r), where `grams` diagonalises (L_1, L_2) and `coefficients` (C_1^T,
/// C_2^T). X is zero on what no coefficient uses. \throws std::invalid_argument on another shape of S.
template <class = void>
Matrix<double> solve_sylvester(const JointDiagonalization& grams, const JointDiagonalization& coefficients,
                               const ConstMatrixRef<double>& s) {
  const Matrix<double>& p = grams.transform();
  const Matrix<double>& q = coefficients.transform();
  if (s.rows() != p.rows() || s.cols() != q.rows()) {
    detail::throw_invalid("solve_sylvester: the right side is ", detail::shape(s), ", expected ", p.rows(),
                          " x ", q.rows());
  }
  Matrix<double> x = linalg::product_tn<double>(p, linalg::product<double>(s, q));
  detail::divide_sylvester(grams, coefficients, x);
  return linalg::product<double>(p, linalg::product_nt<double>(x, q));
}

/// How far conjugate gradients came.
struct SylvesterProgress {
  int steps = 0;
  double relative_residual = 0;  ///< |S - sum_i G_i X B_i| / |S|
};

namespace detail {

/// U with U^T U = M, for a positive semidefinite M, raised by a rounding of its trace.
template <class = void>
Matrix<double> raised_cholesky(Matrix<double> m) {
  double trace = 0;
  for (Index i = 0; i < m.rows(); ++i) trace += m(i, i);
  const double ridge = trace > 0 ? 1e-12 * trace / static_cast<double>(m.rows()) : 1;
  for (Index i = 0; i < m.rows(); ++i) m(i, i) += ridge;
  linalg::cholesky_upper<double>(m);
  return m;
}

}  // namespace detail

/// Solves sum_i G_i X B_i = S by preconditioned conjugate gradients, for any number of terms. The
/// preconditioner is X -> Gbar^-1 X Bbar^-1 with Gbar = sum_i G_i / tr(G_i) and Bbar ~ sum_i tr(G_i) B_i.
class SylvesterConjugateGradients {
 public:
  /// Keeps references to the factors L_i (d columns each), which must outlive this. \throws
  /// std::invalid_argument without factors, or on different numbers of columns.
  template <class = void>
  explicit SylvesterConjugateGradients(std::vector<const Matrix<double>*> factors)
      : factors_(std::move(factors)) {
    constexpr const char* who = "SylvesterConjugateGradients";
    if (factors_.empty()) detail::throw_invalid(who, ": no factors, expected one or more");
    Matrix<double> g_bar = Matrix<double>::Zero(inputs(), inputs());
    for (const Matrix<double>* factor : factors_) {
      if (factor->cols() != inputs()) {
        detail::throw_invalid(who, ": the factors are ", detail::shape(*factors_[0]), " and ",
                              detail::shape(*factor), ", expected as many columns");
      }
      const double trace = linalg::squared_norm<double>(*factor);
      if (trace > 0) linalg::syrk_lower<double>(1 / trace, *factor, linalg::Op::transposed, g_bar);
    }
    linalg::mirror_lower<double>(g_bar);
    g_bar_ = detail::raised_cholesky(std::move(g_bar));
  }

  /// The size of the Gram matrices.
  Index inputs() const { return factors_[0]->cols(); }

  /// X from zero, after `max_steps` or when the residual is below `tolerance` |S|. Every step lowers the
  /// objective of the dictionary step. \throws std::invalid_argument on other shapes than C_i: r x n_i, S: d
  /// x r.
  template <class = void>
  Matrix<double> solve(const std::vector<Matrix<double>>& coefficients, const ConstMatrixRef<double>& s,
                       int max_steps, double tolerance = 0, SylvesterProgress* progress = nullptr) const;

 private:
  std::vector<const Matrix<double>*> factors_;
  Matrix<double> g_bar_;  // its Cholesky factor
};

template <class>
Matrix<double> SylvesterConjugateGradients::solve(const std::vector<Matrix<double>>& coefficients,
                                                  const ConstMatrixRef<double>& s, int max_steps,
                                                  double tolerance, SylvesterProgress* progress) const {
  constexpr const char* who = "SylvesterConjugateGradients::solve";
  const Index d = inputs(), r = s.cols();
  if (coefficients.size() != factors_.size() || s.rows() != d) {
    detail::throw_invalid(who, ": ", coefficients.size(), " coefficient matrices and a right side of ",
                          detail::shape(s), ", expected ", factors_.size(), " and ", d, " rows");
  }
  std::vector<Matrix<double>> b;  // B_i, divided by sum_i tr(G_i) tr(B_i)
  double scale = 0;
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    if (coefficients[i].rows() != r) {
      detail::throw_invalid(who, ": coefficients are ", detail::shape(coefficients[i]), ", expected ", r,
                            " rows");
    }
    b.push_back(linalg::symmetric_product<double>(coefficients[i], linalg::Op::plain));
    scale += linalg::squared_norm<double>(*factors_[i]) * linalg::squared_norm<double>(coefficients[i]);
  }
  SylvesterProgress local;
  SylvesterProgress& done = progress != nullptr ? *progress : local;
  done = {};
  Matrix<double> x = Matrix<double>::Zero(d, r);
  const double s_norm = std::sqrt(linalg::squared_norm<double>(s));
  if (!(scale > 0) || s_norm == 0) return x;

  Matrix<double> b_bar = Matrix<double>::Zero(r, r);
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    const double weight = linalg::squared_norm<double>(*factors_[i]) / scale;
    linalg::axpy<double>(b_bar.size(), weight, b[i].data(), b_bar.data());
  }
  const Matrix<double> b_cholesky = detail::raised_cholesky(std::move(b_bar));
  const auto solve_both = [](const Matrix<double>& cholesky, Matrix<double>& right) {
    linalg::solve_upper<double>(cholesky, linalg::Op::transposed, right);
    linalg::solve_upper<double>(cholesky, linalg::Op::plain, right);
  };
  const auto precondition = [&](Matrix<double> residual) -> Matrix<double> {
    solve_both(g_bar_, residual);
    Matrix<double> turned = linalg::transposed<double>(residual);
    solve_both(b_cholesky, turned);
    return linalg::transposed<double>(turned);
  };
  const auto apply = [&](const Matrix<double>& direction) {
    Matrix<double> sum = Matrix<double>::Zero(d, r);
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      const Matrix<double> seen = linalg::product<double>(*factors_[i], direction);
      linalg::gemm<double>(1, *factors_[i], linalg::Op::transposed, linalg::product<double>(seen, b[i]),
                           linalg::Op::plain, 1, sum);
    }
    return sum;
  };

  Matrix<double> residual = s, direction = precondition(residual);
  double product = linalg::inner<double>(residual, direction);
  for (done.relative_residual = 1; done.steps < max_steps && done.relative_residual > tolerance;
       ++done.steps) {
    const Matrix<double> image = apply(direction);
    const double curvature = linalg::inner<double>(direction, image);
    if (!(curvature > 0) || !(product > 0)) break;
    linalg::axpy<double>(x.size(), product / curvature, direction.data(), x.data());
    linalg::axpy<double>(x.size(), -product / curvature, image.data(), residual.data());
    done.relative_residual = std::sqrt(linalg::squared_norm<double>(residual)) / s_norm;
    Matrix<double> next = precondition(residual);
    const double next_product = linalg::inner<double>(residual, next);
    linalg::axpy<double>(x.size(), next_product / product, direction.data(), next.data());
    direction = std::move(next);
    product = next_product;
  }
  return x;
}

}  // namespace rotorlin
