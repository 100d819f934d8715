// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>

#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/core/random.hpp"

using namespace rotorlin;

namespace {

template <class S, Part A, Part B>
void check(int n, double tolerance) {
  constexpr Part C = A == Part::even && B == Part::even ? Part::even : Part::all;
  CAPTURE(n, static_cast<int>(A), static_cast<int>(B), sizeof(S));
  Random random(static_cast<unsigned>(n));
  VectorX<S> a(detail::part_size(A, n));
  VectorX<S> b(detail::part_size(B, n));
  random.fill_uniform(a, -1.0, 1.0);
  random.fill_uniform(b, -1.0, 1.0);
  VectorX<S> matrices(detail::part_size(C, n));
  VectorX<S> terms = VectorX<S>::Zero(matrices.size());
  detail::matrix_product<A, B>(n, a.data(), b.data(), matrices.data());
  detail::multiply<Product::geometric, A, B, C>(Signature<Dynamic>(n), a.data(), b.data(), terms.data());
  CHECK(static_cast<double>((matrices - terms).norm()) <= tolerance * static_cast<double>(terms.norm()));
}

template <class S>
void check_parts(int n, double tolerance) {
  check<S, Part::all, Part::all>(n, tolerance);
  check<S, Part::all, Part::even>(n, tolerance);
  check<S, Part::even, Part::all>(n, tolerance);
  check<S, Part::even, Part::even>(n, tolerance);
}

}  // namespace

TEST_CASE("The product by matrices equals the product term by term") {
  for (int n = 1; n <= 10; ++n) {
    check_parts<double>(n, 4e-15);
    check_parts<float>(n, 2e-6);
    if (n <= 7) check_parts<long double>(n, 1e-17);
  }
}

TEST_CASE("Multivectors and rotors of large n multiply by matrices") {
  const auto e = [](int n, Index i) {
    Multivector<double, Dynamic> x{Signature<Dynamic>(n)};
    x[i] = 1;
    return x;
  };
  for (int n : {5, 8, 11, 12}) {
    // e1 e2 = e12 and e12 e12 = -1
    CHECK((e(n, 1) * e(n, 2)).is_approx(e(n, n + 1)));
    CHECK((e(n, n + 1) * e(n, n + 1)).is_approx(-e(n, 0)));
  }
}
