// SPDX-License-Identifier: MIT
#include "rotorlin/sandwich/sandwich.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "rotorlin/algebra/multivector.hpp"
#include "support/direct.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;

TEST_CASE("Rotors act on batches as on single multivectors") {
  for (int n = 1; n <= 8; ++n) {
    const Rotor<double, Dynamic> r(Signature<Dynamic>(n), test::RandomRotor(n, 1).even);
    const Rotor<double, Dynamic> s(Signature<Dynamic>(n), test::RandomRotor(n, 2).even);
    for (const Index batch : {1, 3, 21}) {
      Matrix<double> x(Index{1} << n, batch);
      Random(3).fill_uniform(x, -1.0, 1.0);
      for (const Kernel kernel : {Kernel::automatic, Kernel::parity_blocks, Kernel::spinor, Kernel::shears}) {
        CAPTURE(n, batch, std::string(to_string(kernel)));
        const auto check = [&](const Sandwich<double>& action, const auto& second) {
          const Matrix<double> y = action.apply(x);
          for (Index sample = 0; sample < batch; ++sample) {
            const VectorX<double> expected =
                test::direct_sandwich(n, r.coeffs(), second.coeffs(), x.col(sample));
            CHECK((y.col(sample) - expected).norm() <= 1e-13 * expected.norm());
          }
          Matrix<double> back(x.rows(), batch);
          Sandwich<double>::Workspace workspace;
          action.apply_adjoint(y, back, workspace);
          CHECK((back - x).norm() <= 1e-13 * x.norm());
        };
        check(Sandwich<double>(r, kernel), r);
        if (kernel != Kernel::shears) check(Sandwich<double>(r, s, kernel), s);
      }
    }
  }
}

TEST_CASE("Wrong calls of Sandwich are refused") {
  const Rotor<float, Dynamic> r(Signature<Dynamic>(3));
  const Rotor<float, Dynamic> other(Signature<Dynamic>(4));
  CHECK_THROWS_WITH((Sandwich<float>(r, other)), Contains("Cl(3)") && Contains("Cl(4)"));
  CHECK_THROWS_WITH((Sandwich<float>(r, r, Kernel::shears)), Contains("one rotor"));
  CHECK_THROWS_WITH((Sandwich<float>(r, Kernel::dense)), Contains("parity_blocks"));
  CHECK_THROWS_WITH((Sandwich<float>(Rotor<float, Dynamic>(Signature<Dynamic>(0)))), Contains("1 <= n"));
  CHECK_THROWS_WITH((Sandwich<float>(r, static_cast<Kernel>(77))), Contains("kernel = 77"));
  const Rotor<float, Dynamic> large(Signature<Dynamic>(7));
  CHECK_THROWS_WITH((Sandwich<float>(2.0f * large)), Contains("normalized()"));
  CHECK_THROWS_AS((Sandwich<float>(large * std::numeric_limits<float>::infinity())), std::domain_error);
  const Sandwich<float> action(r);
  CHECK_THROWS_WITH(action.apply(Matrix<float>(7, 2)), Contains("7 x 2") && Contains("8 x batch"));
  CHECK_THROWS_WITH(action.apply(Matrix<float>(8, 0)), Contains("8 x 0"));
  Matrix<float> y(8, 3);
  Sandwich<float>::Workspace workspace;
  CHECK_THROWS_WITH(action.apply(Matrix<float>::Zero(8, 2), y, workspace),
                    Contains("8 x 3") && Contains("8 x 2"));
}
