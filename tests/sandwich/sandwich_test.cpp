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

TEST_CASE("Sandwich: the output may be the input, and must not overlap it in part") {
  for (const Kernel kernel : {Kernel::parity_blocks, Kernel::spinor, Kernel::shears}) {
    for (const Index batch : {1, 2, 19}) {
      CAPTURE(std::string(to_string(kernel)), batch);
      const Rotor<double, Dynamic> r(Signature<Dynamic>(6), test::RandomRotor(6, 1).even);
      const Sandwich<double> action(r, kernel);
      Sandwich<double>::Workspace workspace;
      VectorX<double> memory(64 * (batch + 1));
      Random(3).fill_uniform(memory, -1.0, 1.0);
      const VectorX<double> kept = memory;
      const auto at = [&](Index offset) {
        return Eigen::Map<Matrix<double>>(memory.data() + offset, 64, batch);
      };
      const Matrix<double> expected = action.apply(at(0));
      for (const Index offset : {1, 32, 63}) {
        CHECK_THROWS_WITH(action.apply(at(0), at(offset), workspace), Contains("same memory"));
        CHECK_THROWS_WITH(action.apply(at(offset), at(0), workspace), Contains("same memory"));
        CHECK_THROWS_WITH(action.apply_adjoint(at(0), at(offset), workspace), Contains("same memory"));
      }
      CHECK(memory == kept);
      action.apply(at(0), at(0), workspace);
      CHECK(at(0) == expected);
      // the upper and the lower rows of one matrix
      Matrix<double> tall(128, batch);
      tall.bottomRows(64) = Eigen::Map<const Matrix<double>>(kept.data(), 64, batch);
      action.apply(tall.bottomRows(64), tall.topRows(64), workspace);
      CHECK(tall.topRows(64) == expected);
    }
  }
}
