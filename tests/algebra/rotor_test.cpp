// SPDX-License-Identifier: MIT
#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <limits>
#include <numbers>
#include <random>

#include "algebra/oracle.hpp"
#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/exponential/exp.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;

namespace {

/// A product of `factors` random unit vectors.
template <class Scalar>
Rotor<Scalar, Dynamic> random_rotor(int n, int factors, std::mt19937& generator) {
  using V = Vector<Scalar, Dynamic>;
  Multivector<Scalar, Dynamic> product = Multivector<Scalar, Dynamic>::scalar(n, Scalar(1));
  for (int k = 0; k < factors; ++k) {
    const V v = test::random_element<V>(n, generator);
    product = product * (v / v.norm());
  }
  return product.even_part();
}

template <class Scalar>
Scalar distance_to_rotor(const Rotor<Scalar, Dynamic>& r) {
  return ((r * ~r).coeffs() - Rotor<Scalar, Dynamic>(r.signature()).coeffs()).cwiseAbs().maxCoeff();
}

template <class Scalar>
void check_matrices(int n) {
  using R = Rotor<Scalar, Dynamic>;
  std::mt19937 generator(static_cast<unsigned>(n));
  const Scalar tolerance = 64 * std::numeric_limits<Scalar>::epsilon();
  CAPTURE(n);
  const R r = random_rotor<Scalar>(n, 4, generator), s = random_rotor<Scalar>(n, 2, generator);
  const auto matrix = r.to_rotation_matrix();
  CHECK((matrix.transpose() * matrix - Matrix<Scalar>::Identity(n, n)).norm() < tolerance);
  CHECK(((r * s).to_rotation_matrix() - matrix * s.to_rotation_matrix()).norm() < tolerance);
  CHECK(((~r).to_rotation_matrix() - matrix.transpose()).norm() < tolerance);
  const auto v = test::random_element<Vector<Scalar, Dynamic>>(n, generator);
  CHECK((r.apply(v).coeffs() - matrix * v.coeffs()).norm() < tolerance);
  const auto b = test::random_element<Bivector<Scalar, Dynamic>>(n, generator);
  CHECK((r.apply(b).to_skew_matrix() - matrix * b.to_skew_matrix() * matrix.transpose()).norm() < tolerance);
  const auto x = test::random_element<Multivector<Scalar, Dynamic>>(n, generator);
  CHECK(r.apply(x).is_approx(sandwich(r, x, r)));
  CHECK(r.apply(x).vector_part().is_approx(r.apply(x.vector_part())));
  CHECK(sandwich(r, x, s).is_approx(Multivector<Scalar, Dynamic>(r) * x * inverse(s)));

  const R back = R::from_rotation_matrix(matrix);
  CHECK(back[0] >= 0);
  CHECK(distance_to_rotor(back) < tolerance);
  CHECK((back.coeffs() * (back.coeffs().dot(r.coeffs()) < 0 ? -1 : 1) - r.coeffs()).norm() < tolerance);
}

}  // namespace

TEST_CASE("rotors and their rotation matrices") {
  for (int n = 1; n <= 7; ++n) check_matrices<double>(n);
  check_matrices<double>(10);
  for (int n : {2, 3, 5, 6}) check_matrices<float>(n);
  CHECK(Rotor<double, 3>().to_rotation_matrix().isIdentity(0));
  CHECK((Rotor<double, Dynamic>::from_rotation_matrix(Eigen::MatrixXd(0, 0)).size() == 1));
}

TEST_CASE("a plane turns by twice the angle of its rotor, from e1 towards -e2 in the matrix exp(2 A)") {
  const double t = 0.3;
  const Rotor<double, 3> r{std::cos(t), std::sin(t), 0, 0};
  const Vector<double, 3> image = r.apply(Vector<double, 3>::basis(1));
  CHECK(image.is_approx(Vector<double, 3>{std::cos(2 * t), -std::sin(2 * t), 0}));
}

