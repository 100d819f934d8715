// SPDX-License-Identifier: MIT
#include <Eigen/Cholesky>
#include <bit>
#include <memory>
#include <optional>

#include "common/progress.hpp"
#include "methods.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/training/adam.hpp"
#include "rotorlin/training/schedule.hpp"

namespace examples {

namespace {

using rotorlin::RotorLinear;

struct Encoder {
  RotorLinear<float> rotors;  // in -> k, rounded up to a power of two
  Matrix<float> decoder;      // out x k

  Matrix<float> operator()(const ConstMatrixRef<float>& x) const {
    return decoder * rotors.forward(x).topRows(decoder.cols());
  }
  Index parameters() const { return rotors.num_parameters() + decoder.size(); }
};

Encoder make_encoder(const Matrix<float>& weight, Index k, Index width, std::uint64_t seed) {
  const Index features = static_cast<Index>(std::bit_ceil(static_cast<std::size_t>(std::max<Index>(2, k))));
  return {RotorLinear<float>(weight.cols(), features, {.width = width, .bias = false, .seed = seed}),
          Matrix<float>::Zero(weight.rows(), k)};
}

/// Adam on the rotors, with the best decoder for them at every step (variable projection: the gradient is
/// that with the decoder held fast). The loss is tr((W - C Z) G (W - C Z)^T) / tr(W G W^T), Z the rotors'
/// matrix.
void fit(Encoder& encoder, const Matrix<float>& weight, const Matrix<double>& gram, Index steps) {
  const Index in = weight.cols(), k = encoder.decoder.cols();
  const Matrix<double> w = weight.cast<double>(), cross = w * gram;
  const double energy = cross.cwiseProduct(w).sum();
  const Matrix<float> unit = Matrix<float>::Identity(in, in);
  Matrix<float> rows(encoder.rotors.out_features(), in), grad_rows = rows, grad_unit(in, in);
  RotorLinear<float>::Workspace workspace;
  rotorlin::Adam<float> adam;
  const rotorlin::CosineSchedule schedule(0.05, 0, steps);
  for (Index step = 0; step <= steps; ++step) {
    encoder.rotors.forward(unit, rows, workspace);
    const Matrix<double> z = rows.topRows(k).cast<double>(), seen = z * gram;
    Matrix<double> normal = seen * z.transpose();
    normal.diagonal().array() += 1e-9 * normal.trace() / static_cast<double>(k);
    const Matrix<double> decoder = normal.llt().solve(z * cross.transpose()).transpose();
    encoder.decoder = decoder.cast<float>();
    if (step == steps) break;
    grad_rows.setZero();
    grad_rows.topRows(k) = (2 / energy * (decoder.transpose() * (decoder * seen - cross))).cast<float>();
    encoder.rotors.zero_gradients();
    encoder.rotors.backward(unit, grad_rows, grad_unit, workspace);
    adam.step(encoder.rotors.parameters(), encoder.rotors.gradients(), schedule.rate(step));
  }
}

}  // namespace

std::optional<Replacement> fit_rotor_encoder(const Samples& samples, const Matrix<float>& weight,
                                             Index parameters, const FitBudget& budget) {
  const Stopwatch clock;
  std::shared_ptr<Encoder> best;
  double least = 0;
  // About a quarter of the parameters serves the rotors best.
  const Index most = std::min(parameters / weight.rows(), weight.cols());
  for (Index k = (4 * most + 4) / 5, tried = 0; k > 0 && tried < 3; --k) {
    const Index one = make_encoder(weight, k, 1, budget.seed).parameters() - k * weight.rows();
    const Index width = (parameters - k * weight.rows()) / one;
    if (width < 1) continue;
    ++tried;
    Encoder encoder = make_encoder(weight, k, width, budget.seed);
    fit(encoder, weight, samples.gram, 2 * budget.steps);
    const auto candidate = std::make_shared<Encoder>(std::move(encoder));
    const double error =
        relative_error([&](const ConstMatrixRef<float>& x, MatrixRef<float> y) { y = (*candidate)(x); },
                       weight, samples.x_validation);
    if (!best || error < least) best = candidate, least = error;
  }
  if (!best) return std::nullopt;
  return Replacement{[best](const ConstMatrixRef<float>& x, MatrixRef<float> y) { y = (*best)(x); },
                     best->parameters(), clock.seconds()};
}

}  // namespace examples
