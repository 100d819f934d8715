// SPDX-License-Identifier: MIT
// Operations of static algebras take no memory from the heap.
#include <catch2/catch.hpp>
#include <random>

#include "algebra/oracle.hpp"
#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/algebra/rotation.hpp"
#include "support/allocation_counter.hpp"

namespace {

template <int P, int Q = 0, int R = 0>
long allocations_of_algebra() {
  using namespace rotorlin;
  std::mt19937 generator(1);
  using M = Multivector<double, P, Q, R>;
  using V = Vector<double, P, Q, R>;
  using B = Bivector<double, P, Q, R>;
  using E = Rotor<double, P, Q, R>;
  const auto a = test::random_element<M>({}, generator), b = test::random_element<M>({}, generator);
  const auto v = test::random_element<V>({}, generator), w = test::random_element<V>({}, generator);
  const auto f = test::random_element<B>({}, generator);
  double sum = 0;
  if (P + Q + R > 5) sum += (a * b)[0];  // scratch of a thread
  const long before = test::allocations();
  const E r = ((v * w).even_part() + E()).normalized();
  const M c = (a * b) + (a ^ b) + (a | b) + left_contraction(a, b) + right_contraction(a, b) + r * a + v * a;
  const M d = c.reversed() + c.involuted().conjugated() + complement(c) + M(f) + c.grade_part(1);
  sum += d.norm() + scalar_product(c, d) + r.apply(v)[0] + r.apply(f)[0] + r.apply(d)[0] + r.apply(r)[0];
  sum += sandwich(r, d, r)[0] + inverse(v)[0] + d.template cast<float>()[0] + (r * r * 2.0)[0] + (v + a)[0];
  if constexpr (Q == 0 && R == 0) {
    const auto matrix = r.to_rotation_matrix();
    sum += E::from_rotation_matrix(matrix)[0] + E::from_rotation_matrix(matrix.transpose())[0];
    sum += between(v, w)[0];
    sum += f.to_skew_matrix()(0, 1) + dual(c)[0];
  }
  const long count = test::allocations() - before;
  CHECK(sum == sum);
  return count;
}

}  // namespace

TEST_CASE("Static algebras allocate nothing") {
  if (!test::counts_allocations) return;
  CHECK(allocations_of_algebra<3>() == 0);
  CHECK(allocations_of_algebra<4>() == 0);
  CHECK(allocations_of_algebra<3, 0, 1>() == 0);
  CHECK(allocations_of_algebra<6>() == 0);
}
