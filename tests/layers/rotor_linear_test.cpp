// SPDX-License-Identifier: MIT
#include "rotorlin/layers/rotor_linear.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <numbers>
#include <thread>
#include <utility>
#include <vector>

#include "support/direct.hpp"
#include "support/layer_laws.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;

namespace {

template <class S>
Matrix<S> random_batch(Index rows, Index cols, std::uint64_t seed) {
  Matrix<S> batch(rows, cols);
  Random(seed).fill_uniform(batch, -1.0, 1.0);
  return batch;
}

RotorLinearOptions options(Index chunk, Index width, bool single, Kernel kernel = Kernel::automatic) {
  RotorLinearOptions result;
  result.chunk = chunk;
  result.width = width;
  result.single_rotor = single;
  result.kernel = kernel;
  result.seed = 7;
  return result;
}

/// The layer as its documentation defines it, from term by term products.
Matrix<double> direct_dense(const RotorLinear<double>& layer) {
  const auto& o = layer.options();
  const int n = layer.dimension();
  const Index in = layer.in_features();
  const Index out = layer.out_features();
  Matrix<double> dense = Matrix<double>::Zero(out, in);
  VectorX<double> count = VectorX<double>::Zero(out);
  for (Index c = 0; c < o.out_chunks; ++c) {
    for (Index k = 0; k < o.chunk; ++k) count[(c * out / o.out_chunks + k) % out] += 1;
  }
  const auto rotor = [&](const auto& bivectors, Index p) {
    Bivector<double, Dynamic> b(n);
    b.coeffs() = bivectors.col(p);
    return VectorX<double>(InvariantDecomposition<double>(b).rotor().coeffs());
  };
  for (Index i = 0; i < o.in_chunks; ++i) {
    for (Index c = 0; c < o.out_chunks; ++c) {
      for (Index w = 0; w < o.width; ++w) {
        const Index p = (i * o.out_chunks + c) * o.width + w;
        const VectorX<double> r = rotor(layer.bivectors_left(), p);
        const VectorX<double> s = rotor(layer.bivectors_right(), p);
        for (Index k = 0; k < o.chunk; ++k) {
          const VectorX<double> column = test::direct_sandwich(n, r, s, VectorX<double>::Unit(o.chunk, k));
          for (Index m = 0; m < o.chunk; ++m) {
            dense((c * out / o.out_chunks + m) % out, (i * in / o.in_chunks + k) % in) +=
                layer.alpha()[p] * column[m];
          }
        }
      }
    }
  }
  for (Index f = 0; f < out; ++f) dense.row(f) /= count[f] * static_cast<double>(o.in_chunks);
  return dense;
}

/// Largest error of gradients and grad_x against central differences, relative to the largest gradient.
double gradient_error(RotorLinear<double>& layer, Index batch) {
  const Matrix<double> x = random_batch<double>(layer.in_features(), batch, 1);
  const Matrix<double> target = random_batch<double>(layer.out_features(), batch, 2);
  const auto loss = [&](const Matrix<double>& input) {
    return 0.5 * (layer.forward(input) - target).squaredNorm();
  };
  Matrix<double> grad_x(x.rows(), x.cols());
  RotorLinear<double>::Workspace workspace;
  layer.zero_gradients();
  layer.backward(x, layer.forward(x) - target, grad_x, workspace);
  const double scale = layer.gradients().cwiseAbs().maxCoeff();
  double worst = 0;
  for (Index k = 0; k < layer.num_parameters(); ++k) {
    // fourth order central differences
    const double kept = layer.parameters()[k];
    const double h = 1e-3;
    double difference = 0;
    for (const auto& [step, weight] : {std::pair{1.0, 8.0}, {-1.0, -8.0}, {2.0, -1.0}, {-2.0, 1.0}}) {
      layer.parameters()[k] = kept + step * h;
      difference += weight * loss(x);
    }
    layer.parameters()[k] = kept;
    worst = std::max(worst, std::abs(difference / (12 * h) - layer.gradients()[k]) / scale);
  }
  const Matrix<double> expected = layer.to_dense().transpose() * (layer.forward(x) - target);
  return std::max(worst, (grad_x - expected).norm() / expected.norm());
}

}  // namespace

