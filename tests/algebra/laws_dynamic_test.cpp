// SPDX-License-Identifier: MIT
#include "algebra/laws.hpp"

using rotorlin::Dynamic;

TEST_CASE("laws: n at run time") {
  for (int n = 0; n <= 5; ++n) test::check_laws<double>(rotorlin::Signature<Dynamic>(n));
}

TEST_CASE("laws: signature at run time") {
  using Any = rotorlin::Signature<Dynamic, Dynamic, Dynamic>;
  for (const Any& algebra :
       {Any(3, 0, 0), Any(0, 1, 0), Any(0, 0, 2), Any(3, 1, 1), Any(4, 1, 0), Any(2, 2, 1), Any(1, 1, 1)}) {
    test::check_laws<double>(algebra);
  }
}
