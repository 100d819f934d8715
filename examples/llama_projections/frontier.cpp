// SPDX-License-Identifier: MIT
// Which layers built from rotors lie below low rank at an equal number of parameters?
#include <cstdio>
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
  Matrix<double> covariance;  // of the inputs to fit to
  Vector mean;
  FitBudget budget;

  Index in() const { return weight.cols(); }
  Index out() const { return weight.rows(); }
};

/// y = U V x + rotors(x) + bias, each part where it is; the rotors are one of three layers.
struct Sum {
  std::optional<LowRankLinear<float>> low_rank;
  std::optional<RotorLinear<float>> rotors;
  std::optional<GainedRotors<float>> gained;
  std::optional<RotorNetwork<float>> network;
  Vector bias;

  Matrix<float> operator()(const ConstMatrixRef<float>& x) const {
    Matrix<float> y = Matrix<float>::Zero(rows, x.cols());
    const auto add = [&](const auto& part) {
      if (part) y += part->forward(x);
    };
    add(low_rank), add(rotors), add(gained), add(network);
    if (bias.size() > 0) y.colwise() += bias;
    return y;
  }
  Index parameters() const {
    Index sum = bias.size();
    const auto add = [&](const auto& part) { sum += part ? part->num_parameters() : 0; };
    add(low_rank), add(rotors), add(gained), add(network);
    return sum;
  }
  Index rows = 0;
};

FitOptions whole_batch(Index steps, double rate) {
  FitOptions options;
  options.epochs = steps;
  options.learning_rate = rate;
  return options;
}

/// A low rank and linear rotors in turns, each fitted to what the other leaves. With a bias, both see the
/// covariance of the inputs only.
template <class Rotors>
void fit_in_turns(const Target& target, std::optional<LowRankLinear<float>>& low_rank,
                  std::optional<Rotors>& rotors, bool with_bias) {
  const Matrix<double>& gram = with_bias ? target.covariance : target.samples.gram;
  Matrix<float> left = target.weight;
  const int rounds = low_rank && rotors ? 5 : 1;
  for (int round = 0; round < rounds; ++round) {
    if (low_rank) {
      if (rotors && round > 0) left = target.weight - rotors->to_dense();
      low_rank->fit_closed_form(left, gram);
      left = target.weight - low_rank->to_dense();
    }
    if (rotors) fit_dense(*rotors, left, gram, whole_batch(target.budget.steps, 0.1));
  }
  if (low_rank && rotors) low_rank->fit_closed_form(target.weight - rotors->to_dense(), gram);
}

/// The same with a network of rotors, which is not linear and is fitted to the samples.
void fit_in_turns(const Target& target, std::optional<LowRankLinear<float>>& low_rank,
                  RotorNetwork<float>& network) {
  const Samples& s = target.samples;
  const Matrix<float> y = target.weight * s.x, y_validation = target.weight * s.x_validation;
  FitOptions options;
  options.learning_rate = 0.05;
  options.seed = target.budget.seed;
  const int rounds = low_rank ? 3 : 1;
  options.epochs = std::max<Index>(1, target.budget.epochs / rounds);
  Matrix<float> left = y;
  for (int round = 0; round < rounds; ++round) {
    if (low_rank) {
      // the linear map nearest to what the network leaves: E[t x^T] G^-1
      if (round > 0) left = y - network.forward(s.x);
      const Matrix<double> cross = (left * s.x.transpose()).cast<double>() / static_cast<double>(s.x.cols());
      const Matrix<double> map = s.gram.ldlt().solve(cross.transpose()).transpose();
      low_rank->fit_closed_form(map, s.gram);
      left = y - low_rank->forward(s.x);
      fit(network, s.x, left, s.x_validation, Matrix<float>(y_validation - low_rank->forward(s.x_validation)),
          options);
    } else {
      fit(network, s.x, y, s.x_validation, y_validation, options);
    }
  }
}

enum class Kind { none, rotors, gained, network };

/// As many rotors as fit into what `rank` and a bias leave of the budget; nothing where none fit.
std::optional<Sum> fit_sum(const Target& target, Index budget, Index rank, bool with_bias, Kind kind) {
  const Index in = target.in(), out = target.out();
  Sum sum;
  sum.rows = out;
  if (rank > 0) sum.low_rank.emplace(in, out, rank, false);
  Index rest = budget - rank * (in + out) - (with_bias ? out : 0);
  if (rest < 0) return std::nullopt;
  const std::uint64_t seed = target.budget.seed;
  if (kind == Kind::network) {
    const auto make = [&](Index depth, Index width) {
      return RotorNetwork<float>(in, out, {.depth = depth, .width = width, .parallel_output = depth == 0,
                                           .seed = seed});
    };
    for (Index depth = 2; depth >= 0 && !sum.network; --depth) {
      Index width = 0;
      while (make(depth, width + 1).num_parameters() <= rest) ++width;
      if (width > 0) sum.network.emplace(make(depth, width));
    }
    if (!sum.network) return std::nullopt;
    fit_in_turns(target, sum.low_rank, *sum.network);
    return sum;
  }
  if (kind == Kind::rotors) {
    const Index one = RotorLinear<float>(in, out, {.bias = false}).num_parameters();
    if (rest < one) return std::nullopt;
    sum.rotors.emplace(in, out, rotorlin::RotorLinearOptions{.width = rest / one, .bias = false, .seed = seed});
    sum.rotors->parameters().head(sum.rotors->alpha_offset()) *= 0.3f;
  } else if (kind == Kind::gained) {
    const Index one = GainedRotors<float>(in, out, 1).num_parameters();
    if (rest < one) return std::nullopt;
    sum.gained.emplace(in, out, rest / one, seed);
  }
  if (kind == Kind::gained) {
    fit_in_turns(target, sum.low_rank, sum.gained, with_bias);
  } else {
    fit_in_turns(target, sum.low_rank, sum.rotors, with_bias);
  }
  if (with_bias) sum.bias = target.weight * target.mean - sum(target.mean);
  return sum;
}