TEST_CASE("RotorLinear is the layer that its documentation defines") {
  for (const auto& [in, out, chunk, width] : {std::array<Index, 4>{2, 2, 2, 1},
                                              {3, 2, 2, 2},
                                              {10, 7, 4, 1},
                                              {12, 20, 8, 2},
                                              {16, 8, 8, 1},
                                              {70, 130, 64, 1},
                                              {33, 64, 32, 3}}) {
    for (const bool single : {false, true}) {
      for (const Kernel kernel :
           {Kernel::automatic, Kernel::parity_blocks, Kernel::spinor, Kernel::shears, Kernel::dense}) {
        if (kernel == Kernel::shears && !single) continue;
        CAPTURE(in, out, chunk, width, single, std::string(to_string(kernel)));
        RotorLinear<double> layer(in, out, options(chunk, width, single, kernel));
        layer.alpha() = random_batch<double>(layer.num_pairs(), 1, 5);
        layer.bias() = random_batch<double>(out, 1, 6);
        const Matrix<double> dense = direct_dense(layer);
        CHECK((layer.to_dense() - dense).norm() <= 1e-13 * dense.norm());
        for (Index batch : {1, 2, 7, 16, 40}) {
          const Matrix<double> x = random_batch<double>(in, batch, 9);
          const Matrix<double> y = (dense * x).colwise() + layer.bias();
          CHECK((layer.forward(x) - y).norm() <= 1e-13 * y.norm());
        }
      }
    }
  }
}

TEST_CASE("RotorLinear obeys the laws of layers") {
  test::check_layer_laws(RotorLinear<double>(12, 20, options(8, 2, false)));
  test::check_layer_laws(RotorLinear<double>(70, 64, options(64, 1, true)));
  test::check_layer_laws(RotorLinear<float>(64, 64, options(64, 1, false)));
}

TEST_CASE("Gradients agree with central differences where published implementations fail") {
  for (const bool single : {false, true}) {
    for (const Kernel kernel : {Kernel::parity_blocks, Kernel::spinor, Kernel::shears, Kernel::dense}) {
      if (kernel == Kernel::shears && !single) continue;
      CAPTURE(single, std::string(to_string(kernel)));
      RotorLinear<double> layer(40, 33, options(32, 2, single, kernel));
      layer.bias() = random_batch<double>(33, 1, 6);
      SECTION("at random") { CHECK(gradient_error(layer, 5) < 1e-7); }
      SECTION("at zero") {
        layer.bivectors_left().setZero();
        layer.bivectors_right().setZero();
        CHECK(gradient_error(layer, 3) < 1e-7);
      }
      SECTION("at equal angles") {  // e12 + e34: both planes turn alike
        layer.bivectors_left().setZero();
        layer.bivectors_right().setZero();
        for (Index p = 0; p < layer.num_pairs(); ++p) {
          for (Index k : {0, 7}) layer.bivectors_left()(k, p) = layer.bivectors_right()(k, p) = 0.7;
        }
        CHECK(gradient_error(layer, 3) < 1e-7);
      }
      SECTION("at pi, and with alpha zero") {
        layer.bivectors_left().setZero();
        layer.bivectors_left()(0, 0) = std::numbers::pi;
        layer.alpha()[0] = 0;
        CHECK(gradient_error(layer, 3) < 1e-7);
      }
    }
  }
  RotorLinear<double> large(130, 140, options(128, 1, false));
  CHECK(gradient_error(large, 2) < 1e-7);
}

TEST_CASE("bias_inside_alpha: y = alpha (M x + bias)") {
  auto o = options(8, 1, false);
  o.bias_inside_alpha = true;
  RotorLinear<double> layer(8, 8, o);
  layer.alpha()[0] = -0.5;
  layer.bias() = random_batch<double>(8, 1, 6);
  const Matrix<double> zero = Matrix<double>::Zero(8, 1);
  CHECK((layer.forward(zero) + 0.5 * layer.bias()).norm() < 1e-15);
  CHECK(gradient_error(layer, 3) < 1e-7);
}

