// SPDX-License-Identifier: MIT
// Projective and conformal geometry by their names, rigid motions, and the Jacobians of rotors.
#include <Eigen/Geometry>
#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>
#include <random>
#include <unsupported/Eigen/AutoDiff>

#include "algebra/oracle.hpp"
#include "rotorlin/exponential/cga3.hpp"
#include "rotorlin/exponential/jacobian.hpp"
#include "rotorlin/exponential/log.hpp"
#include "rotorlin/exponential/pga3.hpp"

using namespace rotorlin;
using Eigen::Isometry3d;
using Eigen::Vector3d;

namespace {

Isometry3d random_motion(std::mt19937& generator, double shift) {
  std::normal_distribution<double> normal;
  const auto vector = [&] { return Vector3d(normal(generator), normal(generator), normal(generator)); };
  Isometry3d motion = Isometry3d::Identity();
  motion.rotate(Eigen::AngleAxisd(normal(generator), vector().normalized()));
  motion.pretranslate(shift * vector());
  return motion;
}

}  // namespace

TEST_CASE("pga3: points on planes and lines, meets, distances") {
  namespace pga = pga3;
  const auto floor = pga::plane(0.0, 0.0, 1.0, -2.0);  // z = 2
  CHECK((floor ^ pga::point(5.0, -3.0, 2.0)).is_approx(pga::Element<double>(), 1e-15));
  CHECK(pga::distance(pga::point(1.0, 1.0, 5.0), floor) == Approx(3));
  CHECK(pga::distance(pga::point(1.0, 2.0, 3.0), pga::point(1.0, 6.0, 6.0)) == Approx(5));
  const auto corner = pga::plane(1.0, 0.0, 0.0, -4.0) ^ pga::plane(0.0, 1.0, 0.0, -7.0) ^ floor;
  CHECK((pga::coordinates(corner) - Vector3d(4, 7, 2)).norm() < 1e-14);
  // the line where two planes meet is the one through that corner
  const auto edge = pga::plane(1.0, 0.0, 0.0, -4.0) ^ pga::plane(0.0, 1.0, 0.0, -7.0);
  CHECK(edge.is_approx(pga::line<double>(Vector3d(4, 7, 0), Vector3d::UnitZ())));
  CHECK((pga::direction_of(edge) - Vector3d::UnitZ()).norm() < 1e-15);
  CHECK_THROWS_AS(pga::coordinates(pga::direction(1.0, 0.0, 0.0)), std::invalid_argument);
  CHECK((pga::e0<double>() * pga::e0<double>()).coeffs().norm() == 0);
}

TEST_CASE("pga3: translators, rotors and motors move as Eigen's transforms do") {
  namespace pga = pga3;
  std::mt19937 generator(1);
  CHECK(
      (pga::coordinates(pga::translator(1.0, 2.0, 3.0).apply(pga::point(0.0, 1.0, 0.0))) - Vector3d(1, 3, 3))
          .norm() < 1e-15);
  const auto axis = pga::line<double>(Vector3d(1, 0, 0), Vector3d::UnitZ());
  const auto quarter = pga::rotor(axis, std::numbers::pi / 2);  // (2, 0) to (1, 1)
  CHECK((pga::coordinates(quarter.apply(pga::point(2.0, 0.0, 5.0))) - Vector3d(1, 1, 5)).norm() < 1e-14);
  for (const double shift : {0.0, 1.0, 1e6}) {
    const Isometry3d f = random_motion(generator, shift), g = random_motion(generator, shift);
    const auto m = pga::motor(f), k = pga::motor(g);
    const Vector3d x(0.3, -0.4, 0.5), n = Vector3d(1, 2, -2) / 3;
    CHECK((pga::coordinates(m.apply(pga::point<double>(x))) - f * x).norm() < 1e-14 * (1 + shift));
    CHECK((pga::isometry(m).matrix() - f.matrix()).norm() < 1e-14 * (1 + shift));
    CHECK((pga::isometry(m * k).matrix() - (f * g).matrix()).norm() < 4e-14 * (1 + shift));
    CHECK((pga::isometry(inverse(m)).matrix() - f.inverse().matrix()).norm() < 4e-14 * (1 + shift));
    const Eigen::Matrix4d matrix = f.matrix();
    CHECK(pga::motor(matrix) == m);
    // planes and lines
    const auto plane = m.apply(pga::plane(n[0], n[1], n[2], -n.dot(x)));
    CHECK(std::abs(pga::distance(pga::point<double>(Vector3d(f * x)), plane)) < 1e-13 * (1 + shift));
    const auto line = m.apply(pga::line<double>(x, n));
    CHECK(line.is_approx(pga::line<double>(Vector3d(f * x), Vector3d(f.linear() * n)), 1e-13));
    // a screw: half of it twice
    const auto half = sqrt(m);
    CHECK((pga::isometry(half * half).matrix() - f.matrix()).norm() < 1e-13 * (1 + shift));
  }
  Eigen::Matrix4f bad = Eigen::Matrix4f::Identity();
  bad(3, 0) = 1;
  CHECK_THROWS_AS(pga::motor(bad), std::invalid_argument);
  CHECK_THROWS_AS(pga::rotor(pga::Line<double>{0, 0, 1, 0, 0, 0}, 1.0), std::invalid_argument);
}

