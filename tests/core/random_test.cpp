// SPDX-License-Identifier: MIT
#include "rotorlin/core/random.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <vector>

#include "rotorlin/core/finite.hpp"

using namespace rotorlin;

TEST_CASE("random numbers are seeded, and those of the standard's generator") {
  std::mt19937_64 engine(7);
  Random random(7), same(7), other(8);
  CHECK(random.uniform() == static_cast<double>(engine() >> 11) / 9007199254740992.0);
  CHECK(same.uniform() != other.uniform());
  CHECK(random.uniform() == same.uniform());
}

TEST_CASE("random numbers have the moments of their distributions") {
  Random random(1);
  constexpr int count = 100000;
  bool in_range = true;
  double uniform[3] = {}, normal[5] = {};
  std::vector<int> below(5);
  for (int i = 0; i < count; ++i) {
    const double u = random.uniform(-1, 3), n = random.normal();
    in_range = in_range && u >= -1 && u < 3 && std::isfinite(n);
    for (int k = 0; k < 3; ++k) uniform[k] += std::pow(u, k) / count;
    for (int k = 0; k < 5; ++k) normal[k] += std::pow(n, k) / count;
    ++below[static_cast<std::size_t>(random.below(5))];
  }
  CHECK(in_range);
  CHECK(uniform[1] == Approx(1).margin(0.02));
  CHECK(uniform[2] == Approx(1 + 16.0 / 12).margin(0.03));
  CHECK(normal[1] == Approx(0).margin(0.02));
  CHECK(normal[2] == Approx(1).margin(0.03));
  CHECK(normal[4] == Approx(3).margin(0.15));
  for (const int b : below) CHECK(b == Approx(count / 5).margin(600));
}

TEST_CASE("shuffled ranges keep their elements; matrices are filled column after column") {
  std::vector<int> values(100), sorted(100);
  std::iota(sorted.begin(), sorted.end(), 0);
  values = sorted;
  Random(3).shuffle(values);
  CHECK(values != sorted);
  std::sort(values.begin(), values.end());
  CHECK(values == sorted);
  std::vector<int> empty;
  Random(3).shuffle(empty);

  Matrix<double> m(2, 2);
  Random(3).fill_uniform(m.rightCols(1), 0, 1);
  Random random(3);
  CHECK(m(0, 1) == random.uniform());
  CHECK(m(1, 1) == random.uniform());
}

TEST_CASE("all_finite sees every NaN and infinity, and nothing else") {
  Matrix<float> m = Matrix<float>::Constant(5, 7, std::numeric_limits<float>::max());
  CHECK(detail::all_finite(m));
  CHECK(detail::all_finite(-m));
  CHECK(detail::all_finite(Matrix<float>(0, 3)));
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    for (Index i = 0; i < m.size(); ++i) {
      m.data()[i] = bad;
      CHECK_FALSE(detail::all_finite(m));
      m.data()[i] = 1;
    }
  }
}
