// SPDX-License-Identifier: MIT
// Products of multivectors against a table, the exponential and its derivative against Eigen's.
#include <complex>
#include <string>
#include <unsupported/Eigen/MatrixFunctions>

#include "ratios/report.hpp"
#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/exponential/derivative.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "support/layers.hpp"
#include "support/table_product.hpp"

namespace bench {
namespace {

using rotorlin::Dynamic;
using rotorlin::Matrix;
using Bivector = rotorlin::Bivector<float, Dynamic>;
using Rotor = rotorlin::Rotor<float, Dynamic>;
using Decomposition = rotorlin::InvariantDecomposition<float, Dynamic>;

template <class M>
void product_case(Report& report, int n, const std::string& name) {
  if (!report.wants(name)) return;
  M a(n), b(n);
  a.coeffs() = random_matrix<float>(Index{1} << n, 1, 4);
  b.coeffs() = random_matrix<float>(Index{1} << n, 1, 5);
  rotorlin::VectorX<float> c(Index{1} << n);
  const TableProduct<float> table(n);
  const Vector wide_a = a.coeffs().template cast<double>(), wide_b = b.coeffs().template cast<double>();
  Vector reference(Index{1} << n);
  TableProduct<double>(n).multiply(wide_a.data(), wide_b.data(), reference.data());
  demand_close(name, (a * b).coeffs(), reference);
  const double flops = std::ldexp(2.0, 2 * n);
  report.measure(
      name, {0, flops, 0},
      [&](std::size_t) {
        const M product = a * b;
        keep(&product);
      },
      [&](std::size_t) {
        table.multiply(a.coeffs().data(), b.coeffs().data(), c.data());
        keep(c.data());
      });
}

Vector wide(const Bivector& b) { return b.coeffs().cast<double>(); }

/// exp(b) by the definition: even coefficients in graded order.
Vector reference_exponential(int n, const Vector& b) {
  Vector one = Vector::Zero(Index{1} << n);
  one[0] = 1;
  const Vector all = exponential_product(n, b, one, false);
  Vector even(Index{1} << (n - 1));
  const rotorlin::BladeTable& blades = rotorlin::blade_table(n);
  for (std::size_t i = 0; i < blades.even.size(); ++i) {
    even[static_cast<Index>(i)] = all[blades.index[blades.even[i]]];
  }
  return even;
}

void exponential_case(Report& report, int n) {
  const std::string suffix = "_n" + std::to_string(n);
  rotorlin::Random random(6);
  Bivector b(n);
  for (Index i = 0; i < b.size(); ++i) b[i] = static_cast<float>(random.normal());
  Rotor gradient(n), r(n);
  gradient.coeffs() = random_matrix<float>(Index{1} << (n - 1), 1, 7);
  Decomposition planes(b);
  Bivector vjp(n);
  const auto exponential = [&](std::size_t) {
    planes.compute(b);
    planes.rotor(r);
    keep(r.coeffs().data());
  };
  const auto derivative = [&](std::size_t) {
    planes.compute(b);
    vjp = rotorlin::exp_vjp(planes, gradient);
    keep(vjp.coeffs().data());
  };

  exponential(0);
  demand_close("exp" + suffix, r.coeffs(), reference_exponential(n, wide(b)));
  derivative(0);
  const Vector direction = random_matrix<float>(b.size(), 1, 8).cast<double>();
  constexpr double step = 1e-5;
  const Vector difference = (reference_exponential(n, wide(b) + step * direction) -
                             reference_exponential(n, wide(b) - step * direction)) /
                            (2 * step);
  const double expected = difference.dot(gradient.coeffs().cast<double>());
  demand("exp_vjp" + suffix + ": wrong derivative",
         std::abs(wide(vjp).dot(direction) - expected) < 1e-4 * gradient.coeffs().norm() * direction.norm());

  // what a rotor does to vectors, and its derivative as a block of the exponential of twice the size
  const Matrix<float> skew = 2 * b.to_skew_matrix();
  Matrix<float> blocks = Matrix<float>::Zero(2 * n, 2 * n);
  blocks.topLeftCorner(n, n) = blocks.bottomRightCorner(n, n) = skew.transpose();
  blocks.topRightCorner(n, n) = random_matrix<float>(n, n, 9);
  const auto eigen = [](const auto& matrix) {
    return [&](std::size_t) {
      const auto result = matrix.exp().eval();
      keep(result.data());
    };
  };
  if (report.wants("exp" + suffix)) report.measure("exp" + suffix, {}, exponential, eigen(skew));
  if (report.wants("exp_vjp" + suffix)) report.measure("exp_vjp" + suffix, {}, derivative, eigen(blocks));
  if (n != 11) return;

  // what a rotor of Cl(11) is: a complex matrix of order 32 (antihermitian, its norm the sum of the angles)
  if (report.wants("exp_n11_spinor")) {
    Eigen::MatrixXcf spinor(32, 32);
    spinor.real() = random_matrix<float>(32, 32, 10);
    spinor.imag() = random_matrix<float>(32, 32, 11);
    spinor = (spinor - spinor.adjoint()).eval();
    spinor *= planes.angles().sum() / spinor.operatorNorm();
    report.measure("exp_n11_spinor", {}, exponential, eigen(spinor));
  }

  // the cost of new parameters against one forward pass of 16 samples
  rotorlin::RotorLinear<float> layer = rotor_layer<float>(n, false);
  rotorlin::RotorLinear<float>::Workspace workspace;
  const Matrix<float> x = random_matrix<float>(Index{1} << n, 16, 2);
  Matrix<float> y(Index{1} << n, 16);
  const auto forward = [&](std::size_t) {
    layer.forward(x, y, workspace);
    keep(y.data());
  };
  if (report.wants("exp_and_vjp_n11_to_forward_b16")) {
    report.measure(
        "exp_and_vjp_n11_to_forward_b16", {},
        [&](std::size_t i) {
          exponential(i);
          vjp = rotorlin::exp_vjp(planes, gradient);
          keep(vjp.coeffs().data());
        },
        forward);
  }
  if (report.wants("prepare_double_n11_to_forward_b16")) {
    rotorlin::RotorLinear<float> changing = rotor_layer<float>(n, false);
    report.measure(
        "prepare_double_n11_to_forward_b16", {},
        [&](std::size_t i) {
          changing.parameters()[0] = static_cast<float>(i % 16) / 16;
          changing.prepare();
        },
        forward);
  }
}

}  // namespace

void product_cases(Report& report, const std::vector<int>& dimensions) {
  for (const int n : dimensions) {
    product_case<rotorlin::Multivector<float, Dynamic>>(report, n, "product_n" + std::to_string(n));
  }
  if (dimensions.front() > 2) return;
  product_case<rotorlin::Multivector<float, 3>>(report, 3, "product_n3_static");
  product_case<rotorlin::Multivector<float, 5>>(report, 5, "product_n5_static");
}

void exponential_cases(Report& report) {
  for (const int n : {3, 5, 8, 11}) exponential_case(report, n);
}

}  // namespace bench
