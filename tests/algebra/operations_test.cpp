// SPDX-License-Identifier: MIT
// Each identity that operations.hpp, subspaces.hpp and rotation.hpp state.
#include "rotorlin/algebra/operations.hpp"

#include <Eigen/Geometry>
#include <Eigen/LU>
#include <catch2/catch.hpp>
#include <limits>
#include <numbers>
#include <random>

#include "algebra/oracle.hpp"
#include "rotorlin/algebra/aliases.hpp"
#include "rotorlin/algebra/rotation.hpp"
#include "rotorlin/algebra/subspaces.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;

namespace {

template <int P, int Q = 0, int R = 0>
void check_operations(const Signature<P, Q, R>& algebra) {
  INFO("algebra " << algebra);
  using M = Multivector<double, P, Q, R>;
  using V = Vector<double, P, Q, R>;
  const int n = algebra.n();
  std::mt19937 generator(static_cast<unsigned>(7 * n + algebra.q() + 10 * algebra.r()));
  const auto a = test::random_element<M>(algebra, generator), b = test::random_element<M>(algebra, generator);
  const auto c = test::random_element<M>(algebra, generator);
  const auto v = test::random_element<V>(algebra, generator), w = test::random_element<V>(algebra, generator);
  const auto f = test::random_element<Bivector<double, P, Q, R>>(algebra, generator);
  const auto r = test::random_element<Rotor<double, P, Q, R>>(algebra, generator);
  const M one = M::scalar(algebra, 1), pseudoscalar = M::pseudoscalar(algebra);

  // scalars
  CHECK((a + 2) == a + one * 2.0);
  CHECK((2 - a) == one * 2.0 - a);
  CHECK(M(1.5 + v) == one * 1.5 + M(v));
  CHECK(M(f - 3) == M(f) - one * 3.0);
  STATIC_REQUIRE(std::is_same_v<decltype(f + 1), Rotor<double, P, Q, R>>);
  STATIC_REQUIRE(std::is_same_v<decltype(r + 1), Rotor<double, P, Q, R>>);
  const M wv = w * v;
  if (std::abs(scalar_product(v, v)) > 0.1) {
    CHECK((wv / v).is_approx(M(w), 1e-13));
    CHECK((a * v / v).is_approx(a, 1e-12));
  }

  // questions
  CHECK(is_zero(M(algebra)));
  CHECK_FALSE(is_zero(M(algebra) + 1e-300));
  CHECK(is_zero(M(algebra) + 1e-10, 1e-9));
  CHECK(is_unit(one));
  CHECK_FALSE(is_unit(one * 1.001));
  CHECK(is_null(M(algebra)));
  CHECK_FALSE(is_null(one * 1e-200));
  for (int k = 1; k <= n; ++k) {
    CHECK(is_null(V::basis(algebra, k) * 1e200) == (k > algebra.p() + algebra.q()));
    CHECK(is_unit(V::basis(algebra, k)) == (k <= algebra.p() + algebra.q()));
  }
  if (algebra.p() > 0 && algebra.q() > 0) {
    CHECK(is_null(V::basis(algebra, 1) + V::basis(algebra, algebra.p() + 1)));
  }
  CHECK(largest_grade(M(algebra)) == -1);
  CHECK(largest_grade(a) == n);
  CHECK(largest_grade(one + v) == 1);
  CHECK(largest_grade(pseudoscalar * 1e-9 + f, 1e-8) == 2);

  // Hestenes' product, complements, the regressive product
  CHECK(is_zero(M(hestenes_product(one, a))));
  CHECK(M(hestenes_product(a, b)).is_approx(((a - a.scalar_part()) | (b - b.scalar_part())), 1e-14));
  CHECK(left_complement(complement(a)) == a);
  CHECK(complement(left_complement(a)) == a);
  for (unsigned blade = 0; blade < (1u << n); ++blade) {
    const M e = M::blade(algebra, blade);
    CHECK((left_complement(e) ^ e) == pseudoscalar);
  }
  CHECK((a & pseudoscalar).is_approx(a));
  CHECK((pseudoscalar & a).is_approx(a));
  CHECK(((a & b) & c).is_approx(a & (b & c), 1e-13));
  CHECK(complement(a & b).is_approx(complement(a) ^ complement(b)));

  // outermorphisms
  const Eigen::MatrixXd map = Eigen::MatrixXd::Random(n, n), other = Eigen::MatrixXd::Random(n, n);
  CHECK(outermorphism(map, M(a ^ b)).is_approx(outermorphism(map, a) ^ outermorphism(map, b), 1e-13));
  CHECK(outermorphism(map, pseudoscalar).is_approx(pseudoscalar * map.determinant(), 1e-13));
  CHECK(outermorphism(Eigen::MatrixXd(map * other), f)
            .is_approx(outermorphism(map, outermorphism(other, f)), 1e-13));
  CHECK((outermorphism(map, v).coeffs() - map * v.coeffs()).norm() < 1e-14);
  CHECK(outermorphism(map, one) == one);
  CHECK_THROWS_WITH(outermorphism(Eigen::MatrixXd::Identity(n, n + 1), a), Contains("outermorphism"));

  // versors
  if (std::abs(scalar_product(v, v)) > 0.1 && std::abs(scalar_product(w, w)) > 0.1) {
    const V reflected = versor_action(v, w);
    CHECK(reflected.is_approx(w - v * (2 * scalar_product(v, w) / scalar_product(v, v)), 1e-13));
    CHECK(versor_action(v, versor_action(w, a)).is_approx(versor_action(M(v * w), a), 1e-11));
    CHECK(versor_action(M(v), a).is_approx(versor_action(v, a), 1e-13));
    CHECK(versor_action(v, M(a ^ b)).is_approx(versor_action(v, a) ^ versor_action(v, b), 1e-12));
    CHECK_THROWS_WITH(versor_action(M(1 + v), a), Contains("even and odd"));
    // projection: in b, idempotent, and the rest at right angles
    CHECK((projection(w, v) + rejection(w, v)).is_approx(w, 1e-14));
    CHECK(is_zero(projection(w, v) ^ v, 1e-13));
    CHECK(std::abs(scalar_product(rejection(w, v), v)) < 1e-13);
    CHECK(projection(projection(w, v), v).is_approx(projection(w, v), 1e-13));

    const M versor = 3.0 * v * w * v;
    const auto factors = factorize_versor(versor);
    M product = one * factors.scale;
    for (Index i = 0; i < factors.vectors.cols(); ++i) {
      CHECK(std::abs(factors.vectors.col(i).norm() - 1) < 1e-14);
      product = product * V(algebra, factors.vectors.col(i));
    }
    CHECK(factors.vectors.cols() <= 3);
    CHECK(product.is_approx(versor, 1e-12));
  }
  if (n >= 3) CHECK_THROWS_AS(factorize_versor(M(a)), std::invalid_argument);

  // blades
  const M plane = -2.0 * (v ^ w);
  const auto factors = factorize_blade(plane);
  REQUIRE(factors.vectors.cols() == 2);
  CHECK((factors.vectors.transpose() * factors.vectors - Eigen::Matrix2d::Identity()).norm() < 1e-14);
  CHECK((V(algebra, factors.vectors.col(0)) ^ V(algebra, factors.vectors.col(1)))
            .is_approx((v ^ w) * (-2 / factors.scale), 1e-13));
  if (n >= 4) CHECK_THROWS_WITH(factorize_blade(f), Contains("not a blade"));
  CHECK_THROWS_AS(factorize_blade(M(algebra)), std::invalid_argument);
  CHECK(factorize_blade(M(one * -4.0)).scale == -4);
  if (n >= 3) {
    const auto u = test::random_element<V>(algebra, generator);
    const M first = v ^ w, second = w ^ u, all = join(first, second), common = meet(first, second);
    CHECK(is_zero(all ^ v, 1e-13));
    CHECK(is_zero(all ^ u, 1e-13));
    CHECK(largest_grade(all, 1e-12) == 3);
    CHECK(std::abs(all.coeffs().norm() - 1) < 1e-14);
    CHECK(is_zero(common ^ w, 1e-13));  // w spans what the planes have in common
    CHECK(common.coeffs().norm() > 1e-3);
    CHECK(largest_grade(common, 1e-12) == 1);
    CHECK(largest_grade(meet(v, u), 1e-12) == 0);
    CHECK(is_zero(join(first, first) ^ v, 1e-13));
    CHECK(meet(first, M(first * 2.0)).coeffs().normalized().isApprox(first.coeffs().normalized(), 1e-13));
  }
}

}  // namespace

