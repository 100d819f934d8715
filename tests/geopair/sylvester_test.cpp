// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/sylvester.hpp"

#include <catch2/catch.hpp>

#include "problems.hpp"
#include "rotorlin/linalg/whitening.hpp"

using rotorlin::JointDiagonalization;
using test::Index;
using test::Matrix;
using test::random_matrix;
using test::relative;

namespace {

Matrix apply(const std::vector<Matrix>& l, const std::vector<Matrix>& c, const Matrix& x) {
  Matrix sum = Matrix::Zero(x.rows(), x.cols());
  for (std::size_t i = 0; i < l.size(); ++i) sum += l[i].transpose() * (l[i] * (x * c[i]) * c[i].transpose());
  return sum;
}

struct Problem {
  std::vector<Matrix> l, c;
  Matrix solution;  // of what the coefficients use
  Matrix right() const { return apply(l, c, solution); }
  double residual(const Matrix& x) const { return relative(apply(l, c, x) - right(), right()); }
};

Matrix solve(const Problem& p) {
  const JointDiagonalization grams(p.l[0], p.l[1]), coefficients(p.c[0].transpose(), p.c[1].transpose());
  return rotorlin::solve_sylvester(grams, coefficients, p.right());
}

Problem random_problem(Index d, Index r, std::vector<Index> widths, double condition) {
  Problem p;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    p.l.push_back(rotorlin::whiten(test::random_gram(d, condition, 100 + i), 0).factor);
    p.c.push_back(random_matrix(r, widths[i], 200 + i));
  }
  p.solution = random_matrix(d, r, 300);
  return p;
}

}  // namespace

TEST_CASE("Both Gram matrices become diagonal at once", "[geopair][sylvester]") {
  const Matrix f = random_matrix(9, 6, 1), h = 1e6 * random_matrix(4, 6, 2);
  const JointDiagonalization joint(f, h);
  const Matrix& p = joint.transform();
  CHECK(relative((f * p).transpose() * (f * p) - Matrix(joint.first().asDiagonal()), joint.first()) < 1e-13);
  CHECK(relative((h * p).transpose() * (h * p) - Matrix(joint.second().asDiagonal()), joint.second()) <
        1e-13);
  CHECK(joint.second().minCoeff() > -1e-300);
  CHECK((joint.second().array() > 1e-20 * 1e12).count() == 4);  // h has rank 4
  CHECK_THROWS_AS(JointDiagonalization(f, random_matrix(4, 5, 3)), std::invalid_argument);
}

TEST_CASE("Two terms are solved to rounding at condition 1e8", "[geopair][sylvester]") {
  for (const double condition : {1e1, 1e8}) {
    CAPTURE(condition);
    const Problem p = random_problem(24, 10, {15, 30}, condition);
    CHECK(p.residual(solve(p)) < 1e-13);
  }
}

TEST_CASE("Scales 1e6 apart do no harm", "[geopair][sylvester]") {
  Problem p = random_problem(16, 8, {12, 12}, 1e4);
  p.l[0] *= 1e6;
  CHECK(p.residual(solve(p)) < 1e-13);
  p.c[1] *= 1e6;
  CHECK(p.residual(solve(p)) < 1e-13);
  CHECK(relative(solve(p) - p.solution, p.solution) < 1e-8);
}

TEST_CASE("What no coefficient uses is not touched", "[geopair][sylvester]") {
  Problem p = random_problem(10, 8, {2, 3}, 1e3);  // rank 5 of 8
  Matrix x = solve(p);
  CHECK(p.residual(x) < 1e-13);
  Matrix both(8, 5);
  both << p.c[0], p.c[1];
  const rotorlin::LeastSquares used(both);
  CHECK((x - x * used.basis() * used.basis().transpose()).norm() < 1e-12 * x.norm());

  p = random_problem(10, 5, {7, 7}, 1e3);
  p.c[0].row(2).setZero();
  p.c[1].row(2).setZero();
  x = solve(p);
  CHECK(p.residual(x) < 1e-13);
  CHECK(x.col(2).norm() < 1e-13 * x.norm());
}

TEST_CASE("A term of zeros leaves the other one alone", "[geopair][sylvester]") {
  Problem p = random_problem(10, 4, {6, 6}, 1e3);
  p.c[1].setZero();
  CHECK(relative(solve(p) - p.solution, p.solution) < 1e-11);
  p.c[0].setZero();
  CHECK(solve(p).norm() == 0);
}

TEST_CASE("Equal Gram matrices and equal coefficients are no special case", "[geopair][sylvester]") {
  Problem p = random_problem(10, 4, {6, 6}, 1e3);
  p.l[1] = p.l[0];
  CHECK(relative(solve(p) - p.solution, p.solution) < 1e-11);
  p.c[1] = p.c[0];
  CHECK(relative(solve(p) - p.solution, p.solution) < 1e-11);
}

TEST_CASE("Conjugate gradients solve any number of terms", "[geopair][sylvester]") {
  for (const std::size_t terms : {1u, 2u, 5u}) {
    CAPTURE(terms);
    const Problem p = random_problem(14, 6, std::vector<Index>(terms, 9), 30);
    std::vector<const Matrix*> factors;
    for (const Matrix& l : p.l) factors.push_back(&l);
    rotorlin::SylvesterProgress progress;
    const rotorlin::SylvesterConjugateGradients solver(factors);
    const Matrix x = solver.solve(p.c, p.right(), 200, 1e-13, &progress);
    CHECK(p.residual(x) < 1e-12);
    CHECK(progress.steps < (terms == 1 ? 3 : 80));
    CHECK(progress.relative_residual == Approx(p.residual(x)).margin(1e-12));
    CHECK(solver.solve(p.c, Matrix::Zero(14, 6), 10).norm() == 0);
    CHECK_THROWS_AS(solver.solve(p.c, Matrix::Zero(13, 6), 10), std::invalid_argument);
    CHECK_THROWS_AS(solver.solve(p.c, Matrix::Zero(14, 5), 10), std::invalid_argument);
  }
  CHECK_THROWS_AS(rotorlin::SylvesterConjugateGradients({}), std::invalid_argument);
}

TEST_CASE("Conjugate gradients leave unused directions alone", "[geopair][sylvester]") {
  Problem p = random_problem(8, 5, {6, 6, 6}, 10);
  for (Matrix& c : p.c) c.row(3).setZero();
  std::vector<const Matrix*> factors;
  for (const Matrix& l : p.l) factors.push_back(&l);
  const Matrix x = rotorlin::SylvesterConjugateGradients(factors).solve(p.c, p.right(), 100, 1e-13);
  CHECK(p.residual(x) < 1e-12);
  CHECK(x.col(3).norm() < 1e-12);
}
