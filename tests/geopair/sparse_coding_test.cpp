// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/sparse_coding.hpp"

#include <catch2/catch.hpp>

#include "problems.hpp"
#include "rotorlin/linalg/least_squares.hpp"

using rotorlin::hard_thresholding_pursuit;
using rotorlin::PursuitOptions;
using rotorlin::SparseCode;
using rotorlin::SupportSolver;
using test::Index;
using test::Matrix;
using test::random_matrix;
using test::Vector;

namespace {

SparseCode code(const Matrix& atoms, const Matrix& y, const PursuitOptions& options,
                const Matrix* start = nullptr) {
  return hard_thresholding_pursuit(atoms.transpose() * atoms, atoms.transpose() * y,
                                   y.colwise().squaredNorm(), options, start);
}

PursuitOptions with(Index nonzeros, SupportSolver solver = SupportSolver::automatic) {
  PursuitOptions options;
  options.nonzeros = nonzeros;
  options.solver = solver;
  options.gradient_steps = 40;
  return options;
}

Vector errors(const Matrix& atoms, const Matrix& y, const Matrix& c) {
  return (y - atoms * c).colwise().squaredNorm();
}

constexpr SupportSolver solvers[] = {SupportSolver::cholesky, SupportSolver::conjugate_gradients};

}  // namespace

TEST_CASE("Columns made of few atoms are found again", "[geopair][sparse]") {
  const Index r = 30, k = 4, n = 25;
  const Matrix atoms = random_matrix(60, r, 1);
  Matrix c = Matrix::Zero(r, n);
  rotorlin::Random random(2);
  for (Index j = 0; j < n; ++j) {
    for (Index i = 0; i < k; ++i) c(random.below(r), j) = random.normal() < 0 ? -1 : 1;
  }
  for (const SupportSolver solver : solvers) {
    const SparseCode found = code(atoms, atoms * c, with(k, solver));
    CHECK((found.coefficients - c).norm() < 1e-7 * c.norm());
    CHECK(found.errors.maxCoeff() < 1e-9);
  }
}

TEST_CASE("A code is a least squares solution on its support, and its errors are true", "[geopair][sparse]") {
  const Matrix atoms = random_matrix(12, 20, 3), y = random_matrix(12, 15, 4);
  for (const SupportSolver solver : solvers) {
    const SparseCode found = code(atoms, y, with(5, solver));
    CHECK((found.errors - errors(atoms, y, found.coefficients)).norm() < 1e-11);
    for (Index j = 0; j < y.cols(); ++j) {
      const Vector c = found.coefficients.col(j), gradient = atoms.transpose() * (y.col(j) - atoms * c);
      CHECK((c.array() != 0).count() <= 5);
      CHECK((c.array() != 0).select(gradient.array(), 0).matrix().norm() < 1e-6);
    }
  }
}

TEST_CASE("Warm coding never raises an error, cold coding ignores the past", "[geopair][sparse]") {
  const Matrix atoms = random_matrix(12, 20, 5), y = random_matrix(12, 40, 6);
  Matrix start = code(atoms, y, with(4)).coefficients;
  const Matrix moved = atoms + 0.3 * random_matrix(12, 20, 7);
  for (const SupportSolver solver : solvers) {
    const SparseCode warm = code(moved, y, with(4, solver), &start);
    CHECK((warm.errors.array() <= errors(moved, y, start).array() + 1e-12).all());
  }
  // more nonzeros than allowed: the largest count
  const SparseCode fewer = code(atoms, y, with(2), &start);
  CHECK(((fewer.coefficients.array() != 0).colwise().count().array() <= 2).all());
}

TEST_CASE("With as many nonzeros as atoms a code is plain least squares", "[geopair][sparse]") {
  const Matrix atoms = random_matrix(9, 6, 8), y = random_matrix(9, 5, 9);
  const Matrix expected = rotorlin::LeastSquares(atoms).solve(y);
  CHECK((code(atoms, y, with(6)).coefficients - expected).norm() < 1e-12);
  Matrix dependent = atoms;
  dependent.col(5) = dependent.col(0);
  const SparseCode found = code(dependent, y, with(6));
  CHECK(found.coefficients.allFinite());
  CHECK((found.errors - errors(dependent, y, rotorlin::LeastSquares(dependent).solve(y))).norm() < 1e-10);
}

