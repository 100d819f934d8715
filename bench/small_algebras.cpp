// SPDX-License-Identifier: MIT
// Small static algebras, as a Markdown table of nanoseconds an operation: against Eigen::Quaterniond, and
// against klein where the CMake variable ROTORLIN_KLEIN_DIR names a checkout. Inputs are 512 random ones in
// arrays, both sides run in turn, and the fastest of 60 short runs counts.
#include <Eigen/Geometry>
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "rotorlin/algebra/aliases.hpp"
#include "rotorlin/algebra/rotation.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/log.hpp"
#include "support/table_product.hpp"
#include "support/timing.hpp"
#ifdef ROTORLIN_BENCH_KLEIN
#include <klein/klein.hpp>
#endif

namespace {

using namespace rotorlin;
constexpr std::size_t count = 512;

/// Nanoseconds an operation, the least of each side.
template <class Ours, class Other>
std::pair<double, double> least_times(Ours ours, Other other) {
  bench::Repeated our_runs(std::move(ours), 1e-4);
  bench::Repeated other_runs(std::move(other), 1e-4);
  double least = 1e300, other_least = 1e300;
  for (int round = 0; round < 60; ++round) {
    least = std::min(least, our_runs.microseconds());
    other_least = std::min(other_least, other_runs.microseconds());
  }
  constexpr double scale = 1000.0 / static_cast<double>(count);
  return {scale * least, scale * other_least};
}

/// 512 values of make().
template <class Make>
auto array_of(Make make) {
  std::vector<decltype(make())> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(make());
  return values;
}

/// A pass of f over the arrays, results kept.
template <class F, class... Inputs>
auto pass(F f, const std::vector<Inputs>&... inputs) {
  using Result = std::decay_t<decltype(f(inputs[0]...))>;
  return [f, &inputs...,
          results = std::vector<Result>(array_of([&] { return f(inputs[0]...); }))](std::size_t) mutable {
    for (std::size_t i = 0; i < count; ++i) results[i] = f(inputs[i]...);
    bench::keep(results.data());
  };
}

template <class Ours, class Other>
void row(const char* operation, const char* against, Ours ours, Other other) {
  const auto [our_time, other_time] = least_times(ours, other);
  std::printf("| %s | %s | %.2f | %.2f | %.2f |\n", operation, against, other_time, our_time,
              other_time / our_time);
  std::fflush(stdout);
}

template <class Ours>
void row(const char* operation, Ours ours) {
  std::printf("| %s | - | | %.2f | |\n", operation, least_times(ours, ours).first);
  std::fflush(stdout);
}

constexpr auto multiply = [](const auto& a, const auto& b) { return a * b; };
constexpr auto turn = [](const auto& r, const auto& x) { return r.apply(x); };

void against_eigen(Random& random) {
  using Q = Eigen::Quaterniond;
  const char* eigen = "Eigen::Quaterniond";
  const auto r = array_of([&] { return random_rotor<double>(Signature<3>(), random); });
  const auto s = array_of([&] { return random_rotor<double>(Signature<3>(), random); });
  const auto v = array_of([&] { return random_element<Vector<double, 3>>({}, random); });
  const auto rough = array_of([&] { return random_element<Rotor3d>({}, random); });
  const auto b = array_of([&] { return random_element<Bivector3d>({}, random); });
  std::vector<Q> q, p, rough_q;
  std::vector<Eigen::Vector3d> w, axis;
  std::vector<Eigen::Matrix3d> m;
  for (std::size_t i = 0; i < count; ++i) {
    q.push_back(to_quaternion(r[i]));
    p.push_back(to_quaternion(s[i]));
    rough_q.push_back(to_quaternion(rough[i]));
    w.push_back(v[i].coeffs());
    axis.push_back(b[i].coeffs());
    m.push_back(q[i].toRotationMatrix());
  }
  row("rotate a vector", eigen, pass(turn, r, v),
      pass([](const Q& x, const Eigen::Vector3d& y) -> Eigen::Vector3d { return x * y; }, q, w));
  row("product", eigen, pass(multiply, r, s), pass([](const Q& x, const Q& y) -> Q { return x * y; }, q, p));
  row("slerp", eigen, pass([](const auto& x, const auto& y) { return slerp(x, y, 0.3); }, r, s),
      pass([](const Q& x, const Q& y) { return x.slerp(0.3, y); }, q, p));
  row("exp", "AngleAxis", pass([](const auto& x) { return exp(x); }, b),
      pass(
          [](const Eigen::Vector3d& x) {
            const double angle = x.norm();
            return Q(Eigen::AngleAxisd(2 * angle, x / angle));
          },
          axis));
  row("log", "AngleAxis", pass([](const auto& x) { return log(x); }, r),
      pass(
          [](const Q& x) -> Eigen::Vector3d {
            const Eigen::AngleAxisd rotation(x);
            return rotation.angle() / 2 * rotation.axis();
          },
          q));
  row("to a matrix", eigen, pass([](const auto& x) { return x.to_rotation_matrix(); }, r),
      pass([](const Q& x) { return x.toRotationMatrix(); }, q));
  row("from a matrix, which ours checks", eigen,
      pass([](const auto& x) { return Rotor3d::from_rotation_matrix(x); }, m),
      pass([](const Eigen::Matrix3d& x) { return Q(x); }, m));
  row("normalized", eigen, pass([](const auto& x) { return x.normalized(); }, rough),
      pass([](const Q& x) { return x.normalized(); }, rough_q));
  const Eigen::Matrix3Xd points = Eigen::Matrix3Xd::Random(3, count);
  row(
      "one rotor, 3 x 512 vectors", "Matrix3d times Matrix3Xd",
      [&](std::size_t) {
        const Eigen::Matrix3Xd y = rotate(r[0], points);
        bench::keep(y.data());
      },
      [&](std::size_t) {
        const Eigen::Matrix3Xd y = q[0].toRotationMatrix() * points;
        bench::keep(y.data());
      });
}

template <class S, int P, int Q = 0, int R = 0>
void full_product(const char* name, Random& random) {
  using M = Multivector<S, P, Q, R>;
  const auto a = array_of([&] { return random_element<M>({}, random); });
  const auto b = array_of([&] { return random_element<M>({}, random); });
  row(name, pass(multiply, a, b));
}

template <int N>
void against_table(const char* name, Random& random) {
  using M = Multivector<float, N>;
  const auto a = array_of([&] { return random_element<M>({}, random); });
  const auto b = array_of([&] { return random_element<M>({}, random); });
  const bench::TableProduct<float> table(N);
  row(name, "table of 4^n", pass(multiply, a, b),
      pass(
          [&table](const M& x, const M& y) {
            M z;
            table.multiply(x.coeffs().data(), y.coeffs().data(), z.coeffs().data());
            return z;
          },
          a, b));
}

template <class Static, class Run>
void dynamic_product(const char* name, Random& random) {
  const auto a = array_of([&] { return random_element<Static>({}, random); });
  const auto b = array_of([&] { return random_element<Static>({}, random); });
  std::vector<Run> x, y;
  for (std::size_t i = 0; i < count; ++i) {
    x.emplace_back(a[i].dimension(), a[i].coeffs());
    y.emplace_back(b[i].dimension(), b[i].coeffs());
  }
  row(name, "the static one", pass(multiply, x, y), pass(multiply, a, b));
}

template <class S>
void motors(const char* suffix, Random& random) {
  using Motor = Rotor<S, 3, 0, 1>;
  using M = Multivector<S, 3, 0, 1>;
  const auto name = [&](const char* operation) { return std::string(operation) + suffix; };
  const auto b = array_of([&] { return random_element<Bivector<S, 3, 0, 1>>({}, random); });
  const auto c = array_of([&] { return random_element<Bivector<S, 3, 0, 1>>({}, random); });
  const auto r = array_of([&, i = std::size_t{0}]() mutable -> Motor { return exp(b[i++]); });
  const auto s = array_of([&, i = std::size_t{0}]() mutable -> Motor { return exp(c[i++]); });
  const auto planes = array_of([&] { return random_element<Vector<S, 3, 0, 1>>({}, random); });
  const auto points = array_of([&] { return random_element<M>({}, random).grade_part(3); });
#ifdef ROTORLIN_BENCH_KLEIN
  if constexpr (sizeof(S) == 4) {
    const auto u = [&] { return static_cast<float>(random.normal()); };
    const auto line = array_of([&] { return kln::line(u(), u(), u(), u(), u(), u()); });
    const auto m = array_of([&, i = std::size_t{0}]() mutable -> kln::motor { return kln::exp(line[i++]); });
    const auto n = array_of([&, i = count]() mutable -> kln::motor { return kln::exp(line[--i]); });
    const auto plane = array_of([&] { return kln::plane(u(), u(), u(), u()); });
    const auto point = array_of([&] { return kln::point(u(), u(), u()); });
    constexpr auto call = [](const kln::motor& x, const auto& y) { return x(y); };
    row("motor times motor, float", "klein", pass(multiply, r, s), pass(multiply, m, n));
    row("motor on a plane, float", "klein", pass(turn, r, planes), pass(call, m, plane));
    row("motor on a line, float", "klein", pass(turn, r, b), pass(call, m, line));
    row("motor on a point, float", "klein", pass(turn, r, points), pass(call, m, point));
    row("exp to a motor, float", "klein", pass([](const auto& x) { return exp(x); }, b),
        pass([](const kln::line& x) { return kln::exp(x); }, line));
    row("log of a motor, float", "klein", pass([](const auto& x) { return log(x); }, r),
        pass([](const kln::motor& x) { return kln::log(x); }, m));
    return;
  }
#endif
  row(name("motor times motor, ").c_str(), pass(multiply, r, s));
  row(name("motor on a plane, ").c_str(), pass(turn, r, planes));
  row(name("motor on a line, ").c_str(), pass(turn, r, b));
  row(name("motor on a point, ").c_str(), pass(turn, r, points));
  row(name("exp to a motor, ").c_str(), pass([](const auto& x) { return exp(x); }, b));
  row(name("log of a motor, ").c_str(), pass([](const auto& x) { return log(x); }, r));
}

/// exp, log and the action on a vector in Cl(n).
template <class S, int N>
void rotors(const char* type, Random& random) {
  const auto name = [&](const char* operation) {
    return std::string(operation) + " of Cl(" + std::to_string(N) + "), " + type;
  };
  const auto b = array_of([&] { return random_element<Bivector<S, N>>({}, random); });
  const auto r = array_of([&, i = std::size_t{0}]() mutable -> Rotor<S, N> { return exp(b[i++]); });
  const auto v = array_of([&] { return random_element<Vector<S, N>>({}, random); });
  row(name("exp").c_str(), pass([](const auto& x) { return exp(x); }, b));
  row(name("log").c_str(), pass([](const auto& x) { return log(x); }, r));
  row(name("rotor on a vector").c_str(), pass(turn, r, v));
  const auto m = array_of([&, i = std::size_t{0}]() mutable { return r[i++].to_rotation_matrix(); });
  row(name("from a matrix").c_str(),
      pass([](const auto& x) { return Rotor<S, N>::from_rotation_matrix(x); }, m));
}

}  // namespace

int main() {
  Random random(1);
  std::puts("| operation | against | other, ns | ours, ns | other / ours |\n|---|---|--:|--:|--:|");
  against_eigen(random);
  motors<float>("float", random);
  motors<double>("double", random);
  rotors<float, 3>("float", random);
  rotors<double, 4>("double", random);
  rotors<double, 5>("double", random);
  full_product<double, 3>("product of Cl(3), double", random);
  full_product<double, 4>("product of Cl(4), double", random);
  full_product<double, 3, 0, 1>("product of Cl(3, 0, 1), double", random);
  full_product<double, 4, 1>("product of Cl(4, 1), double", random);
  against_table<5>("product of Cl(5), float", random);
  dynamic_product<Multivector3f, MultivectorXf>("product of Cl(3), float, n at run time", random);
  dynamic_product<Multivector4f, MultivectorXf>("product of Cl(4), float, n at run time", random);
  dynamic_product<Multivector<float, 5>, MultivectorXf>("product of Cl(5), float, n at run time", random);
}
