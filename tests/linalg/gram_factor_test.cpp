// SPDX-License-Identifier: MIT
#include "rotorlin/linalg/gram_factor.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "rotorlin/core/random.hpp"

using namespace rotorlin;
using Catch::Contains;

namespace {

Matrix<double> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  Matrix<double> m(rows, cols);
  Random(seed).fill_uniform(m, -1, 1);
  return m;
}

double difference(const Matrix<double>& a, const Matrix<double>& b) {
  return (a - b).stableNorm() / b.stableNorm();
}

}  // namespace

TEST_CASE("a Gram matrix is the product of its factor with itself, at any scale") {
  const Matrix<double> x = random_matrix(6, 40, 1), gram = x * x.transpose();
  for (const double scale : {1e-300, 1e-6, 1.0, 1e6, 1e300}) {
    const Matrix<double> f = factor_gram<double>(scale * gram, "test");
    REQUIRE(f.rows() == 6);
    REQUIRE(f.cols() == 6);
    CHECK(difference(f * f.transpose(), scale * gram) < 1e-14);
    for (Index i = 1; i < 6; ++i) {
      CHECK(f.col(i).stableNorm() <= f.col(i - 1).stableNorm());
      CHECK(std::abs(f.col(i).normalized().dot(f.col(0).normalized())) < 1e-14);
    }
  }
}

TEST_CASE("a singular Gram matrix has a factor of its rank") {
  const Matrix<double> x = random_matrix(6, 2, 1), gram = x * x.transpose();
  const Matrix<double> f = factor_gram(gram, "test");
  CHECK(f.cols() == 2);
  CHECK(difference(f * f.transpose(), gram) < 1e-14);

  // Rounded to float, the zeros are noise of 1e-8, which only the right epsilon tells from signal.
  const Matrix<double> rounded = gram.cast<float>().cast<double>();
  CHECK(factor_gram(rounded, "test", std::numeric_limits<float>::epsilon()).cols() == 2);
  CHECK(factor_gram(rounded, "test").cols() > 2);

  CHECK(std::abs(factor_gram<double>(Matrix<double>::Constant(1, 1, 4), "test")(0, 0)) == Approx(2));
}

TEST_CASE("what is not a Gram matrix is refused") {
  const Matrix<double> identity = Matrix<double>::Identity(3, 3);
  Matrix<double> bad = identity;
  bad(0, 1) = 1e-3;
  CHECK_THROWS_WITH(factor_gram(bad, "who"), Contains("who") && Contains("symmetric") && Contains("0.001"));
  bad(1, 0) = 1e-3;
  CHECK_NOTHROW(factor_gram(bad, "who"));
  bad(2, 2) = -1e-3;
  CHECK_THROWS_WITH(factor_gram(bad, "who"), Contains("semidefinite") && Contains("-0.001"));
  bad(2, 2) = std::nan("");
  CHECK_THROWS_AS(factor_gram(bad, "who"), std::domain_error);
  bad(2, 2) = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(factor_gram(bad, "who"), std::domain_error);
  CHECK_THROWS_WITH(factor_gram<double>(-identity, "who"), Contains("semidefinite"));
  CHECK_THROWS_WITH(factor_gram<double>(0 * identity, "who"), Contains("zero"));
  CHECK_THROWS_WITH(factor_gram<double>(identity.topRows(2), "who"), Contains("2 x 3"));
  CHECK_THROWS_WITH(factor_gram<double>(Matrix<double>(), "who"), Contains("0 x 0"));
}
