// SPDX-License-Identifier: MIT
#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <array>
#include <catch2/catch.hpp>
#include <limits>

#include "rotorlin/core/random.hpp"
#include "rotorlin/linalg/qr.hpp"
#include "rotorlin/linalg/symmetric_eigen.hpp"
#include "rotorlin/linalg/triangular.hpp"

namespace linalg = rotorlin::linalg;
using linalg::Op;
using rotorlin::Index;
using rotorlin::Matrix;
using rotorlin::VectorX;

namespace {

template <class T>
Matrix<T> random_entries(Index rows, Index cols, std::uint64_t seed) {
  rotorlin::Random random(seed);
  Matrix<T> m(rows, cols);
  random.fill_uniform(m.reshaped(), -1, 1);
  return m;
}

template <class T>
constexpr T rounding = std::numeric_limits<T>::epsilon();

}  // namespace

TEMPLATE_TEST_CASE("Products agree with Eigen's at every size and transposition", "[linalg]", float, double) {
  using T = TestType;
  for (const auto& [m, n, k] : {std::array<Index, 3>{1, 1, 1},
                                {3, 1, 5},
                                {1, 4, 7},
                                {5, 3, 0},
                                {17, 9, 30},
                                {64, 64, 64},
                                {130, 40, 300},
                                {200, 1, 100},
                                {33, 129, 65}}) {
    CAPTURE(m, n, k);
    // blocks of larger matrices, so that strides differ from heights
    const Matrix<T> a = random_entries<T>(std::max(m, k) + 2, std::max(m, k) + 1, 1),
                    b = random_entries<T>(std::max(n, k) + 3, std::max(n, k) + 1, 2);
    for (const Op op_a : {Op::plain, Op::transposed}) {
      for (const Op op_b : {Op::plain, Op::transposed}) {
        const auto left = op_a == Op::plain ? a.topLeftCorner(m, k) : a.topLeftCorner(k, m);
        const auto right = op_b == Op::plain ? b.topLeftCorner(k, n) : b.topLeftCorner(n, k);
        const Matrix<T> plain_left = op_a == Op::plain ? Matrix<T>(left) : Matrix<T>(left.transpose());
        const Matrix<T> plain_right = op_b == Op::plain ? Matrix<T>(right) : Matrix<T>(right.transpose());
        Matrix<T> c = random_entries<T>(m + 4, n, 3), expected = c;
        expected.topRows(m) = T(0.5) * (plain_left * plain_right) + 2 * c.topRows(m);
        linalg::gemm<T>(T(0.5), left, op_a, right, op_b, 2, c.topRows(m));
        CHECK((c - expected).norm() <= 40 * rounding<T> * (1 + expected.norm()));
        c.topRows(m).setConstant(std::numeric_limits<T>::quiet_NaN());  // beta = 0 does not read
        linalg::gemm<T>(1, left, op_a, right, op_b, 0, c.topRows(m));
        CHECK((c.topRows(m) - plain_left * plain_right).norm() <= 40 * rounding<T> * (1 + expected.norm()));
      }
    }
  }
}

TEMPLATE_TEST_CASE("Symmetric and triangular products, and what undoes them", "[linalg]", float, double) {
  using T = TestType;
  for (const Index n : {1, 2, 31, 64, 150, 300}) {
    CAPTURE(n);
    const Matrix<T> a = random_entries<T>(n, n + 7, 4), x = random_entries<T>(n, 5, 5);
    const Matrix<T> gram = linalg::symmetric_product<T>(a, Op::plain);
    CHECK((gram - a * a.transpose()).norm() <= 40 * rounding<T> * gram.norm());
    CHECK((linalg::symmetric_product<T>(a.transpose(), Op::transposed) - gram).norm() <=
          40 * rounding<T> * gram.norm());
    CHECK(gram == gram.transpose());
    Matrix<T> u = gram / static_cast<T>(n) + Matrix<T>::Identity(n, n);
    const Matrix<T> g = u;
    REQUIRE(linalg::cholesky_upper<T>(u));
    CHECK((u.transpose() * u - g).norm() <= 40 * rounding<T> * g.norm());
    CHECK(u.isUpperTriangular(0));
    for (const Op op : {Op::plain, Op::transposed}) {
      const Matrix<T> image = linalg::upper_product<T>(u, op, x);
      const Matrix<T> turned = op == Op::plain ? u : Matrix<T>(u.transpose());
      CHECK((image - turned * x).norm() <= 40 * rounding<T> * image.norm());
      CHECK((linalg::upper_solution<T>(u, op, image) - x).norm() <= 200 * rounding<T> * x.norm());
    }
    Matrix<T> indefinite = g;
    indefinite(n - 1, n - 1) = -1;
    CHECK_FALSE(linalg::cholesky_upper<T>(indefinite));
    indefinite(n - 1, n - 1) = std::numeric_limits<T>::quiet_NaN();
    CHECK_FALSE(linalg::cholesky_upper<T>(indefinite));
  }
}