TEST_CASE("rotors of matrices where angles are zero, pi or equal") {
  using R = Rotor<double, Dynamic>;
  for (int n = 2; n <= 9; ++n) {
    CAPTURE(n);
    const R one = R::from_rotation_matrix(Eigen::MatrixXd::Identity(n, n));
    CHECK((one.coeffs() - R(n).coeffs()).norm() == 0);
    Eigen::MatrixXd half_turns = Eigen::MatrixXd::Identity(n, n);  // diag(-1, -1, 1 ...), up to -1 for even n
    for (int k = 0; k + 1 < n; k += 2) {
      half_turns(k, k) = half_turns(k + 1, k + 1) = -1;
      const R r = R::from_rotation_matrix(half_turns);
      CHECK(distance_to_rotor(r) < 1e-14);
      CHECK((r.to_rotation_matrix() - half_turns).norm() < 1e-14);
    }
    std::mt19937 generator(static_cast<unsigned>(n));
    const Eigen::MatrixXd q = random_rotor<double>(n, 4, generator).to_rotation_matrix();
    for (double angle : {1e-8, 1.0, std::numbers::pi - 1e-9}) {
      Eigen::MatrixXd turn = Eigen::MatrixXd::Identity(n, n);
      for (int k = 0; k + 1 < n; k += 2) {
        turn(k, k) = turn(k + 1, k + 1) = std::cos(angle);
        turn(k, k + 1) = std::sin(angle);
        turn(k + 1, k) = -std::sin(angle);
      }
      const Eigen::MatrixXd rotation = q * turn * q.transpose();
      CHECK((R::from_rotation_matrix(rotation).to_rotation_matrix() - rotation).norm() < 1e-13);
    }
  }
}

TEST_CASE("matrices that are no rotations are refused, and the message says by how much") {
  using R = Rotor<double, Dynamic>;
  Eigen::MatrixXd m = Eigen::MatrixXd::Identity(4, 4);
  m(1, 2) = 0.25;
  CHECK_THROWS_WITH(R::from_rotation_matrix(m), Contains("not orthogonal") && Contains("0.25"));
  CHECK_THROWS_WITH(R::from_rotation_matrix(2 * Eigen::MatrixXd::Identity(3, 3)), Contains("= 3"));
  m = Eigen::MatrixXd::Identity(4, 4);
  m(3, 3) = -1;
  CHECK_THROWS_WITH(R::from_rotation_matrix(m), Contains("determinant is -1"));
  CHECK_THROWS_WITH(R::from_rotation_matrix(Eigen::MatrixXd::Identity(3, 4)), Contains("3 x 4"));
  CHECK_THROWS_WITH((Rotor<double, 3>::from_rotation_matrix(Eigen::MatrixXd::Identity(4, 4))),
                    Contains("n = 3"));
  CHECK_THROWS_AS(R::from_rotation_matrix(Eigen::MatrixXd::Identity(15, 15)), std::invalid_argument);
  m(0, 0) = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(R::from_rotation_matrix(m), std::domain_error);
  CHECK_THROWS_AS((Rotor<double, 3, 0, 1>().to_rotation_matrix()), std::invalid_argument);
}

