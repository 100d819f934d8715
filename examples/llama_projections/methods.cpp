// SPDX-License-Identifier: MIT
#include "methods.hpp"

#include <Eigen/Cholesky>
#include <bit>
#include <charconv>
#include <cmath>
#include <memory>

#include "common/progress.hpp"
#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/training/fit.hpp"

namespace examples {

namespace {

using rotorlin::BlockHadamardLinear;
using rotorlin::FitOptions;
using rotorlin::LowRankLinear;
using rotorlin::RotorLinear;
using rotorlin::RotorNetwork;

template <rotorlin::Layer L>
Replacement replacement(L layer, const Stopwatch& clock) {
  struct State {
    L layer;
    typename L::Workspace workspace;
  };
  const Index parameters = layer.num_parameters();
  const auto state = std::make_shared<State>(State{std::move(layer), {}});
  return {[state](const ConstMatrixRef<float>& x, MatrixRef<float> y) {
            state->layer.forward(x, y, state->workspace);
          },
          parameters, clock.seconds()};
}

RotorNetwork<float> make_network(Index in, Index out, const NetworkShape& shape, std::uint64_t seed) {
  return RotorNetwork<float>(in, out,
                             {.hidden = shape.hidden,
                              .depth = shape.depth,
                              .width = shape.width,
                              .parallel_output = shape.depth == 0,
                              .seed = seed});
}

Index power_of_two(Index n) { return static_cast<Index>(std::bit_floor(static_cast<std::size_t>(n))); }

/// The paper's optimiser: Adam, learning rate 0.05, batches of 256.
FitOptions paper_options(const FitBudget& budget) {
  FitOptions options;
  options.epochs = budget.epochs;
  options.batch_size = 256;
  options.learning_rate = 0.05;
  options.seed = budget.seed;
  return options;
}

Replacement fit_rotor_linear(const Samples& samples, const Matrix<float>& weight, const FitBudget& budget) {
  const Stopwatch clock;
  // As many parallel rotor pairs as fit below the rotor network.
  const Index in = weight.cols(), out = weight.rows();
  const Index most = make_network(in, out, network_shape(in, out), 0).num_parameters();
  const Index one = RotorLinear<float>(in, out, {.bias = false}).num_parameters();
  RotorLinear<float> layer(in, out,
                           {.width = std::max<Index>(1, most / one), .bias = false, .seed = budget.seed});
  layer.parameters().head(layer.alpha_offset()) *= 0.3f;  // near the identity fits end lower
  FitOptions options;
  options.epochs = budget.steps;
  options.learning_rate = 0.1;
  fit_dense(layer, weight, samples.gram, options);
  return replacement(std::move(layer), clock);
}

}  // namespace

Samples::Samples(Matrix<float> training, Matrix<float> validation)
    : x(std::move(training)),
      x_validation(std::move(validation)),
      gram(Matrix<double>::Zero(x.rows(), x.rows())) {
  constexpr Index batch = 1024;
  for (Index begin = 0; begin < x.cols(); begin += batch) {
    const Index count = std::min(batch, x.cols() - begin);
    gram.selfadjointView<Eigen::Lower>().rankUpdate(x.middleCols(begin, count).cast<double>());
  }
  gram /= static_cast<double>(x.cols());
  gram = Matrix<double>(gram.selfadjointView<Eigen::Lower>());
}

double relative_error(const Llama::Map& map, const Matrix<float>& weight, const Matrix<float>& x) {
  const Matrix<float> y = weight * x;
  Matrix<float> ours(y.rows(), y.cols());
  map(x, ours);
  return (ours - y).norm() / y.norm();
}

Replacement fit_low_rank(const Samples& samples, const Matrix<float>& weight, Index rank) {
  const Stopwatch clock;
  LowRankLinear<float> layer(weight.cols(), weight.rows(), {.rank = rank, .bias = false});
  layer.fit_closed_form(weight, samples.gram);
  return replacement(std::move(layer), clock);
}

Index block_width(Index in, Index out) {
  const auto padded = static_cast<Index>(std::bit_ceil(static_cast<std::size_t>(in)));
  return std::min(padded, std::max({Index{4}, padded / 128, padded / power_of_two(out)}));
}

Replacement fit_blocks(const Samples& samples, const Matrix<float>& weight, Index block_width) {
  const Stopwatch clock;
  const Index in = weight.cols(), out = weight.rows();
  const Index blocks = static_cast<Index>(std::bit_ceil(static_cast<std::size_t>(in))) / block_width;
  // The released code of the paper leaves the Hadamard matrix away at depth 1.
  BlockHadamardLinear<float> layer(in, out, {.blocks = blocks, .hadamard = false, .bias = false});
  // The weights of outputs that read the features s minimise |W x - B x_s|^2: B G_ss = (W G)_s.
  const Matrix<double> target = weight.cast<double>() * samples.gram;
  layer.weights().setZero();
  for (Index k = 0; k < blocks; ++k) {
    const Index first_in = k * block_width, width = std::min(block_width, in - first_in);
    const Index first = k * out / blocks, rows = (k + 1) * out / blocks - first;
    if (width <= 0) continue;
    const Matrix<double> gram = samples.gram.block(first_in, first_in, width, width);
    layer.weights().block(0, first, width, rows) =
        gram.ldlt().solve(target.block(first, first_in, rows, width).transpose()).cast<float>();
  }
  return replacement(std::move(layer), clock);
}

NetworkShape network_shape(Index in, Index out) {
  const Index limit = out * block_width(in, out);
  NetworkShape shape{power_of_two(in), 2, 3};
  const auto too_many = [&] { return make_network(in, out, shape, 0).num_parameters() >= limit; };
  while (too_many() && shape.hidden > 2) {
    shape.hidden = std::max<Index>(2, std::min(shape.hidden, power_of_two(out)) / 2);
    shape.width = 3;
    while (too_many() && shape.width > 1) --shape.width;
  }
  return shape;
}

Replacement fit_network(const Samples& samples, const Matrix<float>& weight, const NetworkShape& shape,
                        const FitBudget& budget) {
  const Stopwatch clock;
  auto layer = make_network(weight.cols(), weight.rows(), shape, budget.seed);
  const Matrix<float> y = weight * samples.x, y_validation = weight * samples.x_validation;
  fit(layer, samples.x, y, samples.x_validation, y_validation, paper_options(budget));
  return replacement(std::move(layer), clock);
}

const std::vector<std::string>& method_names() {
  static const std::vector<std::string> names = {"LR1",         "LR4",          "BH1",
                                                 "RotorLinear", "RotorNetwork", "RotorEncoder"};
  return names;
}

Method method(std::string_view name) {
  const std::string text(name);
  if (name == "BH1") {
    return {text, [](const Samples& samples, const Matrix<float>& weight, const FitBudget&) {
              return fit_blocks(samples, weight, block_width(weight.cols(), weight.rows()));
            }};
  }
  if (name == "RotorLinear") return {text, fit_rotor_linear};
  if (name == "RotorNetwork") {
    return {text, [](const Samples& samples, const Matrix<float>& weight, const FitBudget& budget) {
              return fit_network(samples, weight, network_shape(weight.cols(), weight.rows()), budget);
            }};
  }
  if (name == "RotorEncoder") {
    return {text, [](const Samples& samples, const Matrix<float>& weight, const FitBudget& budget) {
              return fit_rotor_encoder(samples, weight, 4 * (weight.rows() + weight.cols()), budget).value();
            }};
  }
  Index rank = 0;
  if (name.starts_with("LR")) {
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data() + 2, end, rank).ptr != end) rank = 0;
  }
  if (rank < 1)
    rotorlin::detail::throw_invalid("method: '", name,
                                    "' is unknown; expected LR and a rank, BH1, RotorLinear, "
                                    "RotorNetwork or RotorEncoder");
  return {text,
          [rank](const Samples& samples, const Matrix<float>& weight, const FitBudget&) {
            return fit_low_rank(samples, weight, std::min({rank, weight.rows(), weight.cols()}));
          },
          rank};
}

void time_large_fit() {
  constexpr Index features = 2048, count = 20000;
  rotorlin::Random random(1);
  Matrix<float> x(features, count), weight(features, features);
  random.fill_uniform(x, -1, 1);
  random.fill_uniform(weight, -0.05, 0.05);
  const Matrix<float> y = weight * x;
  RotorNetwork<float> layer(features, features);
  FitBudget budget;
  budget.epochs = 1;
  FitOptions options = paper_options(budget);
  Progress progress("the paper's network, 2048 features");
  options.progress = [&](const rotorlin::FitProgress& p) {
    progress.update(static_cast<double>(p.step) / static_cast<double>(p.steps), format("loss %.4f", p.loss));
    return true;
  };
  const auto result = fit(layer, x, y, options);
  progress.finish(format("%ld parameters, %ld samples, %ld epoch, batches of 256: %.1f s",
                         static_cast<long>(layer.num_parameters()), static_cast<long>(count),
                         static_cast<long>(result.epochs), result.seconds));
}

}  // namespace examples