TEST_CASE("Defaults, counts and views") {
  RotorLinear<float> layer(2048, 2048);
  CHECK(layer.options().chunk == 2048);
  CHECK(layer.dimension() == 11);
  CHECK(layer.num_parameters() == 2 * 55 + 1 + 2048);
  RotorLinearOptions no_bias;
  no_bias.bias = false;
  CHECK(RotorLinear<float>(2048, 2048, no_bias).num_parameters() == 111);
  CHECK(RotorLinear<float>(784, 10).options().chunk == 8);
  CHECK(RotorLinear<float>(40000, 40000).options().chunk == 16384);
  no_bias.single_rotor = true;
  no_bias.width = 3;
  RotorLinear<double> single(48, 20, no_bias);
  CHECK(single.num_pairs() == 3 * 2 * 3);
  CHECK(single.num_parameters() == 18 * (6 + 1));
  CHECK(single.bivectors_right().data() == single.bivectors_left().data());
  CHECK(single.bias().size() == 0);
}

TEST_CASE("planes() reads off what each rotor turns") {
  RotorLinear<double> layer(64, 64, options(64, 1, false));
  const auto planes = layer.planes();
  REQUIRE(planes.size() == 2);
  CHECK((planes[0].left && !planes[1].left));
  for (const auto& p : planes) {
    CHECK(p.basis.cols() == 6);
    CHECK((p.basis.transpose() * p.basis - Matrix<double>::Identity(6, 6)).norm() < 1e-14);
    CHECK(std::is_sorted(p.angles.data(), p.angles.data() + 3, std::greater<>()));
    const auto b = (p.left ? layer.bivectors_left() : layer.bivectors_right()).col(0);
    Matrix<double> skew = Matrix<double>::Zero(6, 6);
    for (Index q = 0; q < 3; ++q) {
      const auto u = p.basis.col(2 * q);
      const auto v = p.basis.col(2 * q + 1);
      skew += p.angles[q] * (u * v.transpose() - v * u.transpose());
    }
    for (Index i = 0, k = 0; i < 6; ++i) {
      for (Index j = i + 1; j < 6; ++j, ++k) CHECK(std::abs(skew(i, j) - b[k]) < 1e-13);
    }
  }
}

TEST_CASE("Parameters may change at any time, through any view") {
  RotorLinear<float> layer(64, 64, options(64, 1, false));
  const Matrix<float> x = random_batch<float>(64, 3, 1);
  auto view = layer.parameters();
  const Matrix<float> before = layer.forward(x);
  view[0] += 0.5f;
  const Matrix<float> after = layer.forward(x);
  CHECK((after - before).norm() > 0.01f);
  view[0] -= 0.5f;
  CHECK(layer.forward(x).isApprox(before, 1e-6f));
  layer.bias()[3] = 2;
  CHECK(std::abs(layer.forward(x)(3, 0) - before(3, 0) - 2) < 1e-5f);
  RotorLinear<float> copy = layer;
  copy.parameters()[0] += 0.5f;
  CHECK((copy.forward(x) - layer.forward(x)).norm() > 0.01f);
}

TEST_CASE("One layer serves several threads at once") {
  const RotorLinear<float> layer(256, 256, options(256, 1, false));
  const Matrix<float> x = random_batch<float>(256, 35, 1);
  const Matrix<float> expected = RotorLinear<float>(layer).forward(x);
  std::vector<Matrix<float>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = layer.forward(x); });
  }
  for (const auto& result : results) CHECK(result == expected);
}

TEST_CASE("Blocks of larger matrices go in and out") {
  const RotorLinear<double> layer(20, 12, options(8, 1, false));
  Matrix<double> x = random_batch<double>(30, 40, 1);
  Matrix<double> y = Matrix<double>::Constant(22, 40, 5);
  RotorLinear<double>::Workspace workspace;
  layer.forward(x.block(4, 3, 20, 33), y.block(5, 3, 12, 33), workspace);
  CHECK(y.block(5, 3, 12, 33).isApprox(layer.forward(Matrix<double>(x.block(4, 3, 20, 33))), 1e-14));
  CHECK((y.topRows(5).array() == 5).all());
  CHECK((y.bottomRows(5).array() == 5).all());
  CHECK((y.leftCols(3).array() == 5).all());
}

