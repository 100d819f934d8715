// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <limits>

#include "geopair/problems.hpp"
#include "rotorlin/linalg/gram_accumulator.hpp"
#include "rotorlin/linalg/whitening.hpp"

using rotorlin::CrossGramAccumulator;
using rotorlin::GramAccumulator;
using rotorlin::Whitening;
using test::Index;
using test::Matrix;
using test::random_matrix;

TEST_CASE("A Gram matrix does not depend on how its samples are cut into batches", "[geopair][gram]") {
  const Matrix x = random_matrix(5, 700, 1);
  const Matrix gram = x * x.transpose() / 700;
  GramAccumulator whole(5), first(5), second(5);
  whole.add(x);  // more than one block of conversion
  first.add(x.leftCols(1));
  first.add(x.middleCols(1, 300));
  second.add(x.rightCols(399));
  first.merge(second);
  first.merge(GramAccumulator(5));
  for (const GramAccumulator* each : {&whole, &first}) {
    CHECK(each->count() == 700);
    CHECK((each->gram() - gram).norm() < 1e-13 * gram.norm());
    CHECK((each->gram() - each->gram().transpose()).norm() == 0);
    CHECK((each->mean() - x.rowwise().mean()).norm() < 1e-14);
  }
}

TEST_CASE("Sums of floats are kept in double", "[geopair][gram]") {
  const Eigen::MatrixXf x = Eigen::MatrixXf::Constant(2, 3000, 0.1f);
  GramAccumulator gram(2);
  gram.add(x);
  CHECK(gram.gram()(0, 1) == Approx(double(0.1f) * double(0.1f)).epsilon(1e-13));
}

TEST_CASE("Activations that are not finite are refused and leave no trace", "[geopair][gram]") {
  Matrix x = random_matrix(3, 4, 2);
  GramAccumulator gram(3);
  gram.add(x);
  const Matrix before = gram.gram();
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    x(1, 2) = bad;
    CHECK_THROWS_AS(gram.add(x), std::domain_error);
    CHECK_THROWS_AS(gram.add(x.cast<float>()), std::domain_error);
  }
  CHECK(gram.count() == 4);
  CHECK(gram.gram() == before);
}

TEST_CASE("Wrong batches name both shapes", "[geopair][gram]") {
  GramAccumulator gram(3);
  CHECK_THROWS_WITH(gram.add(random_matrix(4, 2, 3)), Catch::Contains("4 x 2") && Catch::Contains("3 x"));
  CHECK_THROWS_AS(gram.add(Matrix(3, 0)), std::invalid_argument);
  CHECK_THROWS_AS(gram.gram(), std::invalid_argument);
  CHECK_THROWS_AS(gram.mean(), std::invalid_argument);
  CHECK_THROWS_AS(gram.merge(GramAccumulator(2)), std::invalid_argument);
  CHECK_THROWS_AS(GramAccumulator(0), std::invalid_argument);
  CrossGramAccumulator cross(3, 2);
  CHECK_THROWS_AS(cross.add(random_matrix(3, 5, 1), random_matrix(2, 4, 1)), std::invalid_argument);
  CHECK_THROWS_AS(cross.gram(), std::invalid_argument);
}

TEST_CASE("Cross-Gram matrices of batches add up", "[geopair][gram]") {
  const Matrix x = random_matrix(3, 600, 4), z = random_matrix(2, 600, 5);
  CrossGramAccumulator cross(3, 2);
  cross.add(x.leftCols(17).cast<float>(), z.leftCols(17).cast<float>());
  cross.add(x.rightCols(583), z.rightCols(583));
  CHECK(cross.count() == 600);
  CHECK((cross.gram() - x * z.transpose() / 600).norm() < 1e-7);
}

TEST_CASE("Whitening factors the ridged Gram matrix", "[geopair][whitening]") {
  for (const double condition : {1.0, 1e4, 1e8}) {
    const Matrix gram = test::random_gram(20, condition, 6);
    const Whitening whitening = rotorlin::whiten(gram, 1e-9);
    CHECK(whitening.eta == 1e-9);
    const Matrix& l = whitening.factor;
    const Matrix ridged = gram + 1e-9 * gram.trace() / 20 * Matrix::Identity(20, 20);
    CHECK((l.transpose() * l - ridged).norm() < 1e-14 * gram.norm());
    CHECK(Matrix(l.triangularView<Eigen::StrictlyLower>()).norm() == 0);
  }
}

