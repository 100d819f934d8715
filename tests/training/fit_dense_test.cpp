// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>

#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_encoder_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/training/detail/gram_samples.hpp"
#include "rotorlin/training/fit.hpp"

using namespace rotorlin;
using Catch::Contains;

// Named, for fit_test.cpp, which may be part of the same unity build, has a w of its own.
namespace fit_dense_test {
namespace {

Matrix<double> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  Matrix<double> m(rows, cols);
  Random(seed).fill_uniform(m, -1, 1);
  return m;
}

const Matrix<double> w = random_matrix(4, 6, 1), inputs = random_matrix(6, 40, 2);
const Matrix<double> gram = inputs * inputs.transpose() / 40;
const FitOptions options{.epochs = 2000, .learning_rate = 0.05};

double relative_error(const Matrix<double>& m) { return ((w - m) * inputs).norm() / (w * inputs).norm(); }

/// A random positive semidefinite matrix.
Matrix<double> gram_of_rank(Index size, Index rank, std::uint64_t seed) {
  const Matrix<double> f = random_matrix(size, rank, seed);
  return f * f.transpose();
}

/// A linear layer whose bias is scaled by its one weight: y = a (x + bias).
struct ScaledLayer : LayerBase<ScaledLayer, double> {
  static constexpr const char* type_name = "ScaledLayer";
  struct Workspace {};
  explicit ScaledLayer(Index size) : LayerBase(size, size, 1, true) { parameters()[0] = 2; }
  using LayerBase::forward;
  void forward(const ConstMatrixRef<double>& x, MatrixRef<double> y, Workspace&) const {
    y = parameters()[0] * (x.colwise() + bias());
  }
  void backward(const ConstMatrixRef<double>& x, const ConstMatrixRef<double>& grad_y,
                MatrixRef<double> grad_x, Workspace&) {
    grad_x = parameters()[0] * grad_y;
    gradients()[0] += grad_y.cwiseProduct(x.colwise() + bias()).sum();
    bias_gradients() += parameters()[0] * grad_y.rowwise().sum();
  }
  Matrix<double> to_dense() const {
    return parameters()[0] * Matrix<double>::Identity(in_features(), in_features());
  }
};
static_assert(LinearLayer<ScaledLayer> && !DescribedLayer<ScaledLayer>);

}  // namespace

TEST_CASE("fit_dense recovers a matrix that the layer can be") {
  DenseLinear<double> layer(6, 4);
  const FitResult result = fit_dense(layer, w, gram, options);
  CHECK((layer.to_dense() - w).norm() < 1e-6);
  CHECK(result.relative_error < 1e-6);
  CHECK(result.relative_error == Approx(relative_error(layer.to_dense())).epsilon(1e-3).margin(1e-12));
}

TEST_CASE("fit_dense reaches the closed form of low rank, and reports the true error") {
  for (const double scale : {1e-12, 1.0, 1e12}) {
    LowRankLinear<double> layer(6, 4, 2), closed(6, 4, 2);
    const double expected = closed.fit_closed_form(w, gram);
    const FitResult result = fit_dense(layer, w, scale * gram, options);
    CHECK(result.relative_error == Approx(expected).epsilon(1e-4));
    CHECK(result.relative_error >= expected * (1 - 1e-12));
    CHECK(relative_error(layer.to_dense()) == Approx(result.relative_error).epsilon(1e-9));
    CHECK(result.loss.back() == Approx(result.relative_error * result.relative_error).epsilon(1e-6));
  }
}

TEST_CASE("fit_dense bears singular Gram matrices") {
  const Matrix<double> few = inputs.leftCols(2), singular = few * few.transpose();
  DenseLinear<double> layer(6, 4);
  fit_dense(layer, w, singular, options);
  CHECK((layer.to_dense() * few - w * few).norm() < 1e-6);
}

TEST_CASE("fit_dense in float takes weights and Gram matrices of either scalar") {
  DenseLinear<float> layer(6, 4);
  CHECK(fit_dense(layer, w, gram, options).relative_error < 1e-4);
  layer = DenseLinear<float>(6, 4);
  CHECK(fit_dense(layer, w.cast<float>(), inputs.cast<float>() * inputs.cast<float>().transpose(), options)
            .relative_error < 1e-4);
}