TEST_CASE("Quotients, questions, regressive product, projections, versors, blades, outermorphisms") {
  check_operations(Signature<3, 0, 1>());
  using Any = Signature<Dynamic, Dynamic, Dynamic>;
  for (const Any& algebra : {Any(3, 0, 0), Any(4, 0, 0), Any(1, 3, 0), Any(3, 1, 1)})
    check_operations(algebra);
}

TEST_CASE("Points, lines and planes by regressive and outer products") {
  using M = Multivector<double, 3, 0, 1>;  // e4 is the null vector; a plane a x + b y + c z + d is a vector
  using V = Vector<double, 3, 0, 1>;
  const auto plane = [](double a, double b, double c, double d) { return M(V{a, b, c, d}); };
  const auto point = [&](double x, double y, double z) {
    return plane(1, 0, 0, -x) ^ plane(0, 1, 0, -y) ^ plane(0, 0, 1, -z);
  };
  const M through = point(1, 0, 0) & point(0, 2, 0) & point(0, 0, 3);  // x + y/2 + z/3 = 1
  CHECK((through / through[1]).is_approx(plane(1, 0.5, 1.0 / 3, -1), 1e-15));
  CHECK(is_zero(through ^ point(1, 0, 0)));
  CHECK(is_zero(through & point(0.5, 1, 0)));
  const M line = point(0, 0, 0) & point(1, 1, 1);
  const M cut = line ^ plane(0, 0, 1, -4);
  CHECK((cut / -cut[11] * -point(4, 4, 4)[11]).is_approx(point(4, 4, 4)));
}