TEMPLATE_TEST_CASE("Q is orthogonal, R triangular, their product the matrix", "[linalg]", float, double) {
  using T = TestType;
  for (const auto& [m, n] :
       {std::array<Index, 2>{1, 1}, {5, 1}, {1, 5}, {7, 7}, {60, 49}, {49, 120}, {200, 130}}) {
    CAPTURE(m, n);
    Matrix<T> a = random_entries<T>(m, n, 6);
    if (n > 3) a.col(2).setZero();
    const linalg::Qr<T> qr(a);
    const Index k = std::min(m, n);
    const Matrix<T> q = qr.q(k);
    CHECK((q.transpose() * q - Matrix<T>::Identity(k, k)).norm() <= 20 * rounding<T> * static_cast<T>(k));
    CHECK((q * qr.r(k) - a).norm() <= 20 * rounding<T> * (a.norm() + 1));
    Matrix<T> back = random_entries<T>(m, 3, 7);
    const Matrix<T> before = back;
    qr.apply_q(Op::plain, back);
    qr.apply_q(Op::transposed, back);
    CHECK((back - before).norm() <= 20 * rounding<T> * before.norm());
  }
}

TEMPLATE_TEST_CASE("Pivoting finds the rank", "[linalg]", float, double) {
  using T = TestType;
  for (const auto& [m, n, rank] :
       {std::array<Index, 3>{1, 1, 1}, {6, 6, 0}, {8, 5, 3}, {5, 9, 2}, {80, 70, 60}, {70, 120, 69}}) {
    CAPTURE(m, n, rank);
    const Matrix<T> a = rank == 0 ? Matrix<T>(Matrix<T>::Zero(m, n))
                                  : Matrix<T>(random_entries<T>(m, rank, 8) * random_entries<T>(rank, n, 9));
    const linalg::PivotedQr<T> qr(a, 100 * rounding<T>);
    REQUIRE(qr.rank() == rank);
    Matrix<T> r = Matrix<T>::Zero(m, n);
    for (Index j = 0; j < n; ++j) {
      for (Index i = 0; i <= std::min(j, rank - 1); ++i) r(i, j) = qr.packed()(i, j);
    }
    qr.apply_q(Op::plain, r);
    Matrix<T> permuted(m, n);
    for (Index j = 0; j < n; ++j) permuted.col(j) = a.col(qr.order()[static_cast<std::size_t>(j)]);
    CHECK((r - permuted).norm() <= 200 * rounding<T> * a.norm());
  }
}

TEMPLATE_TEST_CASE("Eigenvalues and eigenvectors", "[linalg]", float, double) {
  using T = TestType;
  const auto check = [](const Matrix<T>& a) {
    const Index n = a.rows();
    Matrix<T> lower = a;  // what stands above the diagonal is not read
    lower.template triangularView<Eigen::StrictlyUpper>().setConstant(std::numeric_limits<T>::quiet_NaN());
    const auto found = linalg::symmetric_eigen<T>(lower);
    REQUIRE(found.success);
    const T tolerance = 10 * rounding<T> * static_cast<T>(n), norm = a.norm();
    const Matrix<T>& v = found.vectors;
    CHECK((v.transpose() * v - Matrix<T>::Identity(n, n)).norm() <= tolerance);
    CHECK((a * v - v * found.values.asDiagonal()).norm() <= tolerance * norm);
    for (Index i = 1; i < n; ++i) CHECK(found.values[i - 1] <= found.values[i]);
    const Eigen::SelfAdjointEigenSolver<Matrix<T>> reference(a);
    CHECK((reference.eigenvalues() - found.values).norm() <= tolerance * norm);
  };
  for (const Index n : {1, 2, 3, 4, 5, 31, 33, 34, 70, 129}) {
    CAPTURE(n);
    const Matrix<T> a = random_entries<T>(n, n, 10), symmetric = a + a.transpose();
    check(symmetric);
    check(T(1e-18) * symmetric);
    check(Matrix<T>::Identity(n, n));
    check(Matrix<T>::Zero(n, n));
    check(Matrix<T>::Ones(n, n));
    check(a.leftCols(n / 2 + 1) * a.leftCols(n / 2 + 1).transpose());  // half the values zero
    VectorX<T> graded(n);
    for (Index i = 0; i < n; ++i) graded[i] = std::pow(T(10), -static_cast<T>(i % 20));
    check(Matrix<T>(graded.asDiagonal()));
    const linalg::Qr<T> qr(a);
    const Matrix<T> q = qr.q(n), g = q * graded.asDiagonal() * q.transpose();
    check((g + g.transpose()) / 2);
    Matrix<T> wilkinson = Matrix<T>::Zero(n, n);  // pairs of values that are nearly equal
    for (Index i = 0; i < n; ++i) {
      wilkinson(i, i) = std::abs(static_cast<T>(i) - static_cast<T>(n - 1) / 2);
      if (i > 0) wilkinson(i, i - 1) = wilkinson(i - 1, i) = 1;
    }
    check(wilkinson);
  }
  CHECK(linalg::symmetric_eigen<T>(Matrix<T>()).success);
  for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
    Matrix<T> a = Matrix<T>::Identity(6, 6);
    a(4, 2) = bad;
    CHECK_FALSE(linalg::symmetric_eigen<T>(a).success);
  }
}
