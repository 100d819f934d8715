// SPDX-License-Identifier: MIT
#include "algebra/laws.hpp"

TEST_CASE("laws: other signatures at compile time") {
  test::check_laws<double>(rotorlin::Signature<0, 2>{});     // quaternions
  test::check_laws<double>(rotorlin::Signature<3, 0, 1>{});  // planes of projective geometry
  test::check_laws<double>(rotorlin::Signature<1, 3>{});     // space and time
  test::check_laws<float>(rotorlin::Signature<0, 0, 3>{});   // Grassmann
}