TEST_CASE("Rotors of three dimensions and quaternions, axes, Euler's angles") {
  std::mt19937 generator(3);
  Random random(5);
  for (int i = 0; i < 20; ++i) {
    const Rotor3d r = random_rotor<double>(Signature<3>(), random),
                  s = random_rotor<double>(Signature<3>(), random);
    const auto v = test::random_element<Vector<double, 3>>({}, generator);
    const Eigen::Quaterniond q = to_quaternion(r);
    CHECK((q * v.coeffs() - r.apply(v).coeffs()).norm() < 1e-14);
    CHECK((q.toRotationMatrix() - r.to_rotation_matrix()).norm() < 1e-14);
    CHECK((to_quaternion(r * s).coeffs() - (q * to_quaternion(s)).coeffs()).norm() < 1e-15);
    CHECK(to_rotor(q) == r);
    CHECK((to_rotor(to_angle_axis(r)).to_rotation_matrix() - r.to_rotation_matrix()).norm() < 1e-14);
    for (const Eigen::Vector3i& axes : {Eigen::Vector3i(3, 2, 1), Eigen::Vector3i(3, 1, 3)}) {
      const Eigen::Vector3d angles = to_euler_angles(r, axes);
      CHECK((from_euler_angles(angles, axes).to_rotation_matrix() - r.to_rotation_matrix()).norm() < 1e-13);
    }
    CHECK(from_axis_angle(v, 0.7).apply(v).is_approx(v));
  }
  const Rotor3d quarter = from_axis_angle(Vector<double, 3>{0, 0, 5}, std::numbers::pi / 2);
  CHECK(quarter.apply(Vector<double, 3>{1, 0, 0}).is_approx({0, 1, 0}));
  CHECK(from_euler_angles<double>({0.3, 0, 0}, {3, 2, 1})
            .is_approx(from_axis_angle(Vector<double, 3>{0, 0, 1}, 0.3)));
  CHECK(to_rotor(Eigen::Quaternionf::Identity()) == Rotor3f());
  CHECK_THROWS_AS(from_axis_angle(Vector<double, 3>(), 1), std::invalid_argument);
  CHECK_THROWS_AS(from_euler_angles<double>({1, 2, 3}, {0, 1, 2}), std::invalid_argument);
  CHECK_THROWS_AS(to_euler_angles(Rotor3d(), {1, 1, 2}), std::invalid_argument);
}

