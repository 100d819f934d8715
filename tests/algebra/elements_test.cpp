// SPDX-License-Identifier: MIT
// What the types promise beyond the laws: construction, text, errors, static against run-time products, other
// scalars, large algebras.
#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <random>
#include <sstream>
#include <stdexcept>
#include <unsupported/Eigen/AutoDiff>
#include <utility>

#include "algebra/oracle.hpp"
#include "rotorlin/algebra/multivector.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;

namespace {

template <class E>
std::string text(const E& element) {
  std::ostringstream out;
  out << element;
  return out.str();
}

}  // namespace

TEST_CASE("signatures hold p, q, r and refuse contradictions") {
  constexpr Signature<3, 0, 1> projective;
  STATIC_REQUIRE(projective.n() == 4);
  STATIC_REQUIRE(projective.product_sign(0b1000, 0b1000) == 0);
  STATIC_REQUIRE(Signature<1, 3>{}.product_sign(0b0010, 0b0010) == -1);
  STATIC_REQUIRE(Signature<2>{}.product_sign(0b10, 0b01) == -1);
  STATIC_REQUIRE(sizeof(Signature<Dynamic>) <= 3 * sizeof(int));
  CHECK(Signature<Dynamic>(7).n() == 7);
  CHECK(Signature<Dynamic, Dynamic, Dynamic>(2, 1, 1).n() == 4);
  CHECK(Signature<Dynamic, Dynamic, Dynamic>(2, 1, 1).text() == "Cl(2, 1, 1)");
  CHECK_THROWS_WITH(Signature<3>(4), Contains("Cl(4)") && Contains("Cl(3, 0, 0)"));
  CHECK_THROWS_AS(Signature<Dynamic>(-1), std::invalid_argument);
  CHECK_THROWS_WITH(Signature<Dynamic>(15), Contains("14"));
  CHECK_THROWS_AS((Signature<Dynamic, Dynamic, Dynamic>(5, 5, 5)), std::invalid_argument);
}

TEST_CASE("the sign of a product of blades, against swapping neighbours") {
  using Any = Signature<Dynamic, Dynamic, Dynamic>;
  for (const Any& algebra : {Any(6, 0, 0), Any(2, 3, 1), Any(0, 4, 2)}) {
    for (unsigned a = 0; a < 64; ++a) {
      for (unsigned b = 0; b < 64; ++b)
        REQUIRE(algebra.product_sign(a, b) == test::blade_product(algebra, a, b).first);
    }
  }
  for (unsigned a : {0x3fffu, 0x2aaau, 0x1555u, 0x2001u, 0x1u}) {
    for (unsigned b : {0x3fffu, 0x2aaau, 0x1555u, 0x2001u, 0x2u}) {
      CHECK(Signature<14>{}.product_sign(a, b) == reorder_sign(a, b));
    }
  }
}

