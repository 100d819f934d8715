// SPDX-License-Identifier: MIT
// A fit is the same in all units, and never worse than nothing.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/training/fit.hpp"

using namespace rotorlin;
using Catch::Contains;

namespace fit_scale_test {
namespace {

template <class S>
Matrix<S> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  Matrix<S> m(rows, cols);
  Random(seed).fill_uniform(m, -1, 1);
  return m;
}

template <class S>
struct Data {
  Matrix<S> x = random_matrix<S>(16, 60, 1);
  Matrix<S> y = (random_matrix<S>(8, 16, 2) * x).colwise() + VectorX<S>(random_matrix<S>(8, 1, 3).col(0));
};

const FitOptions options{.epochs = 30, .batch_size = 16};

/// The fit to (s x, s t y) ends as the fit to (x, y) does, for all s and t that the scalar has room for.
template <class L>
void check_scales(const L& start) {
  using S = typename L::Scalar;
  const Data<S> data;
  L reference = start;
  const FitResult expected = fit(reference, data.x, data.y, options);
  const Matrix<double> y = reference.forward(data.x).template cast<double>();
  for (const double s : {1e-30, 1e-5, 1e4, 1e30}) {
    for (const double t : {1e-20, 1.0, 1e8}) {
      if (s * t < 1e-31 || s * t > 1e31) continue;
      INFO(L::type_name << " x by " << s << ", y by " << s * t);
      L layer = start;
      const Matrix<S> x = static_cast<S>(s) * data.x;
      const FitResult result = fit(layer, x, static_cast<S>(s * t) * data.y, options);
      CHECK(result.relative_error == Approx(expected.relative_error).epsilon(1e-3));
      CHECK(result.best_loss == Approx(expected.best_loss * s * t * s * t).epsilon(2e-3));
      CHECK(result.stop == expected.stop);
      const Matrix<double> scaled = layer.forward(x).template cast<double>() / (s * t);
      CHECK((scaled - y).norm() < 1e-3 * y.norm());
    }
  }
}

/// A linear layer that does not say which parameters are linear: y = (tanh(a) + b) x + bias.
struct OpaqueLayer : LayerBase<OpaqueLayer, float> {
  static constexpr const char* type_name = "OpaqueLayer";
  struct Workspace {};
  explicit OpaqueLayer(Index size, float b) : LayerBase(size, size, 2, true) { parameters()[1] = b; }
  float factor() const { return std::tanh(parameters()[0]) + parameters()[1]; }
  using LayerBase::forward;
  void forward(const ConstMatrixRef<float>& x, MatrixRef<float> y, Workspace&) const {
    y = (factor() * x).colwise() + bias();
  }
  void backward(const ConstMatrixRef<float>& x, const ConstMatrixRef<float>& grad_y, MatrixRef<float> grad_x,
                Workspace&) {
    grad_x = factor() * grad_y;
    const float sum = x.cwiseProduct(grad_y).sum(), t = std::tanh(parameters()[0]);
    gradients()[0] += (1 - t * t) * sum;
    gradients()[1] += sum;
    bias_gradients() += grad_y.rowwise().sum();
  }
  Matrix<float> to_dense() const { return factor() * Matrix<float>::Identity(in_features(), in_features()); }
};
static_assert(LinearLayer<OpaqueLayer>);

/// y = a cos(w x), entry by entry: neither linear nor does it know of scales.
struct Wave : LayerBase<Wave, float> {
  static constexpr const char* type_name = "Wave";
  struct Workspace {};
  explicit Wave(Index size) : LayerBase(size, size, 2, false) { parameters() << 0.5f, 0.9f; }
  using LayerBase::forward;
  void forward(const ConstMatrixRef<float>& x, MatrixRef<float> y, Workspace&) const {
    y = parameters()[0] * (parameters()[1] * x.array()).cos();
  }
  void backward(const ConstMatrixRef<float>& x, const ConstMatrixRef<float>& grad_y, MatrixRef<float> grad_x,
                Workspace&) {
    const float a = parameters()[0], w = parameters()[1];
    grad_x = -a * w * (w * x.array()).sin() * grad_y.array();
    gradients()[0] += ((w * x.array()).cos() * grad_y.array()).sum();
    gradients()[1] -= (a * x.array() * (w * x.array()).sin() * grad_y.array()).sum();
  }
};
static_assert(Layer<Wave>);

/// With outputs of 1e-20: gradients of a loss in their units would vanish in Adam's epsilon.
struct Small : Wave {
  using Wave::Wave;
  static constexpr float unit = 1e-20f;
  using LayerBase::forward;
  void forward(const ConstMatrixRef<float>& x, MatrixRef<float> y, Workspace& workspace) const {
    Wave::forward(x, y, workspace);
    y *= unit;
  }
  Matrix<float> forward(const ConstMatrixRef<float>& x) const { return unit * Wave::forward(x); }
  void backward(const ConstMatrixRef<float>& x, const ConstMatrixRef<float>& grad_y, MatrixRef<float> grad_x,
                Workspace& workspace) {
    Wave::backward(x, unit * grad_y, grad_x, workspace);
  }
};

}  // namespace