TEST_CASE("fit_dense leaves the bias alone, whatever it does in the layer") {
  LowRankLinear<double> with(6, 4, 2), without(6, 4, {.rank = 2, .bias = false});
  with.bias() << 1, 2, 3, 4;
  fit_dense(with, w, gram, {.epochs = 50, .weight_decay = 0.1});
  fit_dense(without, w, gram, {.epochs = 50, .weight_decay = 0.1});
  CHECK(with.bias() == Eigen::Vector4d(1, 2, 3, 4));
  CHECK(with.to_dense() == without.to_dense());

  ScaledLayer layer(3);
  layer.bias() << 1, 2, 3;
  fit_dense(layer, 0.5 * Matrix<double>::Identity(3, 3), Matrix<double>::Identity(3, 3), options);
  CHECK(layer.parameters()[0] == Approx(0.5).epsilon(1e-4));
  CHECK(layer.bias() == Eigen::Vector3d(1, 2, 3));
  match_bias(layer, Eigen::Vector3d(1, 1, 1), Eigen::Vector3d(4, 5, 6));
  CHECK(layer.forward(Eigen::Vector3d(1, 1, 1)).isApprox(Eigen::Vector3d(4, 5, 6), 1e-12));

  FitOptions throws = options;
  throws.progress = [](const FitProgress&) -> bool { throw std::runtime_error("enough"); };
  CHECK_THROWS_WITH(fit_dense(with, w, gram, throws), "enough");
  CHECK(with.bias() == Eigen::Vector4d(1, 2, 3, 4));
}

TEST_CASE("covariance, then match_bias: the best affine map of the layer") {
  const Matrix<double> x = inputs.colwise() + Eigen::VectorXd::Constant(6, 3.0);
  const VectorX<double> mean = x.rowwise().mean(), bias = random_matrix(4, 1, 5);
  const Matrix<double> centred = x.colwise() - mean, y = (w * x).colwise() + bias;
  LowRankLinear<double> layer(6, 4, 1);
  layer.fit_closed_form(w, centred * centred.transpose());
  match_bias(layer, mean, w * mean + bias);
  const double best = (layer.forward(x) - y).norm();
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    LowRankLinear<double> near = layer;
    near.parameters() += 1e-3 * random_matrix(near.num_parameters(), 1, seed).col(0);
    CHECK((near.forward(x) - y).norm() > best);
  }
}

TEST_CASE("a zero weight is a target like any other") {
  DenseLinear<double> layer(6, 4);
  const FitResult result = fit_dense(layer, Matrix<double>::Zero(4, 6), gram, options);
  CHECK(layer.to_dense().norm() < 1e-4);
  CHECK(result.loss.back() < 1e-8);
}

TEST_CASE("the columns that stand for a Gram matrix make it, whatever its kind") {
  using detail::GramSamples;
  const auto check = [](const Matrix<double>& g, Index rank, double tolerance = 1e-12) {
    const Matrix<double> weight = random_matrix(3, g.cols(), 9);
    for (const double scale : {1e-200, 1.0, 1e200}) {
      auto samples = GramSamples<double>::from_gram(weight, scale * g, "test", 1e-16);
      for (const bool mixed : {false, true}) {
        if (mixed) samples.mix(1);
        CHECK(samples.x.cols() == rank);
        const Matrix<double> again = samples.x * samples.x.transpose();
        CHECK((again * (g.trace() / again.trace()) - g).norm() < tolerance * g.norm());
        CHECK((weight * samples.x - samples.y).norm() < 1e-13 * weight.norm() * samples.x.norm());
        CHECK(samples.x.colwise().norm().maxCoeff() < 3);
      }
    }
  };
  check(Matrix<double>::Identity(6, 6), 6);
  check(VectorX<double>(random_matrix(7, 1, 1).col(0).cwiseAbs()).asDiagonal(), 7);
  check(Eigen::Vector4d(1, 0, 1e-30, 2).asDiagonal(), 2);
  check(Matrix<double>::Constant(1, 1, 3), 1);
  check(gram_of_rank(9, 30, 2), 9);         // positive definite
  check(gram_of_rank(20, 3, 3), 3, 1e-10);  // singular
  check(gram_of_rank(150, 80, 4), 80, 1e-10);
  Matrix<double> rows = gram_of_rank(12, 12, 5);  // features that are always zero, the first of them
  for (const Index dead : {0, 5, 11}) rows.row(dead).setZero(), rows.col(dead).setZero();
  check(rows, 9, 1e-10);
}

TEST_CASE("Gram matrices that are none are refused, the diagonal ones too") {
  DenseLinear<double> layer(2, 2);
  const Matrix<double> weight = Matrix<double>::Identity(2, 2);
  Matrix<double> g(2, 2);
  const auto must_refuse = [&](double a, double b, double c, const char* text) {
    g << a, b, b, c;
    CHECK_THROWS_WITH(fit_dense(layer, weight, g), Contains(text));
  };
  must_refuse(1, 0, -1, "semidefinite");
  must_refuse(0, 1, 0, "semidefinite");
  must_refuse(1, 2, 1, "semidefinite");
  must_refuse(0, 1, 1, "semidefinite");
  must_refuse(0, 0, 0, "zero");
  must_refuse(1, 0, std::nan(""), "NaN");
  must_refuse(INFINITY, 0, 1, "infinite");
}

