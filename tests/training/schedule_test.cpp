// SPDX-License-Identifier: MIT
#include "rotorlin/training/schedule.hpp"

#include <catch2/catch.hpp>

using namespace rotorlin;

TEST_CASE("the cosine goes from the base to the minimum") {
  const CosineSchedule schedule(1.0, 0.2, 100);
  CHECK(schedule.rate(0) == Approx(1.0));
  CHECK(schedule.rate(50) == Approx(0.6));
  CHECK(schedule.rate(25) == Approx(0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2));
  CHECK(schedule.rate(100) == Approx(0.2));
  CHECK(schedule.rate(1000) == Approx(0.2));
  for (Index t = 0; t < 100; ++t) CHECK(schedule.rate(t + 1) < schedule.rate(t));
}

TEST_CASE("the warm-up rises in equal steps") {
  const CosineSchedule schedule(1.0, 0.0, 104, 4);
  CHECK(schedule.rate(0) == Approx(0.2));
  CHECK(schedule.rate(3) == Approx(0.8));
  CHECK(schedule.rate(4) == Approx(1.0));
  CHECK(schedule.rate(54) == Approx(0.5));
  CHECK(CosineSchedule(1, 0, 3, 3).rate(2) == Approx(0.75));
}

TEST_CASE("impossible schedules are refused") {
  CHECK_THROWS_AS(CosineSchedule(-1, 0, 10), std::invalid_argument);
  CHECK_THROWS_AS(CosineSchedule(0.1, 0.2, 10), std::invalid_argument);
  CHECK_THROWS_AS(CosineSchedule(std::nan(""), 0, 10), std::invalid_argument);
  CHECK_THROWS_AS(CosineSchedule(INFINITY, 0, 10), std::invalid_argument);
  CHECK_THROWS_AS(CosineSchedule(1, 0, 0), std::invalid_argument);
  CHECK_THROWS_AS(CosineSchedule(1, 0, 10, 11), std::invalid_argument);
  CHECK_THROWS_AS(CosineSchedule(1, 0, 10, -1), std::invalid_argument);
}