struct Family {
  const char* name;
  Kind kind;
  bool low_rank, bias;
};

constexpr Family families[] = {
    {"low rank", Kind::none, true, false},
    {"low rank, bias", Kind::none, true, true},
    {"rotors", Kind::rotors, false, false},
    {"rotors, bias", Kind::rotors, false, true},
    {"gains between rotors", Kind::gained, false, false},
    {"rotor network", Kind::network, false, false},
    {"low rank + rotors", Kind::rotors, true, false},
    {"low rank + rotors, bias", Kind::rotors, true, true},
    {"low rank + rotor network", Kind::network, true, false},
    {"low rank + gains", Kind::gained, true, false},
    {"low rank + gains, bias", Kind::gained, true, true},
    {"gains, bias", Kind::gained, false, true},
};

}  // namespace

void search_frontier(const Setup& setup, Index layer, Projection projection) {
  const Llama& model = setup.model;
  const Matrix<float>& weight = model.weight(projection, layer);
  Calibration calibration(setup);
  Stream evaluation(model, setup.evaluation, setup.windows);
  for (Index l = 0; l < layer; ++l) {
    calibration.advance(model, l);
    evaluation.advance(model, l);
  }
  const Samples samples = calibration.samples(model, layer, projection);
  const Matrix<float> x = evaluation.inputs(model, layer, projection), y = weight * x;
  const Matrix<float> y_validation = weight * samples.x_validation;
  const Vector mean = samples.x.rowwise().mean();
  const Target target{weight, samples,
                      samples.gram - mean.cast<double>() * mean.cast<double>().transpose(), mean,
                      setup.budget};
  const auto error = [](const Matrix<float>& found, const Matrix<float>& wanted) {
    return static_cast<double>((found - wanted).norm() / wanted.norm());
  };
  std::vector<Index> budgets;
  for (Index budget = weight.rows(); budget <= 16 * weight.rows(); budget *= 2) budgets.push_back(budget);

  Table table({{"layer", "method", true},
               {"budget", "budget"},
               {"parameters", "parameters"},
               {"rank", "rank"},
               {"relative error\ncalibration", "error_validation"},
               {"\nevaluation", "error"},
               {"log-perplexity", "log_ppl"}});
  SvgPlot plot(format("Projection %s of layer %ld (from 0) of %s", name(projection), static_cast<long>(layer),
                      setup.name.c_str()),
               "Relative error of the output on held-out text. Lower and further left is better.");
  plot.x_axis(format("parameters (the matrix has %s)", with_commas(weight.size()).c_str())).log_x();
  plot.y_axis("relative error");
  Progress progress("frontier");
  double done = 0;
  for (const Family& family : families) {
    if (getenv("ONLY") && !std::string(family.name).find(getenv("ONLY"))==0) {}
    if (getenv("ONLY") && std::string(family.name).find(getenv("ONLY"))==std::string::npos) continue;
    PlotSeries series{.name = family.name, .dashed = family.kind == Kind::none};
    for (const Index budget : budgets) {
      const Index most = budget / (weight.rows() + weight.cols());
      std::optional<Sum> best;
      double least = 0;
      // the rank that is best on the validation part, from the largest down
      const bool choose = family.low_rank && family.kind != Kind::none;
      for (Index rank = family.low_rank ? most : 0, tried = 0; rank >= (choose ? 1 : 0) && tried < 3; --rank) {
        std::optional<Sum> sum = fit_sum(target, budget, rank, family.bias, family.kind);
        if (!sum || sum->parameters() == 0) continue;
        ++tried;
        const double found = error((*sum)(samples.x_validation), y_validation);
        if (!best || found < least) best = std::move(sum), least = found;
        if (!choose) break;
      }
      progress.update(++done / static_cast<double>(std::size(families) * budgets.size()),
                      format("%s, %ld parameters: error %.3f", family.name, static_cast<long>(budget), least));
      if (!best) continue;
      Llama replaced = model;
      replaced.replace(layer, projection, [&](const ConstMatrixRef<float>& in, MatrixRef<float> result) {
        result = (*best)(in);
      });
      const double held_out = error((*best)(x), y);
      table.add_row({family.name,
                     std::to_string(budget),
                     {with_commas(best->parameters()), std::to_string(best->parameters())},
                     std::to_string(best->low_rank ? best->low_rank->rank() : 0),
                     format("%.4f", least),
                     format("%.4f", held_out),
                     format("%.4f", cross_entropy(replaced, setup.evaluation, setup.windows))});
      series.x.push_back(static_cast<double>(best->parameters()));
      series.y.push_back(held_out);
      series.labels.push_back("");
    }
    if (!series.x.empty()) plot.series(series);
  }
  progress.finish("");
  std::printf("\n%s\n", table.text().c_str());
  std::printf("original log-perplexity %.4f; relative error: |f(x) - W x| / |W x|\n",
              cross_entropy(model, setup.evaluation, setup.windows));
  const auto csv = setup.out / "frontier.csv", svg = setup.out / "frontier.svg";
  write_file(csv, table.csv());
  plot.write(svg);
  std::printf("Written: %s, %s\n", csv.c_str(), svg.c_str());
}

}  // namespace examples