TEST_CASE("between: the shortest turn from one direction to another") {
  std::mt19937 generator(4);
  const auto check = [](const auto& a, const auto& b) {
    const auto r = between(a, b);
    CHECK(std::abs(r.coeffs().norm() - 1) < 1e-15);
    CHECK(r[0] >= 0);
    CHECK((r.apply(a / a.coeffs().norm()).coeffs() - b.coeffs() / b.coeffs().norm()).norm() < 4e-15);
  };
  for (int i = 0; i < 20; ++i) {
    const auto a = test::random_element<Vector<double, 3>>({}, generator);
    const auto d = test::random_element<Vector<double, 3>>({}, generator);
    for (double t : {0.0, 1e-16, 1e-12, 1e-8, 1e-4, 1e-3, 1.0}) {
      check(a, a + d * t);
      check(a, -2.0 * a + d * t);
    }
    const auto x = test::random_element<Vector<double, Dynamic>>(6, generator);
    check(x, test::random_element<Vector<double, Dynamic>>(6, generator));
    check(x, -x);
  }
  check(Vector<double, 2>{1e200, 0}, Vector<double, 2>{-1e200, 0});
  CHECK_THROWS_AS(between(Vector<double, 3>(), Vector<double, 3>{1, 0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(between(Vector<double, 1>{1}, Vector<double, 1>{-1}), std::invalid_argument);
  CHECK_THROWS_AS(between(Vector<double, 1, 1>{1, 0}, Vector<double, 1, 1>{1, 0}), std::invalid_argument);
}

TEST_CASE("The rotor nearest to a matrix") {
  Random random(6);
  std::mt19937 generator(6);
  for (int n = 1; n <= 6; ++n) {
    CAPTURE(n);
    const auto r = random_rotor<double>(Signature<Dynamic>(n), random);
    const Eigen::MatrixXd m = r.to_rotation_matrix();
    CHECK((RotorXd(nearest_rotor<RotorXd>(1e-3 * m)).to_rotation_matrix() - m).norm() < 1e-13);
    if (n == 1) continue;
    // nearest: of all rotations, M^T R symmetric, and every other rotation farther
    for (const double sign : {1.0, -1.0}) {
      Eigen::MatrixXd noisy = m + 0.1 * Eigen::MatrixXd::Random(n, n);
      noisy.col(0) *= sign;
      const Eigen::MatrixXd nearest = nearest_rotor<RotorXd>(noisy).to_rotation_matrix();
      const Eigen::MatrixXd product = noisy.transpose() * nearest;
      CHECK((product - product.transpose()).norm() < 1e-13);
      for (int i = 0; i < 20; ++i) {
        const Eigen::MatrixXd other =
            random_rotor<double>(Signature<Dynamic>(n), random).to_rotation_matrix();
        CHECK((other - noisy).norm() >= (nearest - noisy).norm());
      }
    }
  }
  CHECK_THROWS_WITH(nearest_rotor<Rotor3d>(-Eigen::Matrix3d::Identity()), Contains("singular values"));
  CHECK_THROWS_AS(nearest_rotor<Rotor3d>(Eigen::Matrix3d::Zero()), std::invalid_argument);
  CHECK_THROWS_AS(nearest_rotor<Rotor3d>(Eigen::MatrixXd::Identity(4, 4)), std::invalid_argument);
  CHECK_THROWS_AS(nearest_rotor<Rotor3d>(Eigen::Matrix3d::Constant(std::numeric_limits<double>::infinity())),
                  std::domain_error);
}

TEST_CASE("Random rotors are uniform: moments of the rotation matrix") {
  Random random(7);
  for (int n : {2, 3, 4}) {
    CAPTURE(n);
    Eigen::MatrixXd mean = Eigen::MatrixXd::Zero(n, n), squares = mean;
    double trace = 0;
    const int count = 4000;
    for (int i = 0; i < count; ++i) {
      const auto r = random_rotor<double>(Signature<Dynamic>(n), random);
      CHECK(std::abs(r.coeffs().norm() - 1) < 1e-14);
      const Eigen::MatrixXd m = r.to_rotation_matrix();
      mean += m / count;
      squares += m.cwiseAbs2() / count;
      trace += m.trace() * m.trace() / count;
    }
    CHECK(mean.cwiseAbs().maxCoeff() < 0.06);
    CHECK((squares.array() - 1.0 / n).abs().maxCoeff() < 0.04);
    CHECK(std::abs(trace - (n == 2 ? 2 : 1)) < 0.15);
  }
  const auto e = random_element<Multivector3f>({}, random);
  CHECK(e.all_finite());
}

TEST_CASE("One rotor on many vectors") {
  Random random(8);
  const auto r = random_rotor<double>(Signature<3>(), random);
  const Eigen::Matrix3Xd x = Eigen::Matrix3Xd::Random(3, 37);
  const Eigen::Matrix3Xd y = rotate(r, x);
  REQUIRE(y.cols() == 37);
  CHECK((y - r.to_rotation_matrix() * x).norm() < 1e-14);
  const Eigen::MatrixXd tall = Eigen::MatrixXd::Random(5, 9);
  CHECK((rotate(r, tall.middleRows(1, 3)) - r.to_rotation_matrix() * tall.middleRows(1, 3)).norm() < 1e-14);
  CHECK(
      (rotate(r, tall.transpose().topRows(3)) - r.to_rotation_matrix() * tall.transpose().topRows(3)).norm() <
      1e-14);
  CHECK(rotate(r, Eigen::Matrix3Xd(3, 0)).cols() == 0);
  const auto s = random_rotor<double>(Signature<Dynamic>(5), random);
  CHECK((rotate(s, tall) - s.to_rotation_matrix() * tall).norm() < 1e-14);
  CHECK_THROWS_WITH(rotate(r, tall), Contains("5 x 9"));
}