TEST_CASE("The ridge grows until a singular Gram matrix has a factor, and no further",
          "[geopair][whitening]") {
  const Matrix x = random_matrix(30, 7, 7);  // fewer samples than features
  const Matrix gram = x * x.transpose() / 7;
  const Whitening whitening = rotorlin::whiten(gram, 0);
  CHECK(whitening.eta > 0);
  CHECK(whitening.eta < 1e-10);
  CHECK(whitening.ridge == Approx(whitening.eta * gram.trace() / 30));
  const Matrix& l = whitening.factor;
  CHECK((l.transpose() * l - gram).norm() < 1e-10 * gram.norm());
  CHECK(rotorlin::whiten(gram, 1e-3).eta == 1e-3);

  Matrix dead = gram;  // a feature that is always zero
  dead.row(3).setZero();
  dead.col(3).setZero();
  CHECK(rotorlin::whiten(dead, 1e-3).factor(3, 3) > 0);
}

TEST_CASE("Badly scaled features need no ridge", "[geopair][whitening]") {
  Matrix gram = test::random_gram(6, 10, 8);
  const test::Vector scales = (test::Vector(6) << 1e-6, 1, 1e6, 1, 1e-3, 1e3).finished();
  gram = scales.asDiagonal() * gram * scales.asDiagonal();
  CHECK(rotorlin::whiten(gram, 0).eta == 0);
}

TEST_CASE("What is no Gram matrix is refused", "[geopair][whitening]") {
  Matrix gram = test::random_gram(4, 10, 9);
  CHECK_THROWS_AS(rotorlin::whiten(gram.leftCols(3)), std::invalid_argument);
  CHECK_THROWS_AS(rotorlin::whiten(Matrix()), std::invalid_argument);
  CHECK_THROWS_AS(rotorlin::whiten(Matrix::Zero(4, 4)), std::invalid_argument);
  CHECK_THROWS_AS(rotorlin::whiten(-gram), std::invalid_argument);
  CHECK_THROWS_AS(rotorlin::whiten(gram, -1), std::invalid_argument);
  CHECK_THROWS_AS(rotorlin::whiten(Eigen::Vector2d(1, -1).asDiagonal().toDenseMatrix() * 3 +
                                   1e-3 * Matrix::Identity(2, 2)),
                  std::invalid_argument);
  Matrix skewed = gram;
  skewed(0, 1) += 1e-3;
  CHECK_THROWS_AS(rotorlin::whiten(skewed), std::invalid_argument);
  gram(2, 2) = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(rotorlin::whiten(gram), std::domain_error);
}

TEST_CASE("The ridge grows up to the mean diagonal, whatever it began with", "[geopair][whiten]") {
  const test::Matrix gram = test::Vector{{1, -0.31}}.asDiagonal();
  for (const double eta : {0.0, 1e-3, 0.09, 0.5, 1.0}) {
    CAPTURE(eta);
    const rotorlin::Whitening whitening = rotorlin::whiten(gram, eta);
    CHECK(whitening.eta <= 1);
    CHECK(whitening.eta * 0.345 > 0.31);
  }
}

TEST_CASE("Activations whose squares leave the range are refused where they are added", "[linalg][gram]") {
  GramAccumulator gram(2);
  gram.add(Matrix::Ones(2, 3));
  const Matrix before = gram.gram();
  CHECK_THROWS_WITH(gram.add(1e160 * Matrix::Ones(2, 3)),
                    Catch::Contains("1e+160") && Catch::Contains("expected magnitudes below"));
  CHECK_THROWS_AS(CrossGramAccumulator(2, 2).add(1e160 * Matrix::Ones(2, 3), Matrix::Ones(2, 3)),
                  std::domain_error);
  CHECK(gram.gram() == before);
  GramAccumulator part(2), other_part(2), growing(2);
  part.add(Matrix::Constant(2, 1, 9e153));
  other_part.add(Matrix::Constant(2, 1, 9e153));
  part.merge(GramAccumulator(2));
  CHECK_THROWS_WITH(part.merge(other_part),
                    Catch::StartsWith("GramAccumulator::merge") && Catch::Contains("9e+153"));
  CHECK(part.count() == 1);
  growing.add(Matrix::Constant(2, 1, 9e153));
  CHECK_THROWS_AS(growing.add(Matrix::Constant(2, 1, 6e153)), std::domain_error);  // 1.2e308 by themselves
  GramAccumulator tiny(2);
  tiny.add(1e-170 * Matrix::Ones(2, 3));
  CHECK_THROWS_WITH(tiny.gram(), Catch::Contains("1e-170") && Catch::Contains("expected"));
  GramAccumulator large(2);
  large.add(1e30 * Matrix::Ones(2, 3));
  CHECK(large.gram()(1, 0) == Approx(1e60));
}