TEST_CASE("Impossible layers are refused with their shapes") {
  CHECK_THROWS_WITH(RotorLinear<float>(1, 8), Contains("in = 1, out = 8"));
  CHECK_THROWS_WITH(RotorLinear<float>(-4, 8), Contains("in = -4"));
  CHECK_THROWS_WITH(RotorLinear<float>(16, 8, options(6, 1, false)),
                    Contains("chunk = 6") && Contains("power of two"));
  CHECK_THROWS_WITH(RotorLinear<float>(16, 8, options(1, 1, false)), Contains("chunk = 1"));
  CHECK_THROWS_WITH(RotorLinear<float>(16, 8, options(-8, 1, false)), Contains("chunk = -8"));
  CHECK_THROWS_WITH(RotorLinear<float>(16, 8, options(16, 1, false)),
                    Contains("chunk = 16") && Contains("16 -> 8") && Contains("at most 8"));
  CHECK_THROWS_WITH(RotorLinear<float>(40000, 40000, options(32768, 1, false)), Contains("16384"));
  CHECK_THROWS_WITH(RotorLinear<float>(16, 8, options(8, 0, false)), Contains("width = 0"));
  CHECK_THROWS_WITH(RotorLinear<float>(16, 16, options(8, 1, false, Kernel::shears)),
                    Contains("single_rotor"));
  auto o = options(8, 1, false);
  o.in_chunks = 1;
  CHECK_THROWS_WITH(RotorLinear<float>(300, 100, {.chunk = 512}),
                    Contains("300 -> 100") && Contains("at most 64"));
  CHECK_THROWS_WITH(RotorLinear<float>(8, 4).forward(Matrix<float>::Zero(5, 8)),
                    Contains("5 x 8, expected 8 x 8") && Contains("transposed?"));
  CHECK_THROWS_WITH(RotorLinear<float>(16, 8, o), Contains("in_chunks = 1") && Contains("expected 2 to 16"));
  o = options(8, 1, false);
  o.bias_inside_alpha = true;
  CHECK_THROWS_WITH(RotorLinear<float>(16, 8, o), Contains("bias_inside_alpha"));
}

TEST_CASE("Wrong calls are refused with both shapes") {
  RotorLinear<float> layer(16, 8);
  RotorLinear<float>::Workspace workspace;
  Matrix<float> y(8, 3);
  Matrix<float> grad_x(16, 3);
  CHECK_THROWS_WITH(layer.forward(random_batch<float>(15, 3, 1), y, workspace),
                    Contains("15 x 3") && Contains("16 x 3"));
  CHECK_THROWS_WITH(layer.forward(random_batch<float>(16, 4, 1), y, workspace),
                    Contains("8 x 3") && Contains("8 x 4"));
  CHECK_THROWS_WITH(layer.forward(Matrix<float>(16, 0)),
                    Contains("16 x 0") && Contains("at least one sample"));
  CHECK_THROWS_WITH(
      layer.backward(random_batch<float>(16, 3, 1), random_batch<float>(7, 3, 1), grad_x, workspace),
      Contains("7 x 3") && Contains("8 x 3"));
  CHECK_THROWS_WITH(
      layer.backward(random_batch<float>(16, 2, 1), random_batch<float>(8, 2, 1), grad_x, workspace),
      Contains("16 x 3") && Contains("16 x 2"));
}

TEST_CASE("Hostile calls end in exceptions") {
  RotorLinear<float> layer(16, 16);
  Matrix<float> x = random_batch<float>(16, 3, 1);
  RotorLinear<float>::Workspace workspace;
  CHECK_THROWS_WITH(layer.forward(x, x, workspace), Contains("same memory"));
  const RotorLinear<float> taken = std::move(layer);
  CHECK_THROWS_WITH(layer.forward(x), Contains("moved from"));
  CHECK_THROWS_WITH(layer.prepare(), Contains("prepare") && Contains("moved from"));
  CHECK_THROWS_WITH(layer.planes(), Contains("moved from"));
  CHECK_NOTHROW(taken.forward(x));
  CHECK_THROWS_WITH(RotorLinear<float>(4, 4, options(4, 1, false, static_cast<Kernel>(9))),
                    Contains("kernel = 9"));
  CHECK_THROWS_AS(RotorLinear<float>(std::numeric_limits<Index>::max(), 4), std::invalid_argument);
  CHECK_THROWS_AS(RotorLinear<float>(8, 8, options(8, Index{1} << 62, false)), std::invalid_argument);
}

TEST_CASE("NaN and infinite parameters are refused, in every place") {
  RotorLinear<float> layer(8, 8, options(8, 1, false));
  const Matrix<float> x = random_batch<float>(8, 3, 1);
  const Matrix<float> before = layer.forward(x);
  for (Index k = 0; k < layer.num_parameters(); ++k) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const float kept = layer.parameters()[k];
      layer.parameters()[k] = bad;
      CHECK_THROWS_AS(layer.forward(x), std::domain_error);
      CHECK_THROWS_AS(layer.forward(x), std::domain_error);  // and again
      CHECK_THROWS_AS(layer.prepare(), std::domain_error);
      layer.parameters()[k] = kept;
      CHECK(layer.forward(x) == before);
    }
  }
}