TEST_CASE("normalized: the nearest rotor, from n = 4 on more than a division") {
  std::mt19937 generator(5);
  for (int n = 0; n <= 9; ++n) {
    for (double drift : {0.0, 1e-12, 1e-6, 1e-3, 1e-2}) {
      CAPTURE(n, drift);
      const auto r = random_rotor<double>(n, n < 2 ? 0 : 2 * (n / 2), generator);
      const auto noise = test::random_element<Rotor<double, Dynamic>>(n, generator, drift);
      const Rotor<double, Dynamic> drifted = Rotor<double, Dynamic>(n, 1.5 * (r + noise).coeffs());
      const auto restored = drifted.normalized();
      CHECK(distance_to_rotor(restored) < 1e-13);
      CHECK((restored.coeffs() - drifted.coeffs() / 1.5).norm() <=
            noise.coeffs().norm() * (1 + drift) + 1e-14);
      // nearest: what is left is orthogonal to the rotors next to it, r' b for a bivector b, up to the
      // drift's square
      const double size = noise.coeffs().squaredNorm();
      CHECK((~restored * drifted).bivector_part().coeffs().norm() <= 4 * size + 1e-13);
      CHECK(restored.normalized().is_approx(restored, 1e-14));
    }
  }
  const auto r = random_rotor<float>(6, 4, generator);
  const auto drifted = r + test::random_element<Rotor<float, Dynamic>>(6, generator, 1e-3);
  CHECK(distance_to_rotor(drifted.normalized()) < 2e-6f);
  // a product of many rotors in float
  Rotor<float, Dynamic> product = r;
  for (int k = 0; k < 2000; ++k) product = product * r;
  CHECK(distance_to_rotor(product.normalized()) < 2e-6f);
}

TEST_CASE("normalized: what is no rotor is refused") {
  using R = Rotor<double, Dynamic>;
  R r(4);
  r.set_zero();
  CHECK_THROWS_AS(r.normalized(), std::invalid_argument);
  r[0] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(r.normalized(), std::domain_error);
  r[0] = r[7] = 1;  // 1 + e1234: a projector, no rotation
  CHECK_THROWS_AS(r.normalized(), std::invalid_argument);
}

TEST_CASE("normalized in other signatures") {
  // a boost times a rotation of space and time, and a screw of projective geometry, both drifted
  const double t = 0.7;
  Rotor<double, 1, 3> boost({}, {std::cosh(t), std::sinh(t), 0, 0, 0, 0, 0, 0});
  const Rotor<double, 1, 3> turn({}, {std::cos(t), 0, 0, 0, 0, 0, std::sin(t), 0});
  Rotor<double, 1, 3> r = boost * turn;
  r[3] += 1e-3;
  r[7] += 1e-3;
  const auto restored = r.normalized();
  CHECK((restored * ~restored).is_approx(Rotor<double, 1, 3>(), 1e-14));
  CHECK((restored.coeffs() - r.coeffs()).norm() < 5e-3);
  Rotor<double, 3, 0, 1> screw({}, {std::cos(t), std::sin(t), 0, 0.5, 0, 0.2, -0.3, 0.1});
  const auto motor = screw.normalized();
  CHECK((motor * ~motor).is_approx(Rotor<double, 3, 0, 1>(), 1e-14));
  CHECK_THROWS_AS((Rotor<double, 6, 1>().normalized()), std::invalid_argument);
  Rotor<double, Dynamic, Dynamic, Dynamic> any({6, 0, 0});  // Euclidean, known at run time
  any[1] = 1e-3;
  any[any.size() - 1] = 1e-3;
  CHECK((any.normalized() * ~any.normalized())
            .is_approx(Rotor<double, Dynamic, Dynamic, Dynamic>({6, 0, 0}), 1e-14));
}

