// SPDX-License-Identifier: MIT
// Which layers built from rotors lie below low rank at an equal number of parameters?
#include <Eigen/QR>
#include <cstdio>
#include <memory>
#include <optional>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "experiments.hpp"
#include "gained_rotors.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/training/fit.hpp"

namespace examples {

namespace {

using rotorlin::FitOptions;
using rotorlin::LowRankLinear;
using rotorlin::RotorLinear;
using rotorlin::RotorNetwork;
using Vector = rotorlin::VectorX<float>;

/// One projection y = W x, at the inputs that it meets.
struct Target {
  const Matrix<float>& weight;
  const Samples& samples;
  Matrix<double> covariance;
  Vector mean;
  FitBudget budget;

  Index in() const { return weight.cols(); }
  Index out() const { return weight.rows(); }
};

/// The parts whose sum stands in for the projection, each where it is.
struct Sum {
  std::optional<LowRankLinear<float>> low_rank;
  std::optional<RotorLinear<float>> rotors;
  std::optional<GainedRotors<float>> gained;
  std::optional<RotorNetwork<float>> network;
  Vector bias;

  void evaluate(const ConstMatrixRef<float>& x, MatrixRef<float> y) const {
    y.setZero();
    const auto add = [&](const auto& part) {
      if (part) y += part->forward(x);
    };
    add(low_rank), add(rotors), add(gained), add(network);
    if (bias.size() > 0) y.colwise() += bias;
  }
  Index parameters() const {
    Index sum = bias.size();
    const auto add = [&](const auto& part) { sum += part ? part->num_parameters() : 0; };
    add(low_rank), add(rotors), add(gained), add(network);
    return sum;
  }
};

/// A low rank and linear rotors in turns, each fitted to what the other leaves. With a bias, both see the
/// covariance of the inputs only.
template <class Rotors>
void fit_in_turns(const Target& target, std::optional<LowRankLinear<float>>& low_rank,
                  std::optional<Rotors>& rotors, bool with_bias) {
  const Matrix<double>& gram = with_bias ? target.covariance : target.samples.gram;
  FitOptions options;
  options.epochs = target.budget.steps;
  options.learning_rate = 0.1;
  Matrix<float> left = target.weight;
  for (int rounds = low_rank && rotors ? 5 : 1, round = 0; round < rounds; ++round) {
    if (low_rank) {
      if (round > 0) left = target.weight - rotors->to_dense();
      low_rank->fit_closed_form(left, gram);
      left = target.weight - low_rank->to_dense();
    }
    if (rotors) fit_dense(*rotors, left, gram, options);
  }
  if (low_rank && rotors) low_rank->fit_closed_form(target.weight - rotors->to_dense(), gram);
}

/// The same with a network of rotors, which is not linear and is fitted to the samples.
void fit_in_turns(const Target& target, std::optional<LowRankLinear<float>>& low_rank,
                  RotorNetwork<float>& network) {
  const Samples& s = target.samples;
  const Matrix<float> y = target.weight * s.x, y_validation = target.weight * s.x_validation;
  const Index rounds = low_rank ? 3 : 1;
  FitOptions options;
  options.learning_rate = 0.05;
  options.seed = target.budget.seed;
  options.epochs = std::max<Index>(1, target.budget.epochs / rounds);
  for (Index round = 0; round < rounds; ++round) {
    Matrix<float> left = y, left_validation = y_validation;
    if (low_rank) {
      if (round > 0) left -= network.forward(s.x);
      // E[t x^T] G^-1: the matrix nearest to what the network leaves
      const Matrix<double> cross = (left * s.x.transpose()).cast<double>() / static_cast<double>(s.x.cols());
      const Matrix<double> map =
          s.gram.completeOrthogonalDecomposition().solve(cross.transpose()).transpose();
      low_rank->fit_closed_form(map, s.gram);
      left = y - low_rank->forward(s.x);
      left_validation -= low_rank->forward(s.x_validation);
    }
    fit(network, s.x, left, s.x_validation, left_validation, options);
  }
}

enum class Rotors { none, linear, gained, network };

/// As many rotors as fit into what the rank and the bias leave of the parameters; nothing where none fit.
std::optional<Replacement> fit_sum(const Target& target, Index parameters, Index rank, bool with_bias,
                                   Rotors kind) {
  const Stopwatch clock;
  const Index in = target.in(), out = target.out();
  const Index rest = parameters - rank * (in + out) - (with_bias ? out : 0);
  const std::uint64_t seed = target.budget.seed;
  const auto sum = std::make_shared<Sum>();
  if (rank > 0) sum->low_rank.emplace(in, out, rotorlin::LowRankLinearOptions{.rank = rank, .bias = false});
  if (kind == Rotors::linear) {
    const Index width = rest / RotorLinear<float>(in, out, {.bias = false}).num_parameters();
    if (width < 1) return std::nullopt;
    sum->rotors.emplace(in, out, rotorlin::RotorLinearOptions{.width = width, .bias = false, .seed = seed});
    sum->rotors->parameters().head(sum->rotors->alpha_offset()) *= 0.3f;  // near the identity fits end lower
  } else if (kind == Rotors::gained) {
    const Index terms = rest / GainedRotors<float>(in, out, 1).num_parameters();
    if (terms < 1) return std::nullopt;
    sum->gained.emplace(in, out, terms, seed);
  } else if (kind == Rotors::network) {
    const auto make = [&](Index depth, Index width) {
      return RotorNetwork<float>(
          in, out, {.depth = depth, .width = width, .parallel_output = depth == 0, .seed = seed});
    };
    for (Index depth = 2; depth >= 0 && !sum->network; --depth) {
      Index width = 0;
      while (make(depth, width + 1).num_parameters() <= rest) ++width;
      if (width > 0) sum->network.emplace(make(depth, width));
    }
    if (!sum->network) return std::nullopt;
  }
  if (rest < 0 || (!with_bias && rank == 0 && kind == Rotors::none)) return std::nullopt;
  if (sum->network) {
    fit_in_turns(target, sum->low_rank, *sum->network);
  } else if (sum->gained) {
    fit_in_turns(target, sum->low_rank, sum->gained, with_bias);
  } else {
    fit_in_turns(target, sum->low_rank, sum->rotors, with_bias);
  }
  if (with_bias) {
    Matrix<float> at_mean(out, 1);
    sum->evaluate(target.mean, at_mean);
    sum->bias = target.weight * target.mean - at_mean;
  }
  return Replacement{[sum](const ConstMatrixRef<float>& x, MatrixRef<float> y) { sum->evaluate(x, y); },
                     sum->parameters(), clock.seconds()};
}

struct Family {
  std::string name;
  std::function<std::optional<Replacement>(const Target&, Index parameters)> fit;
};

Family family(const char* name, bool low_rank, bool bias, Rotors kind) {
  return {name, [=](const Target& target, Index parameters) {
            const Index out = target.out(), one = target.in() + out;
            const Index most = low_rank ? (parameters - (bias ? out : 0)) / one : 0;
            if (!low_rank || kind == Rotors::none)
              return fit_sum(target, parameters, std::max<Index>(0, most), bias, kind);
            std::optional<Replacement> best;
            double least = 0;
            for (Index rank = most, tried = 0; rank > 0 && tried < 3; --rank) {
              std::optional<Replacement> sum = fit_sum(target, parameters, rank, bias, kind);
              if (!sum) continue;
              ++tried;
              const double error = relative_error(sum->map, target.weight, target.samples.x_validation);
              if (!best || error < least) best = std::move(sum), least = error;
            }
            return best;
          }};
}

std::vector<Family> all_families() {
  return {family("low rank", true, false, Rotors::none),
          family("low rank, bias", true, true, Rotors::none),
          family("rotors", false, false, Rotors::linear),
          family("gains between rotors", false, false, Rotors::gained),
          family("rotor network", false, false, Rotors::network),
          family("low rank + rotors", true, false, Rotors::linear),
          family("low rank + rotor network", true, false, Rotors::network),
          {"rotor encoder", [](const Target& target, Index parameters) {
             return fit_rotor_encoder(target.samples, target.weight, parameters, target.budget);
           }}};
}

}  // namespace

void search_frontier(const Setup& setup, Projection projection, Index first, Index last) {
  const Llama& model = setup.model;
  Calibration calibration(setup);
  Stream evaluation(model, setup.evaluation, setup.windows);
  Table table({{"layer", "layer"},
               {"method", "method", true},
               {"budget", "budget"},
               {"parameters", "parameters"},
               {"relative error\nvalidation", "error_validation"},
               {"\nevaluation", "error"},
               {"log-ppl", "log_ppl"},
               {"fit", "seconds"}});
  Progress progress("frontier");
  const std::vector<Family> families = all_families();
  double done = 0;
  for (Index layer = 0; layer <= last; ++layer) {
    if (layer >= first) {
      const Matrix<float>& weight = model.weight(projection, layer);
      const Samples samples = calibration.samples(model, layer, projection);
      const Matrix<float> x = evaluation.inputs(model, layer, projection);
      const rotorlin::VectorX<double> mean = samples.x.cast<double>().rowwise().mean();
      const Target target{weight, samples, samples.gram - mean * mean.transpose(), mean.cast<float>(),
                          setup.budget};
      SvgPlot plot(format("Projection %s of layer %ld (from 0) of %s", name(projection),
                          static_cast<long>(layer), setup.name.c_str()),
                   "Relative error of the output on held-out text. Lower and further left is better.");
      plot.x_axis(format("parameters (the matrix has %s)", with_commas(weight.size()).c_str())).log_x();
      plot.y_axis("relative error");
      constexpr int budgets = 5;  // from a rank of one half to a rank of eight
      for (const Family& family : families) {
        PlotSeries series{.name = family.name,
                          .dashed = family.name.starts_with("low rank,") || family.name == "low rank"};
        for (Index i = 0, parameters = weight.rows(); i < budgets; ++i, parameters *= 2) {
          const std::optional<Replacement> fitted = family.fit(target, parameters);
          progress.update(++done / (static_cast<double>(families.size()) * budgets *
                                    static_cast<double>(last - first + 1)),
                          format("layer %ld, %s", static_cast<long>(layer), family.name.c_str()));
          if (!fitted) continue;
          Llama replaced = model;
          replaced.replace(layer, projection, fitted->map);
          const double error = relative_error(fitted->map, weight, x);
          table.add_row({std::to_string(layer),
                         family.name,
                         std::to_string(parameters),
                         {with_commas(fitted->parameters), std::to_string(fitted->parameters)},
                         format("%.4f", relative_error(fitted->map, weight, samples.x_validation)),
                         format("%.4f", error),
                         format("%.4f", cross_entropy(replaced, setup.evaluation, setup.windows)),
                         {duration(fitted->seconds), format("%.3f", fitted->seconds)}});
          series.x.push_back(static_cast<double>(fitted->parameters));
          series.y.push_back(error);
          series.labels.push_back("");
        }
        if (!series.x.empty()) plot.series(series);
      }
      plot.write(setup.out / format("frontier_%ld.svg", static_cast<long>(layer)));
    }
    calibration.advance(model, layer);
    evaluation.advance(model, layer);
  }
  progress.finish("");
  std::printf("\n%s\n", table.text().c_str());
  std::printf("The original has a log-perplexity (log-ppl) of %.4f. Relative error: |f(x) - W x| / |W x|.\n",
              cross_entropy(model, setup.evaluation, setup.windows));
  const auto csv = setup.out / "frontier.csv";
  write_file(csv, table.csv());
  std::printf("Written: %s and a frontier_LAYER.svg for each layer\n", csv.c_str());
}

}  // namespace examples