TEMPLATE_TEST_CASE("fit to (s x, t y) is fit to (x, y) in other units", "", float, double) {
  using S = TestType;
  check_scales(DenseLinear<S>(16, 8));
  check_scales(DenseLinear<S>(16, 8, {.bias = false}));
  check_scales(LowRankLinear<S>(16, 8, 3));
  check_scales(BlockHadamardLinear<S>(16, 8, 2));
  check_scales(RotorLinear<S>(16, 8, {.width = 2}));
  check_scales(RotorLinear<S>(16, 8, {.single_rotor = true, .bias = false}));
}

TEST_CASE("a bias that alpha scales is fitted in all units") {
  RotorLinear<float> start(16, 16, {.bias_inside_alpha = true});
  const Data<float> data;
  const Matrix<float> y = start.forward(data.x).colwise() + random_matrix<float>(16, 1, 4).col(0);
  start.bivectors_left() *= 0.9f;
  RotorLinear<float> reference = start;
  const double expected = fit(reference, data.x, y, options).relative_error;
  for (const float s : {1e-15f, 1e-5f, 1e5f, 1e15f}) {
    for (const float t : {1e-15f, 1.0f, 1e15f}) {
      RotorLinear<float> layer = start;
      CHECK(fit(layer, s * data.x, s * t * y, options).relative_error == Approx(expected).epsilon(1e-3));
    }
  }
}

TEST_CASE("layers that do not know their scale are fitted in other units all the same") {
  const Data<float> data;
  const Matrix<float> y = (0.7f * data.x).colwise() + random_matrix<float>(16, 1, 4).col(0);
  OpaqueLayer reference(16, 2);
  const double expected = fit(reference, data.x, y, options).relative_error;
  for (const float s : {1e-30f, 1e-5f, 1e5f, 1e30f}) {
    OpaqueLayer layer(16, 2);
    CHECK(fit(layer, s * data.x, s * y, options).relative_error == Approx(expected).epsilon(1e-3));
  }
}

TEST_CASE("the loss of any layer has no unit") {
  const Matrix<float> x = random_matrix<float>(4, 100, 5), y = 0.8f * (1.3f * x.array()).cos();
  Wave wave(4);
  Small small(4);
  const double expected = fit(wave, x, y, {.epochs = 200}).relative_error;
  CHECK(expected < 1e-2);
  CHECK(fit(small, x, Small::unit * y, {.epochs = 200}).relative_error == Approx(expected).epsilon(1e-2));
}

TEST_CASE("a network is fitted to outputs of any scale") {
  const Data<float> data;
  const RotorNetwork<float> start(16, 8, {.depth = 1, .width = 2});
  RotorNetwork<float> reference = start;
  const double expected = fit(reference, data.x, data.y, options).relative_error;
  CHECK(expected < 1);
  for (const float t : {1e-30f, 1e-10f, 1e10f, 1e30f}) {
    RotorNetwork<float> layer = start;
    CHECK(fit(layer, data.x, t * data.y, options).relative_error == Approx(expected).epsilon(1e-2));
  }
  for (const float s : {1e-30f, 1e30f}) {  // inputs: a result or an error, never NaN
    RotorNetwork<float> layer = start;
    try {
      const FitResult result = fit(layer, s * data.x, data.y, options);
      CHECK(result.relative_error <= 1);
      CHECK(layer.forward(s * data.x).allFinite());
    } catch (const std::domain_error& error) {
      CHECK_THAT(error.what(), Contains("not finite"));
    }
  }
}

TEST_CASE("fit_dense is the same for weights and Gram matrices of any scale") {
  const Matrix<double> w = random_matrix<double>(8, 16, 1), x = random_matrix<double>(16, 40, 2),
                       gram = x * x.transpose();
  const RotorLinear<float> start(16, 8, {.width = 2});
  RotorLinear<float> reference = start;
  const double expected = fit_dense(reference, w, gram).relative_error;
  CHECK(expected < 1);
  for (const double s : {1e-30, 1e10, 1e30}) {
    for (const double g : {1e-60, 1.0, 1e60}) {
      RotorLinear<float> layer = start;
      const FitResult result = fit_dense(layer, s * w, g * gram);
      CHECK(result.relative_error == Approx(expected).epsilon(1e-3));
      CHECK(result.best_loss == Approx(expected * expected).epsilon(2e-3));
      CHECK((layer.to_dense().cast<double>() / s - reference.to_dense().cast<double>()).norm() < 1e-2);
    }
  }
}