TEST_CASE("coefficients are in graded order, and their number is checked") {
  const Multivector<double, 3> m{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(text(m) == "1 + 2 e1 + 3 e2 + 4 e3 + 5 e12 + 6 e13 + 7 e23 + 8 e123");
  CHECK(text(Multivector<double, 3>{1.5, 0, 0, 0, 2, 0, 0, -1}) == "1.5 + 2 e12 - e123");
  CHECK(text(Vector<float, 3>{-1, 0, -0.5f}) == "-e1 - 0.5 e3");
  CHECK(text(Bivector<double, Dynamic>(4, {0, 0, 1, 0, 0, 0})) == "e14");
  CHECK(text(Rotor<double, 2>()) == "1");
  CHECK(text(Multivector<double, 3>()) == "0");
  CHECK(text(Vector<double, Dynamic>::basis(12, 11)) == "e11");
  CHECK(text(Vector<double, 12>::basis(2) ^ Vector<double, 12>::basis(11)) == "e2_11");
  CHECK(m.bivector_part() == Bivector<double, 3>{5, 6, 7});
  CHECK(m.even_part() == Rotor<double, 3>{1, 5, 6, 7});
  CHECK(m.scalar_part() == 1);
  CHECK(m.vector_part().scalar_part() == 0);

  CHECK_THROWS_WITH((Bivector<double, Dynamic>(4, {1, 2, 3})),
                    Contains("3 coefficients") && Contains("expected 6"));
  CHECK_THROWS_WITH((Rotor<float, Dynamic>(3, Eigen::VectorXf::Zero(8))), Contains("expected 4"));
  CHECK_THROWS_AS((Vector<double, 3>{1, 2}), std::invalid_argument);
  CHECK_THROWS_AS((Vector<double, 3>::basis(0)), std::invalid_argument);
  CHECK_THROWS_AS((Vector<double, 3>::basis(4)), std::invalid_argument);
  CHECK_THROWS_AS((Multivector<double, 3>::blade({}, 8)), std::invalid_argument);
}

TEST_CASE("operands of different algebras are refused with both signatures") {
  const Multivector<double, Dynamic> a(3), b(4);
  CHECK_THROWS_WITH(
      a * b, Contains("geometric_product") && Contains("Cl(3)") && Contains("Cl(4)") && Contains("16"));
  CHECK_THROWS_AS(a ^ b, std::invalid_argument);
  CHECK_THROWS_AS(a | b, std::invalid_argument);
  CHECK_THROWS_AS(a + b, std::invalid_argument);
  CHECK_THROWS_AS(a - b, std::invalid_argument);
  CHECK_THROWS_AS(left_contraction(a, b), std::invalid_argument);
  CHECK_THROWS_AS(right_contraction(a, b), std::invalid_argument);
  CHECK_THROWS_AS(commutator_product(a, b), std::invalid_argument);
  CHECK_THROWS_AS(scalar_product(a, b), std::invalid_argument);
  CHECK_THROWS_AS(a.is_approx(b), std::invalid_argument);
  CHECK_FALSE(a == b);
  const Rotor<double, Dynamic> r(5);
  CHECK_THROWS_WITH(r.apply(Vector<double, Dynamic>(4)), Contains("Cl(5)") && Contains("Cl(4)"));
  using Any = Multivector<double, Dynamic, Dynamic, Dynamic>;
  CHECK_THROWS_WITH(Any({2, 1, 0}) * Any({3, 0, 0}), Contains("Cl(2, 1, 0)") && Contains("Cl(3)"));
}

TEST_CASE("NaN is found and never equal") {
  Vector<double, 3> v{1, 2, 3};
  CHECK(v.all_finite());
  v[1] = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(v.all_finite());
  CHECK_FALSE(v.is_approx(v));
  v[1] = std::numeric_limits<double>::infinity();
  CHECK_FALSE(v.all_finite());
  CHECK_THROWS_AS(inverse(v), std::invalid_argument);
}

TEST_CASE("Inverses of versors whose squares overflow or vanish") {
  for (const double length : {1e-200, 1e200}) {
    const Vector<double, 3> v{3 * length, 0, 4 * length};
    CHECK((v * inverse(v))
              .is_approx(Multivector<double, 3>(Vector<double, 3>{1, 0, 0} * Vector<double, 3>{1, 0, 0})));
  }
}

TEST_CASE("the skew matrix of a bivector, and back") {
  const Bivector<double, 3> b{1, 2, 3};
  const Eigen::Matrix3d a = b.to_skew_matrix();
  CHECK(a(0, 1) == 1);
  CHECK(a(0, 2) == 2);
  CHECK(a(1, 2) == 3);
  CHECK((a + a.transpose()).norm() == 0);
  CHECK(Bivector<double, 3>::from_skew_matrix(a) == b);
  const Vector<double, 3> v{0.5, -1, 2};
  CHECK((left_contraction(v, b).coeffs().transpose() - v.coeffs().transpose() * a).norm() < 1e-15);
  CHECK(Bivector<double, Dynamic>::from_skew_matrix(Eigen::MatrixXd::Zero(4, 4)).coeffs().norm() == 0);

  Eigen::Matrix3d rounded = 1e-200 * a;
  rounded(0, 1) *= 1 + 1e-10;
  rounded(2, 2) = 1e-210;
  CHECK(Bivector<double, 3>::from_skew_matrix(rounded).is_approx(1e-200 * b));
  Eigen::Matrix3d other = a, diagonal = a;
  other(2, 0) = 7;
  diagonal(1, 1) = 1e-6;
  CHECK_THROWS_WITH((Bivector<double, 3>::from_skew_matrix(other)),
                    Contains("A(0, 2) = 2 and A(2, 0) = 7") && Contains("(A - A^T)/2"));
  CHECK_THROWS_WITH((Bivector<double, 3>::from_skew_matrix(diagonal)), Contains("A(1, 1)"));
  CHECK_THROWS_AS((Bivector<double, Dynamic>::from_skew_matrix(Eigen::MatrixXd::Ones(4, 4))),
                  std::invalid_argument);
  CHECK((Bivector<double, 3>::from_skew_matrix((other - other.transpose()) / 2)[1] == -2.5));
  CHECK_THROWS_WITH((Bivector<double, 3>::from_skew_matrix({}, Eigen::MatrixXd(3, 4))), Contains("3 x 4"));
  CHECK_THROWS_AS((Bivector<double, Dynamic>::from_skew_matrix(Eigen::MatrixXd(3, 4))),
                  std::invalid_argument);
}

TEST_CASE("Eigen's AutoDiffScalar: the derivative of a product") {
  using Dual = Eigen::AutoDiffScalar<Eigen::Matrix<double, 8, 1>>;
  std::mt19937 generator(1);
  const auto a = test::random_element<Multivector<double, 3>>({}, generator);
  const auto b = test::random_element<Multivector<double, 3>>({}, generator);
  Multivector<Dual, 3> x;
  for (int i = 0; i < 8; ++i) x[i] = Dual(a[i], 8, i);
  const Multivector<Dual, 3> y = x * b.cast<Dual>() * x.reversed();
  const Dual norm = y.norm();
  for (int i = 0; i < 8; ++i) {
    const Multivector<double, 3> direction(Eigen::VectorXd::Unit(8, i));
    const Multivector<double, 3> derivative = direction * b * ~a + a * b * ~direction;
    double norm_derivative = 0;
    for (int k = 0; k < 8; ++k) {
      CHECK(std::abs(y[k].derivatives()[i] - derivative[k]) < 1e-14);
      norm_derivative += y[k].value() * derivative[k] / norm.value();
    }
    CHECK(std::abs(norm.derivatives()[i] - norm_derivative) < 1e-13);
  }
  CHECK(y.is_approx(y));
}

TEST_CASE("large algebras: Cl(8), Cl(12), Cl(14)") {
  std::mt19937 generator(2);
  using M = Multivector<double, Dynamic>;
  const auto a = test::random_element<M>(8, generator), b = test::random_element<M>(8, generator);
  const auto v = test::random_element<Vector<double, Dynamic>>(8, generator);
  CHECK((a * b * v).is_approx(a * (b * v)));
  CHECK((~(a * b)).is_approx(~b * ~a));
  const Multivector<float, 8> fixed(a.cast<float>().coeffs());
  CHECK((fixed * fixed).cast<double>().coeffs().isApprox((a * a).coeffs(), 1e-5));

  using Any = Vector<double, Dynamic, Dynamic, Dynamic>;
  const auto w = test::random_element<Any>({7, 4, 1}, generator),
             u = test::random_element<Any>({7, 4, 1}, generator);
  const auto anticommutator = w * u + u * w;
  CHECK(std::abs(anticommutator[0] - 2 * scalar_product(w, u)) < 1e-14);
  CHECK(anticommutator.coeffs().tail(anticommutator.size() - 1).norm() < 1e-14);
  const Vector<float, 14> x = Vector<float, 14>::basis(14), y = Vector<float, 14>::basis(1);
  CHECK(((x ^ y) * x) == Multivector<float, 14>(y) * -1.0f);
}

namespace {

/// x op= x[i], against the same with a copy of x[i].
template <class E>
void check_scalar_operand_inside(E x) {
  for (Index i = 0; i < x.size(); ++i) x[i] = typename E::Scalar(static_cast<double>(2 + 2 * i));
  for (Index i = 0; i < x.size(); ++i) {
    const typename E::Scalar factor = x[i];
    E product = x, quotient = x;
    product *= product[i];
    CHECK(product == x * factor);
    quotient /= quotient[i];
    CHECK(quotient == x / factor);
    CHECK(quotient[i] == typename E::Scalar(1));
  }
}

template <class E>
void check_element_operand_is_left_side(E x) {
  for (Index i = 0; i < x.size(); ++i) x[i] = typename E::Scalar(static_cast<double>(1 + i));
  const E copy = x;
  const auto square = copy * E(copy);
  E y = x;
  const E& self = y;
  y += self;
  CHECK(y == copy * typename E::Scalar(2));
  y = x;
  y -= self;
  CHECK(y == copy * typename E::Scalar(0));
  y = x;
  y = y.reversed();
  CHECK(y == ~copy);
  y = x;
  y = y.template projected<E>();
  CHECK(y == copy);
  if constexpr (std::is_same_v<decltype(square), const E>) {
    y = x;
    y = y * y;
    CHECK(y == square);
  }
  y = x;
  y = self;
  CHECK(y == copy);
}

template <class Scalar, int P, int Q = 0, int R = 0>
void check_operands_inside(const Signature<P, Q, R>& algebra) {
  check_scalar_operand_inside(Vector<Scalar, P, Q, R>(algebra));
  check_scalar_operand_inside(Bivector<Scalar, P, Q, R>(algebra));
  check_scalar_operand_inside(Rotor<Scalar, P, Q, R>(algebra));
  check_scalar_operand_inside(Multivector<Scalar, P, Q, R>(algebra));
  check_element_operand_is_left_side(Vector<Scalar, P, Q, R>(algebra));
  check_element_operand_is_left_side(Bivector<Scalar, P, Q, R>(algebra));
  check_element_operand_is_left_side(Rotor<Scalar, P, Q, R>(algebra));
  check_element_operand_is_left_side(Multivector<Scalar, P, Q, R>(algebra));
}

}  // namespace

TEST_CASE("Operands that live inside the left side") {
  Vector<double, 3> x{2, 4, 6};
  x /= x[0];
  CHECK(x == Vector<double, 3>{1, 2, 3});
  check_operands_inside<double>(Signature<3>());
  check_operands_inside<float>(Signature<3, 0, 1>());
  check_operands_inside<double>(Signature<Dynamic>(4));
  check_operands_inside<float>(Signature<Dynamic>(9));
  check_operands_inside<long double>(Signature<Dynamic, Dynamic, Dynamic>(2, 1, 1));

  using Dual = Eigen::AutoDiffScalar<Eigen::Vector2d>;
  Vector<Dual, 2> dual{Dual(2, 2, 0), Dual(6, 2, 1)};
  dual /= dual[0];  // 1 and b / a
  CHECK(dual[0].derivatives().norm() == 0);
  CHECK(dual[1].value() == 3);
  CHECK(dual[1].derivatives() == Eigen::Vector2d(-1.5, 0.5));
}

TEST_CASE("Static elements are their coefficients and nothing else") {
  STATIC_REQUIRE(sizeof(Rotor<double, 3>) == 32);
  STATIC_REQUIRE(sizeof(Vector<float, 3>) == 12);
  STATIC_REQUIRE(sizeof(Vector<double, 3>) == 24);
  STATIC_REQUIRE(sizeof(Bivector<float, 3, 0, 1>) == 24);
  STATIC_REQUIRE(sizeof(Rotor<float, 3, 0, 1>) == 32);
  STATIC_REQUIRE(sizeof(Multivector<double, 4, 1>) == 256);
  STATIC_REQUIRE(sizeof(Multivector<float, 1, 1, 1>) == 32);
  STATIC_REQUIRE(std::is_empty_v<Signature<3, 3, 3>>);
  STATIC_REQUIRE(sizeof(Signature<Dynamic, 1>) == sizeof(int));
}

TEST_CASE("A product in an algebra of null vectors alone") {
  const Rotor<double, 0, 0, 4> r{2, 1, 0, 0, 0, 0, 3, 5};
  const Bivector<double, 0, 0, 4> b{0, 1, 0, 0, 7, 2};
  CHECK((r * b) == Multivector<double, 0, 0, 4>(r ^ b));
  CHECK((r * r.even_part()) == (r ^ r).even_part());
  CHECK((Rotor<float, 0, 0, 5>() * Rotor<float, 0, 0, 5>()) == Rotor<float, 0, 0, 5>());
}

TEST_CASE("Elements that have been moved from say so") {
  Multivector<double, Dynamic> x(4);
  x[0] = 2;
  const Multivector<double, Dynamic> y(std::move(x));
  CHECK(y[0] == 2);
  const auto moved = Catch::Contains("Cl(4): its coefficients have been moved to another element");
  // NOLINTBEGIN(bugprone-use-after-move)
  CHECK_THROWS_WITH(x * y, moved);
  CHECK_THROWS_WITH(y + x, moved);
  CHECK_THROWS_WITH(x.reversed(), moved);
  CHECK_THROWS_WITH(x.scalar_part(), moved);
  CHECK_THROWS_WITH(inverse(x), moved);
  CHECK_FALSE(x == y);
  x.set_zero();
  CHECK((x + y) == y);

  Rotor<float, 10> r;
  const Rotor<float, 10> s(std::move(r));
  CHECK_THROWS_AS(r.to_rotation_matrix(), std::invalid_argument);
  CHECK_THROWS_AS(r.normalized(), std::invalid_argument);
  CHECK_THROWS_AS(r *= 2, std::invalid_argument);
  // NOLINTEND(bugprone-use-after-move)
  r = s;
  CHECK((r * s) == s);
}