TEST_CASE("Extreme and broken numbers") {
  CHECK(Rotor<double, 3>({}, {1e200, 0, 0, 0}).normalized()[0] == 1);
  CHECK(Rotor<double, 3>({}, {3e-162, 4e-162, 0, 0}).normalized().is_approx({{}, {0.6, 0.8, 0, 0}}, 1e-14));
  for (Index k = 0; k < 9; ++k) {
    Eigen::Matrix3d matrix = Eigen::Matrix3d::Identity();
    matrix(k) = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS((Rotor<double, 3>::from_rotation_matrix(matrix)), std::domain_error);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_FALSE(Vector<double, 3>({infinity, 1, 2}).is_approx(Vector<double, 3>({5, 6, 7})));
  CHECK_THROWS_AS(exp(Bivector<double, 3, 0, 1>({1e308, 1e308, 0, 0, 0, 0})), std::domain_error);
  CHECK_THROWS_AS((Signature<Dynamic, Dynamic, Dynamic>(std::numeric_limits<int>::max(), 1, 0)),
                  std::invalid_argument);
}

TEST_CASE("Static rotors of two and three dimensions: matrices in closed form against Dynamic") {
  std::mt19937 generator(11);
  const auto check = [&](auto fixed, double scale) {
    using R = decltype(fixed);
    constexpr int n = R::static_dimension;
    const R r = test::random_element<R>({}, generator, scale).normalized() * scale;
    const Rotor<double, Dynamic> dynamic(n, r.coeffs());
    const double square = r.coeffs().squaredNorm();
    CHECK((r.to_rotation_matrix() - dynamic.to_rotation_matrix()).norm() <= 1e-15 * square * 8);
    const auto matrix = R(r.coeffs() / std::sqrt(square)).to_rotation_matrix();
    const R back = R::from_rotation_matrix(matrix);
    CHECK(back[0] >= 0);
    CHECK((back.to_rotation_matrix() - matrix).norm() < 2e-15);
    CHECK(std::abs(back.coeffs().norm() - 1) < 1e-15);
    CHECK(R::from_rotation_matrix((matrix * 1.0).transpose()).is_approx(~back, 1e-14));
  };
  for (int i = 0; i < 20; ++i) {
    check(Rotor<double, 2>(), 1);
    check(Rotor<double, 3>(), i < 10 ? 1 : 1e3);
    check(Rotor<double, 4>(), 0.3);
  }
  using R = Rotor<double, 3>;
  for (double angle : {0.0, 1e-8, 1e-3, std::numbers::pi / 2 - 1e-9, std::numbers::pi / 2}) {
    for (int plane = 1; plane < 4; ++plane) {  // up to half turns, where the scalar part vanishes
      R r;
      r[0] = std::cos(angle);
      r[plane] = -std::sin(angle);
      CHECK((R::from_rotation_matrix(r.to_rotation_matrix()).coeffs() - r.coeffs()).norm() < 1e-15);
    }
  }
  const Eigen::Matrix3d mirror = -R({}, {0.5, 0.5, -0.5, 0.5}).to_rotation_matrix();
  CHECK_THROWS_WITH(R::from_rotation_matrix(mirror), Contains("determinant is -1"));
  CHECK_THROWS_WITH(R::from_rotation_matrix(-Eigen::Matrix3d::Identity()), Contains("determinant is -1"));
}

TEST_CASE("Every entry of a rotation matrix of space is looked at, and small errors are taken") {
  std::mt19937 generator(11);
  for (int i = 0; i < 200; ++i) {
    const auto r = test::random_element<Rotor<double, 3>>({}, generator, 1).normalized();
    const Eigen::Matrix3d matrix = r.to_rotation_matrix();
    for (Index k = 0; k < 9; ++k) {
      Eigen::Matrix3d changed = matrix;
      changed.data()[k] += 1e-6;
      CHECK_THROWS_WITH((Rotor<double, 3>::from_rotation_matrix(changed)), Contains("not orthogonal"));
      changed.data()[k] = matrix.data()[k] + 1e-10;
      const Rotor<double, 3> back = Rotor<double, 3>::from_rotation_matrix(changed);
      CHECK(std::abs(back.norm() - 1) < 1e-15);
      CHECK(back.coeffs().cwiseAbs().maxCoeff() <= 1);
      CHECK(std::abs(std::abs(back.coeffs().dot(r.coeffs())) - 1) < 1e-15);
    }
    const Rotor<long double, 3> wide =
        Rotor<long double, 3>::from_rotation_matrix(r.cast<long double>().normalized().to_rotation_matrix());
    CHECK(std::abs(std::abs(wide.coeffs().dot(r.cast<long double>().coeffs())) - 1) < 1e-15L);
  }
}