TEST_CASE("The scale of the atoms does not matter", "[geopair][sparse]") {
  const Matrix atoms = random_matrix(12, 20, 10), y = random_matrix(12, 10, 11);
  Vector scales(20);
  for (Index i = 0; i < 20; ++i) scales[i] = std::pow(10.0, static_cast<double>(i % 13) - 6);
  const Matrix c = code(atoms, y, with(4)).coefficients;
  const Matrix scaled = code(atoms * scales.asDiagonal(), y, with(4)).coefficients;
  CHECK((scales.asDiagonal() * scaled - c).norm() < 1e-9 * c.norm());
}

TEST_CASE("Zero columns, zero atoms and repeated atoms", "[geopair][sparse]") {
  Matrix atoms = random_matrix(6, 8, 12), y = random_matrix(6, 4, 13);
  atoms.col(2).setZero();
  atoms.col(5) = atoms.col(4);
  y.col(1).setZero();
  for (const SupportSolver solver : solvers) {
    for (const Index k : {1, 3, 7, 8}) {
      CAPTURE(k);
      const SparseCode found = code(atoms, y, with(k, solver));
      CHECK(found.coefficients.allFinite());
      CHECK(found.coefficients.col(1).norm() == 0);
      CHECK(found.coefficients.row(2).norm() == 0);
      CHECK((found.errors.array() <= y.colwise().squaredNorm().transpose().array()).all());
    }
  }
}

TEST_CASE("Ties go to the smaller index", "[geopair][sparse]") {
  const Matrix atoms = Matrix::Identity(4, 4);
  const Matrix c = code(atoms, Matrix::Ones(4, 1), with(2)).coefficients;
  CHECK(c == (Matrix(4, 1) << 1, 1, 0, 0).finished());
}

TEST_CASE("Wrong shapes and counts are refused", "[geopair][sparse]") {
  const Matrix gram = Matrix::Identity(3, 3), products = Matrix::Ones(3, 2);
  const Vector energies = Vector::Ones(2);
  CHECK_THROWS_AS(hard_thresholding_pursuit(gram, products, energies, with(0)), std::invalid_argument);
  CHECK_THROWS_AS(hard_thresholding_pursuit(gram, products, energies, with(4)), std::invalid_argument);
  CHECK_THROWS_AS(hard_thresholding_pursuit(gram, Matrix::Ones(2, 2), energies, with(1)),
                  std::invalid_argument);
  CHECK_THROWS_AS(hard_thresholding_pursuit(gram, products, Vector::Ones(3), with(1)), std::invalid_argument);
  const Matrix start = Matrix::Ones(3, 1);
  CHECK_THROWS_AS(hard_thresholding_pursuit(gram, products, energies, with(1), &start),
                  std::invalid_argument);
}

TEST_CASE("Errors are true where atoms nearly depend on each other", "[geopair][sparse]") {
  for (const double difference : {1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-12}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Matrix atoms = random_matrix(8, 12, 400 + seed);
      for (Index j = 1; j < 6; ++j) atoms.col(j) = atoms.col(0) + difference * atoms.col(j);
      const Matrix y = random_matrix(8, 20, 500 + seed);
      const Vector energies = y.colwise().squaredNorm();
      for (const SupportSolver solver : solvers) {
        for (const Index k : {2, 6}) {
          CAPTURE(difference, seed, k, solver == SupportSolver::cholesky);
          const SparseCode cold = code(atoms, y, with(k, solver));
          const SparseCode warm = code(atoms, y, with(k, solver), &cold.coefficients);
          for (const SparseCode* found : {&cold, &warm}) {
            const Vector expected = errors(atoms, y, found->coefficients);
            CHECK(((found->errors - expected).cwiseAbs().array() <= 1e-5 * energies.array()).all());
            CHECK((expected.array() <= energies.array() * (1 + 1e-6)).all());
          }
        }
      }
    }
  }
}

TEST_CASE("The largest eigenvalue is not missed for symmetry", "[geopair][sparse]") {
  Matrix pair(2, 2);
  pair << 1, -0.9, -0.9, 1;
  CHECK(rotorlin::detail::largest_eigenvalue(pair) == Approx(1.9));
  Matrix pairs = Matrix::Zero(4, 4);
  pairs.topLeftCorner(2, 2) = pairs.bottomRightCorner(2, 2) = pair;
  CHECK(rotorlin::detail::largest_eigenvalue(pairs) == Approx(1.9));
  CHECK(rotorlin::detail::largest_eigenvalue(Matrix::Zero(3, 3)) == 0);
}