TEST_CASE("a Gram matrix may be given as its factor, however many columns that has") {
  for (const Index count : {2, 6, 40}) {
    const Matrix<double> some = inputs.leftCols(count);
    DenseLinear<double> by_gram(6, 4), by_factor = by_gram;
    const double expected = fit_dense(by_gram, w, some * some.transpose(), {.epochs = 50}).relative_error;
    for (const double scale : {1e-30, 1.0, 1e30}) {
      DenseLinear<double> layer = by_factor;
      const FitResult result = fit_dense(layer, w, GramFactor{scale * some}, {.epochs = 50});
      CHECK(result.relative_error == Approx(((w - layer.to_dense()) * some).norm() / (w * some).norm()));
      CHECK(result.relative_error < 1.2 * expected);
    }
  }
  DenseLinear<double> layer(6, 4);
  CHECK_THROWS_WITH(fit_dense(layer, w, GramFactor{inputs.topRows(5)}),
                    Contains("5 x 40") && Contains("6 x N"));
  CHECK_THROWS_WITH(fit_dense(layer, w, GramFactor{Matrix<double>(6, 0)}), Contains("6 x 0"));
  CHECK_THROWS_WITH(fit_dense(layer, w, GramFactor{Matrix<double>::Zero(6, 3)}), Contains("zero"));
  CHECK_THROWS_AS(fit_dense(layer, w, GramFactor{std::nan("") * inputs}), std::domain_error);
}

TEST_CASE("steps on a part of the columns end where steps on all do") {
  const Matrix<double> weight = random_matrix(8, 48, 1), g = gram_of_rank(48, 60, 2);
  LowRankLinear<double> closed(48, 8, 3), by_parts(48, 8, 3);
  const double expected = closed.fit_closed_form(weight, g);
  const FitResult result =
      fit_dense(by_parts, weight, g, {.epochs = 400, .batch_size = 16, .learning_rate = 0.03});
  CHECK(result.relative_error == Approx(expected).epsilon(1e-2));
  CHECK(result.relative_error >= expected * (1 - 1e-12));
  const Matrix<double> f = detail::gram_columns(g, "test", 1e-16);
  CHECK(result.relative_error == Approx(((weight - by_parts.to_dense()) * f).norm() / (weight * f).norm()));
}

TEST_CASE("a layer that can solve for its linear parameters is fitted by variable projection") {
  // A target that the layer can be, from rotors near those of the target, of any decoder.
  const RotorEncoderLinear<double> target(16, 12, {.rank = 4, .bias = false, .seed = 1});
  RotorEncoderLinear<double> layer = target;
  layer.parameters() += 0.1 * random_matrix(layer.num_parameters(), 1, 2).col(0);
  layer.decoder().setZero();
  const Matrix<double> g = gram_of_rank(16, 30, 3);
  const FitResult result = fit_dense(layer, target.to_dense(), g, {.epochs = 300, .batch_size = 4});
  CHECK(result.relative_error < 1e-3);
  CHECK(result.best_epoch > 0);
  // At the end the decoder is the best for the rotors.
  RotorEncoderLinear<double> solved = layer;
  const Matrix<double> f = detail::gram_columns(g, "test", 1e-16);
  RotorEncoderLinear<double>::Workspace workspace;
  solved.solve_linear(f, target.to_dense() * f, workspace);
  CHECK((solved.to_dense() - layer.to_dense()).norm() < 1e-6 * layer.to_dense().norm());
}

TEST_CASE("random matrices: below the error of nothing, and the lower the wider the layer") {
  for (const auto& [out, in] : {std::pair<Index, Index>{24, 40}, {40, 6}, {6, 40}}) {
    Matrix<double> weight = random_matrix(out, in, 3);
    weight /= weight.norm();
    double last = 1;
    for (const Index width : {1, 2, 4}) {
      INFO(out << " x " << in << ", width " << width);
      RotorLinear<float> layer(in, out, {.width = width});
      const FitResult result = fit_dense(layer, weight, Matrix<double>::Identity(in, in));
      CHECK(result.relative_error < last);
      CHECK(result.stop == FitStop::finished);
      last = result.relative_error;
    }
  }
}

TEST_CASE("fit_dense refuses what makes no sense") {
  DenseLinear<double> layer(6, 4);
  const VectorX<double> before = layer.parameters();
  CHECK_THROWS_WITH(fit_dense(layer, w.transpose(), gram), Contains("6 x 4") && Contains("4 x 6"));
  CHECK_THROWS_WITH(fit_dense(layer, w, gram.topRows(5)), Contains("5 x 6") && Contains("6 x 6"));
  CHECK_THROWS_WITH(fit_dense(layer, w, -gram), Contains("fit_dense") && Contains("semidefinite"));
  CHECK_THROWS_WITH(fit_dense(layer, w, 0 * gram), Contains("zero"));
  CHECK_THROWS_WITH(fit_dense(layer, w, gram + random_matrix(6, 6, 8)), Contains("symmetric"));
  CHECK_THROWS_AS(fit_dense(layer, w, gram * std::nan("")), std::domain_error);
  CHECK_THROWS_AS(fit_dense(layer, w * INFINITY, gram), std::domain_error);
  CHECK_THROWS_AS(fit_dense(layer, w, gram, {.epochs = -1}), std::invalid_argument);
  CHECK(layer.parameters() == before);
}

}  // namespace fit_dense_test