TEST_CASE("fit_dense is never worse than a layer of zeros") {
  const FitOptions short_fit{.epochs = 3};
  for (const double norm : {1e-20, 1e-3, 1.0, 1e3, 1e20}) {
    Matrix<double> w = random_matrix<double>(24, 40, 1);
    w *= norm / w.norm();
    const Matrix<double> identity = Matrix<double>::Identity(40, 40);
    const auto check = [&](auto layer) {
      INFO(decltype(layer)::type_name << ", norm " << norm);
      const FitResult result = fit_dense(layer, w, identity, short_fit);
      CHECK(result.relative_error <= 1);
      CHECK((layer.to_dense().template cast<double>() - w).norm() <= (1 + 1e-6) * norm);
    };
    check(RotorLinear<float>(40, 24));
    check(RotorLinear<float>(40, 24, {.width = 5}));
    check(DenseLinear<float>(40, 24));
    check(LowRankLinear<double>(40, 24, 2));
    check(BlockHadamardLinear<float>(40, 24, 4));
  }
  // Nor is a layer that cannot be scaled: then the zeros themselves are kept.
  OpaqueLayer opaque(16, 1e6f);
  opaque.bias().setConstant(3);
  const FitResult result =
      fit_dense(opaque, random_matrix<double>(16, 16, 1), Matrix<double>::Identity(16, 16), short_fit);
  CHECK(result.relative_error <= 1);
  CHECK(result.best_epoch == 0);
  CHECK(opaque.bias().isConstant(3));
}

TEST_CASE("fit matches the scale where that helps, and can be told not to") {
  const Data<double> data;
  const DenseLinear<double> start(16, 8);
  const FitOptions one{.epochs = 1, .learning_rate = 1e-9};
  DenseLinear<double> matched = start, as_is = start;
  FitOptions off = one;
  off.match_scale = false;
  const FitResult with = fit(matched, data.x, data.y, one), without = fit(as_is, data.x, data.y, off);
  CHECK(with.loss.front() == without.loss.front());
  const double mean_square = data.y.squaredNorm() / static_cast<double>(data.y.size());
  CHECK(with.best_loss < mean_square);
  CHECK(without.best_loss == Approx(without.loss.front()).epsilon(1e-6));
  CHECK((as_is.parameters() - start.parameters()).norm() < 1e-6);

  // Of all a W + b the best: both residuals are orthogonal to what was moved.
  const Matrix<double> r = matched.forward(data.x) - data.y;
  CHECK(r.rowwise().sum().norm() < 1e-6);
  CHECK(std::abs(r.cwiseProduct(start.weight() * data.x).sum()) < 1e-4);

  // Validation samples judge the start, too: what makes it worse for them is not done.
  DenseLinear<double> judged = start;
  const Matrix<double> few = data.x.leftCols(2), wrong = -100 * start.forward(few);
  const FitResult result = fit(judged, few, wrong, data.x, start.forward(data.x), one);
  CHECK(result.best_loss == 0);
  CHECK(judged.parameters() == start.parameters());
}

TEST_CASE("no progress is told") {
  const Data<double> data;
  DenseLinear<double> layer(16, 8);
  fit(layer, data.x, data.y, {.epochs = 500});
  const VectorX<double> before = layer.parameters();
  SECTION("where every step leads up") {
    const FitResult result = fit(layer, data.x, data.y, {.epochs = 3, .learning_rate = 10});
    CHECK(result.stop == FitStop::no_progress);
    CHECK(result.best_epoch == 0);
    CHECK((layer.parameters() - before).norm() < 1e-2);
  }
  SECTION("but not where some lead down") {
    layer.parameters() += 0.3 * random_matrix<double>(layer.num_parameters(), 1, 6).col(0);
    const FitResult result = fit(layer, data.x, data.y, {.epochs = 50});
    CHECK(result.stop == FitStop::finished);
    CHECK(result.best_epoch > 0);
    const auto best = std::min_element(result.loss.begin(), result.loss.end());
    CHECK(result.best_epoch == best - result.loss.begin());
  }
  SECTION("nor where there is nothing left to gain") {
    const FitResult result = fit(layer, data.x, layer.forward(data.x), {.epochs = 3});
    CHECK(result.stop == FitStop::finished);
    CHECK(result.best_epoch == 0);
    CHECK(layer.parameters() == before);
  }
  CHECK(to_string(FitStop::no_progress) == "no progress");
}

TEST_CASE("zero inputs and zero outputs are data") {
  const Data<float> data;
  const Matrix<float> zero_x = Matrix<float>::Zero(16, 60), zero_y = Matrix<float>::Zero(8, 60);
  for (const float s : {1e-30f, 1.0f, 1e30f}) {
    DenseLinear<float> layer(16, 8);
    CHECK(fit(layer, s * data.x, zero_y, options).best_loss == 0);
    DenseLinear<float> constant(16, 8);  // only the bias can follow
    const Matrix<float> y = s * data.y.col(0).replicate(1, 60);
    CHECK(fit(constant, zero_x, y, options).relative_error < 1e-6);
    CHECK(fit(constant, zero_x, zero_y, options).best_loss == 0);
  }
}

TEST_CASE("no callback has to wait for the first judgement") {
  const Data<float> data;
  DenseLinear<float> layer(16, 8);
  const VectorX<float> before = layer.parameters();
  FitOptions stop{.batch_size = 1};
  stop.progress = [](const FitProgress&) { return false; };
  const FitResult result = fit(layer, data.x, data.y, stop);
  CHECK(result.stop == FitStop::callback);
  CHECK(layer.gradients().isZero(0));
  CHECK(std::isfinite(result.best_loss));
  CHECK(layer.parameters().allFinite());
}

}  // namespace fit_scale_test
