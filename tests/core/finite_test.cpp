// SPDX-License-Identifier: MIT
#include "rotorlin/core/finite.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace rotorlin;
using rotorlin::detail::all_finite;
using rotorlin::detail::is_finite;

TEMPLATE_TEST_CASE("Finite numbers are told from NaN and infinities", "", float, double, long double) {
  using Limits = std::numeric_limits<TestType>;
  for (const TestType x : {TestType(0), -TestType(0), TestType(1), Limits::max(), Limits::lowest(),
                           Limits::min(), Limits::denorm_min(), -Limits::denorm_min()}) {
    CHECK(is_finite(x));
  }
  for (const TestType x : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::quiet_NaN(),
                           Limits::signaling_NaN()}) {
    CHECK_FALSE(is_finite(x));
  }
  CHECK(is_finite(7));
}

TEMPLATE_TEST_CASE("One entry that is not finite is found wherever it stands", "", float, double,
                   long double) {
  using Limits = std::numeric_limits<TestType>;
  for (const Index n : {0, 1, 7, 8, 9, 16, 31}) {
    VectorX<TestType> v = VectorX<TestType>::Constant(n, Limits::max());
    CHECK(all_finite(v));
    for (Index i = 0; i < n; ++i) {
      for (const TestType bad :
           {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::quiet_NaN()}) {
        v[i] = bad;
        CHECK_FALSE(all_finite(v));
        v[i] = -1;
      }
    }
  }
  Matrix<TestType> m = Matrix<TestType>::Ones(5, 4);
  for (Index j = 0; j < 4; ++j) {
    for (Index i = 0; i < 5; ++i) {
      m(i, j) = Limits::quiet_NaN();
      const bool inside = i >= 1 && i < 4 && j >= 1 && j < 3;
      CAPTURE(i, j);
      CHECK_FALSE(all_finite(m));
      CHECK_FALSE(all_finite(m.transpose()));
      CHECK_FALSE(all_finite((m + m).eval()));
      CHECK_FALSE(all_finite(m * TestType(2)));  // an expression
      CHECK(all_finite(m.block(1, 1, 3, 2)) == !inside);
      CHECK(all_finite(m.row(2)) == (i != 2));
      CHECK(all_finite(m.col(2)) == (j != 2));
      const Eigen::Map<const Matrix<TestType>, 0, Eigen::Stride<10, 2>> every_other(m.data(), 3, 2);
      CHECK(all_finite(every_other) == (i % 2 == 1 || j % 2 == 1));
      m(i, j) = 1;
    }
  }
  CHECK(all_finite(Matrix<TestType>(0, 3)));
  CHECK(all_finite(Matrix<TestType>(3, 0)));
}
