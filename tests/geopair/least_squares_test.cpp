// SPDX-License-Identifier: MIT
#include "rotorlin/linalg/least_squares.hpp"

#include <Eigen/SVD>
#include <catch2/catch.hpp>
#include <limits>

#include "problems.hpp"
#include "rotorlin/geopair/gauge.hpp"
#include "rotorlin/geopair/refit.hpp"
#include "rotorlin/linalg/gram_accumulator.hpp"

using rotorlin::LeastSquares;
using test::Index;
using test::Matrix;
using test::random_matrix;
using test::relative;

namespace {

// F of a given shape and rank.
Matrix of_rank(Index rows, Index cols, Index rank, std::uint64_t seed) {
  return random_matrix(rows, rank, seed) * random_matrix(rank, cols, seed + 1);
}

Matrix pseudo_inverse(const Matrix& f, Index rank) {
  const Eigen::JacobiSVD<Matrix> svd(f, Eigen::ComputeThinU | Eigen::ComputeThinV);
  return svd.matrixV().leftCols(rank) * svd.singularValues().head(rank).cwiseInverse().asDiagonal() *
         svd.matrixU().leftCols(rank).transpose();
}

}  // namespace

TEST_CASE("Least squares solutions have minimum norm, whatever the shape and rank",
          "[geopair][least_squares]") {
  struct Case {
    Index rows, cols, rank;
  };
  for (const auto& [rows, cols, rank] : {Case{9, 5, 5},
                                         {9, 5, 3},
                                         {5, 5, 5},
                                         {5, 9, 5},
                                         {5, 9, 2},
                                         {9, 5, 1},
                                         {1, 1, 1},
                                         {7, 1, 1},
                                         {1, 7, 1}}) {
    CAPTURE(rows, cols, rank);
    const Matrix f = of_rank(rows, cols, rank, 10), b = random_matrix(rows, 4, 12);
    const LeastSquares solver(f);
    REQUIRE(solver.rank() == rank);
    const Matrix expected = pseudo_inverse(f, rank) * b;
    CHECK(relative(solver.solve(b) - expected, expected) < 1e-12);

    const Matrix q = solver.basis(), y = random_matrix(rank, 2, 13);
    CHECK((q.transpose() * q - Matrix::Identity(rank, rank)).norm() < 1e-13);
    CHECK((f - q * (q.transpose() * f)).norm() < 1e-13 * f.norm());
    const Matrix x = solver.pull_back(y);
    CHECK(relative(f * x - q * y, y) < 1e-12);
    CHECK(relative(x - pseudo_inverse(f, rank) * (f * x), x) < 1e-11);  // nothing of the null space
  }
}

TEST_CASE("Zero and repeated columns get the share of minimum norm", "[geopair][least_squares]") {
  Matrix f = random_matrix(6, 4, 14);
  f.col(1).setZero();
  f.col(3) = f.col(0);
  const Matrix c = LeastSquares(f).solve(random_matrix(6, 3, 15));
  CHECK(c.row(1).norm() == 0);
  CHECK((c.row(0) - c.row(3)).norm() < 1e-13);
  CHECK(LeastSquares(Matrix::Zero(3, 2)).rank() == 0);
  CHECK(LeastSquares(Matrix::Zero(3, 2)).solve(Matrix::Ones(3, 1)).norm() == 0);
  CHECK_THROWS_AS(LeastSquares(f).solve(Matrix::Ones(5, 1)), std::invalid_argument);
}

TEST_CASE("Columns of very different scale are full rank", "[geopair][least_squares]") {
  Matrix f = random_matrix(8, 3, 16);
  f.col(1) *= 1e-9;
  f.col(2) *= 1e9;
  Matrix x = random_matrix(3, 2, 17);
  x.row(1) *= 1e9;
  x.row(2) *= 1e-9;
  const Matrix found = LeastSquares(f).solve(f * x);
  CHECK(LeastSquares(f).rank() == 3);
  for (Index i = 0; i < 3; ++i) CHECK((found.row(i) - x.row(i)).norm() < 1e-12 * x.row(i).norm());
}

TEST_CASE("In the identity gauge rows of the dictionary are the identity and no product changes",
          "[geopair][gauge]") {
  struct Case {
    Index d, r, rank;
  };
  for (const auto& [d, r, rank] : {Case{12, 5, 5}, {12, 5, 3}, {5, 5, 5}, {4, 9, 4}, {6, 1, 1}}) {
    CAPTURE(d, r, rank);
    const Matrix dictionary = of_rank(d, r, rank, 20), c = random_matrix(r, 7, 22);
    const rotorlin::IdentityGauge gauge = rotorlin::identity_gauge(dictionary);
    REQUIRE(static_cast<Index>(gauge.rows.size()) == rank);
    CHECK(Matrix(gauge.dictionary(gauge.rows, Eigen::all)) == Matrix::Identity(rank, rank));
    CHECK(relative(gauge.dictionary * (gauge.transform * c) - dictionary * c, dictionary * c) < 1e-12);
  }
  CHECK_THROWS_AS(rotorlin::identity_gauge(Matrix::Zero(3, 2)), std::invalid_argument);
  CHECK_THROWS_AS(rotorlin::identity_gauge(Matrix()), std::invalid_argument);
  CHECK_THROWS_AS(rotorlin::identity_gauge(Matrix::Constant(2, 2, std::numeric_limits<double>::infinity())),
                  std::domain_error);
}

TEST_CASE("Refitted coefficients are the best for the activations that arrive", "[geopair][refit]") {
  const Index d = 6, r = 3, n = 4, samples = 50;
  const Matrix x = random_matrix(d, samples, 30), z = x + 0.3 * random_matrix(d, samples, 31);
  const Matrix weight = random_matrix(d, n, 32), dictionary = random_matrix(d, r, 33);
  rotorlin::GramAccumulator gram(d);
  rotorlin::CrossGramAccumulator cross(d, d);
  gram.add(z);
  cross.add(z, x);
  const rotorlin::Whitening seen = rotorlin::whiten(gram.gram(), 1e-2);
  const Matrix c = rotorlin::refit_coefficients(dictionary, weight, seen, cross.gram());
  const auto objective = [&](const Matrix& coefficients) {
    const Matrix made = dictionary * coefficients;
    return (x.transpose() * weight - z.transpose() * made).squaredNorm() / samples +
           seen.ridge * (weight - made).squaredNorm();
  };
  for (std::uint64_t seed = 40; seed < 50; ++seed) {
    const Matrix aside = 1e-3 * random_matrix(r, n, seed);
    CHECK(objective(c) < objective(c + aside));
    CHECK(objective(c + aside) == Approx(objective(c - aside)).epsilon(1e-9));  // stationary
  }
  // with the original activations it is the coefficient step
  rotorlin::GramAccumulator original(d);
  original.add(x);
  const rotorlin::Whitening whitening = rotorlin::whiten(original.gram(), 1e-2);
  const Matrix step = LeastSquares(whitening.factor * dictionary).solve(whitening.factor * weight);
  CHECK(relative(rotorlin::refit_coefficients(dictionary, weight, whitening, original.gram()) - step, step) <
        1e-12);
  CHECK_THROWS_AS(rotorlin::refit_coefficients(dictionary, weight, whitening, Matrix::Zero(d, d - 1)),
                  std::invalid_argument);
}