TEST_CASE("cga3: points, spheres, circles and what moves them") {
  namespace cga = cga3;
  const auto infinity = cga::e_inf<double>(), origin = cga::e_o<double>();
  CHECK(infinity.squared_norm() == 0);
  CHECK(origin.squared_norm() == 0);
  CHECK(scalar_product(infinity, origin) == -1);
  const Vector3d x(1, 2, 3), y(1, 6, 6);
  const auto p = cga::point<double>(x), q = cga::point<double>(y);
  CHECK(p.squared_norm() == Approx(0).margin(1e-13));
  CHECK(scalar_product(p, q) == Approx(-25.0 / 2));
  CHECK(cga::distance(p, q) == Approx(5));
  CHECK((cga::coordinates(p) - x).norm() < 1e-15);
  const auto ball = cga::sphere<double>(x, 5.0);
  CHECK(scalar_product(ball, q) == Approx(0).margin(1e-13));  // y lies on it
  CHECK(cga::squared_radius(ball) == Approx(25));
  CHECK((cga::coordinates(ball) - x).norm() < 1e-15);
  const auto wall = cga::plane<double>(Vector3d::UnitX(), 1.0);
  CHECK(scalar_product(wall, p) == Approx(0).margin(1e-13));
  CHECK_THROWS_AS(cga::coordinates(wall), std::invalid_argument);
  // the circle of three points holds a fourth, and the line of two points a third
  const auto a = cga::point(1.0, 0.0, 0.0), b = cga::point(0.0, 1.0, 0.0), c = cga::point(-1.0, 0.0, 0.0);
  CHECK(((a ^ b ^ c) ^ cga::point(0.6, -0.8, 0.0)).is_approx(cga::Element<double>(), 1e-14));
  CHECK(((a ^ c ^ infinity) ^ cga::point(17.0, 0.0, 0.0)).is_approx(cga::Element<double>(), 1e-12));
  // motions
  const auto move = cga::translator<double>(Vector3d(1, -1, 2));
  CHECK((cga::coordinates(move.apply(p)) - Vector3d(2, 1, 5)).norm() < 1e-13);
  CHECK((cga::coordinates(cga::dilator(3.0).apply(p)) - 3 * x).norm() < 1e-12);
  CHECK(cga::squared_radius(cga::dilator(2.0).apply(ball)) == Approx(100));
  const auto quarter = cga::rotor<double>(Vector3d::UnitZ(), std::numbers::pi / 2);
  CHECK((cga::coordinates(quarter.apply(p)) - Vector3d(-2, 1, 3)).norm() < 1e-13);
  const auto all = move * quarter * cga::dilator(0.5);
  CHECK((all * inverse(all)).is_approx(cga::Versor<double>(), 1e-14));
  const auto half = sqrt(all);
  CHECK((half * half).is_approx(all, 1e-13));
  CHECK((cga::coordinates(all.apply(p)) - Vector3d(0, -0.5, 3.5)).norm() < 1e-13);
  CHECK_THROWS_AS(cga::dilator(-1.0), std::invalid_argument);
}

TEST_CASE("Jacobians of rotors against central differences and AutoDiffScalar") {
  std::mt19937 generator(9);
  const double step = 1e-6;
  for (const double size : {0.0, 1e-9, 0.05, 0.099, 0.101, 1.0, 1.7}) {
    CAPTURE(size);
    const auto b = test::random_element<Bivector<double, 3>>({}, generator, size);
    const auto r = exp(test::random_element<Bivector<double, 3>>({}, generator, 1.0)), s = exp(b);
    const auto v = test::random_element<Vector<double, 3>>({}, generator);
    Jacobian3<double> of_exp, of_log, by_r, by_s, apply_r, apply_v;
    CHECK(exp(b, &of_exp) == exp(b));
    CHECK(log(s, &of_log) == log(s));
    CHECK(compose(r, s, &by_r, &by_s) == r * s);
    CHECK(apply(r, v, &apply_r, &apply_v) == r.apply(v));
    CHECK(exp(b, static_cast<Jacobian3<double>*>(nullptr)) == exp(b));
    for (Index k = 0; k < 3; ++k) {
      Bivector<double, 3> d;
      d[k] = step;
      const auto difference = [&](const auto& f) { return ((f(d) - f(-d)) / (2 * step)).coeffs().eval(); };
      const auto near = [](const auto& x, const auto& y) { return (x - y).norm() < 1e-8; };
      CHECK(near(of_exp.col(k), difference([&](const auto& h) { return log(~exp(b) * exp(b + h)); })));
      CHECK(near(of_log.col(k), difference([&](const auto& h) { return log(s * exp(h)); })));
      CHECK(near(by_r.col(k), difference([&](const auto& h) { return log(~(r * s) * (r * exp(h) * s)); })));
      CHECK(near(apply_r.col(k), difference([&](const auto& h) { return (r * exp(h)).apply(v); })));
      Vector<double, 3> e;
      e[k] = 1;
      CHECK(near(apply_v.col(k), r.apply(e).coeffs()));
    }
    CHECK(by_s == Jacobian3<double>::Identity());
    // d exp(b) = exp(b) J(db), coefficient by coefficient
    using Dual = Eigen::AutoDiffScalar<Eigen::Vector3d>;
    Bivector<Dual, 3> dual;
    for (int k = 0; k < 3; ++k) dual[k] = Dual(b[k], 3, k);
    const Rotor<Dual, 3> value = exp(dual);
    for (Index k = 0; k < 3; ++k) {
      const Bivector<double, 3> column(of_exp.col(k));
      const auto derivative = s * column.even_part();
      for (Index i = 0; i < 4; ++i) CHECK(value[i].derivatives()[k] == Approx(derivative[i]).margin(1e-13));
    }
  }
  Jacobian3<double> none;
  CHECK_THROWS_AS(log(-Rotor<double, 3>(), &none), std::domain_error);
}
