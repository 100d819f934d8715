// SPDX-License-Identifier: MIT
#include "algebra/laws.hpp"

TEST_CASE("laws: n at compile time, Euclidean") {
  test::check_laws<double>(rotorlin::Signature<3>{});
  test::check_laws<float>(rotorlin::Signature<4>{});
}

TEST_CASE("laws: products beyond the unrolled ones") { test::check_laws<double>(rotorlin::Signature<6>{}); }

TEST_CASE("laws: long double") { test::check_laws<long double>(rotorlin::Signature<2>{}); }