TEST_CASE("A description makes the same layer") {
  auto o = options(8, 2, true);
  o.bias = false;
  o.in_chunks = 4;
  const RotorLinear<double> layer(20, 12, o);
  RotorLinear<double> copy = RotorLinear<double>::from_description(layer.describe());
  copy.parameters() = layer.parameters();
  CHECK(copy.to_dense() == layer.to_dense());
  CHECK(RotorLinear<double>::count_parameters(layer.describe()) == layer.num_parameters());
  Description broken = layer.describe();
  broken["chunk"] = "7";
  CHECK_THROWS_AS(RotorLinear<double>::from_description(broken), std::invalid_argument);
}

TEST_CASE("float agrees with double") {
  for (const bool single : {false, true}) {
    RotorLinear<double> exact(2048, 2048, options(2048, 1, single));
    RotorLinear<float> layer(2048, 2048, options(2048, 1, single));
    exact.parameters() = layer.parameters().cast<double>();
    const Matrix<float> x = random_batch<float>(2048, 17, 1);
    const Matrix<double> y = exact.forward(Matrix<double>(x.cast<double>()));
    CHECK((layer.forward(x).cast<double>() - y).norm() < 4e-6 * y.norm());
  }
}

TEST_CASE("A layer whose parameters stand still goes through its matrix where that is faster", "[layers]") {
  // 64 pairs of 2^6 on 64 features: far more work than the matrix.
  RotorLinear<double> layer(64, 64, {.width = 64, .seed = 5});
  const Matrix<double> x = random_batch<double>(64, 40, 3);
  RotorLinear<double> forbidden(64, 64, {.width = 64, .seed = 5, .matrix_bytes = 64 * 64 * 8 - 1});
  CHECK(layer.forward_kernel(40) == Kernel::dense);
  CHECK(layer.kernel() == Kernel::spinor);
  CHECK(forbidden.forward_kernel(40) == Kernel::spinor);
  CHECK(RotorLinear<double>(64, 64, {.width = 64, .kernel = Kernel::spinor}).forward_kernel(40) ==
        Kernel::spinor);
  CHECK(RotorLinear<float>(2048, 2048).forward_kernel(1) == Kernel::spinor);
  CHECK(RotorLinear<float>(2048, 2048).forward_kernel(256) == Kernel::spinor);
  CHECK_THROWS_WITH(RotorLinear<float>(8, 8, {.matrix_bytes = -1}), Contains("matrix_bytes = -1"));

  const auto check = [&](RotorLinear<double>& l) {
    forbidden.parameters() = l.parameters();
    const Matrix<double> expected = forbidden.forward(x);
    for (int i = 0; i < 5; ++i)  // on both sides of the moment in which the matrix is made
      CHECK((l.forward(x) - expected).norm() <= 1e-13 * expected.norm());
    CHECK((l.forward(x.leftCols(1)) - expected.leftCols(1)).norm() <= 1e-13 * expected.norm());
  };
  check(layer);
  for (const Index i : {Index{0}, layer.alpha_offset() + 1, layer.num_parameters() - 1}) {  // the last: bias
    layer.parameters()[i] += 0.5;
    check(layer);
  }
  layer.prepare();
  check(layer);
  RotorLinear<double> copy = layer;
  check(copy);
  copy.parameters()[3] = -1;
  copy = layer;
  check(copy);
  RotorLinear<double> moved = std::move(copy);
  check(moved);
  layer.bias()[7] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(layer.forward(x), std::domain_error);
  layer.bias()[7] = 0;
  layer.parameters()[0] = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(layer.forward(x), std::domain_error);
  CHECK_THROWS_AS(layer.prepare(), std::domain_error);
  layer.parameters()[0] = 0;
  check(layer);

  // First calls of several threads at once.
  const RotorLinear<double> fresh = layer;
  const Matrix<double> expected = forbidden.forward(x);
  std::vector<double> errors(4, 1.0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4; ++i) errors[t] = (fresh.forward(x) - expected).norm() / expected.norm();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const double error : errors) CHECK(error <= 1e-13);
}
