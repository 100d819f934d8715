// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "power_iteration/experiments.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/training/fit.hpp"

namespace examples {

namespace {

using rotorlin::PowerIteration;
using rotorlin::RotorLinear;
using BivectorF = rotorlin::Bivector<float, rotorlin::Dynamic>;

/// Over all extractions of all rotors of a layer.
struct Steps {
  double mean = 0, deviation = 0, at_limit = 0;
};

/// Decomposes every bivector of the layer, each with an iteration of its own.
Steps count_steps(const RotorLinear<float>& layer, std::vector<PowerIteration<float>>& iterations) {
  std::vector<double> steps;
  int limit = 0;
  for (std::size_t k = 0; k < iterations.size(); ++k) {
    const auto pair = static_cast<Index>(k / 2);
    const auto bivectors = k % 2 == 0 ? layer.bivectors_left() : layer.bivectors_right();
    iterations[k].compute(BivectorF(layer.dimension(), bivectors.col(pair)));
    for (int s : iterations[k].steps()) steps.push_back(s);
    limit = iterations[k].max_steps;
  }
  const auto count = static_cast<double>(steps.size());
  Steps result;
  for (double s : steps) {
    result.mean += s / count;
    result.at_limit += s >= limit ? 1 / count : 0;
  }
  for (double s : steps) result.deviation += (s - result.mean) * (s - result.mean) / count;
  result.deviation = std::sqrt(result.deviation);
  return result;
}

double mean_of(const std::vector<Steps>& steps, std::size_t first, std::size_t last, double Steps::*what) {
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += steps[i].*what;
  return sum / static_cast<double>(last - first);
}

}  // namespace

void convergence(const Options& options) {
  constexpr Index width = 8, samples = 1024, batch = 64;
  const int largest = options.quick ? 8 : 12;
  const Index epochs = options.quick ? 4 : 15;
  std::printf("Steps of the warm-started power iteration while layers of %ld rotor pairs are fitted\n",
              static_cast<long>(width));

  Table csv({{"n", "n"},
             {"", "dimension"},
             {"", "step"},
             {"", "mean_steps"},
             {"", "std_steps"},
             {"", "share_at_limit"},
             {"", "mean_steps_cold"}});
  Table table({{"dimension", ""},
               {"n", ""},
               {"cold start:\nsteps", ""},
               {"warm start:\nfirst 10", ""},
               {"middle", ""},
               {"last 10", ""},
               {"stopped at 20,\ncold", ""},
               {"warm", ""},
               {"error of the fit:\nbefore", ""},
               {"after", ""}});
  SvgPlot plot("Steps of the power iteration during a fit, warm start",
               "Mean over the extractions of 16 rotors; at most 20 steps, tolerance 1e-5, float32.");
  plot.x_axis("optimiser step").y_axis("mean steps to converge");

  for (int n = 6; n <= largest; ++n) {
    const Index dimension = Index{1} << n;
    Progress progress(format("  dimension %4ld", static_cast<long>(dimension)));
    RotorLinear<float> layer(dimension, dimension, {.width = width, .bias = false, .seed = options.seed});
    const RotorLinear<float> target(dimension, dimension,
                                    {.width = width, .bias = false, .seed = options.seed + 1});
    rotorlin::Random random(options.seed + 2);
    const Matrix<float> x =
        random_normal(dimension * samples, random).reshaped(dimension, samples).cast<float>();
    const Matrix<float> y = target.forward(x);

    std::vector<PowerIteration<float>> iterations(2 * width);
    std::vector<Steps> warm, cold;
    const auto look = [&] {
      std::vector<PowerIteration<float>> fresh(2 * width);
      cold.push_back(count_steps(layer, fresh));
      warm.push_back(count_steps(layer, iterations));
    };
    look();  // the cold start before the fit
    rotorlin::FitOptions fitting;
    fitting.epochs = epochs;
    fitting.batch_size = batch;
    fitting.learning_rate = 0.05;
    fitting.progress_interval = 0;
    fitting.progress = [&](const rotorlin::FitProgress& p) {
      look();
      progress.update(static_cast<double>(p.step) / static_cast<double>(p.steps),
                      format("%.1f steps", warm.back().mean));
      return true;
    };
    const auto result = rotorlin::fit(layer, x, y, fitting);

    PlotSeries series{.name = format("%ld", static_cast<long>(dimension)), .marker = Marker::none};
    for (std::size_t i = 1; i < warm.size(); ++i) {
      csv.add_row({std::to_string(n), std::to_string(dimension), std::to_string(i),
                   format("%.4f", warm[i].mean), format("%.4f", warm[i].deviation),
                   format("%.4f", warm[i].at_limit), format("%.4f", cold[i].mean)});
      // The curves are drawn as means over 5 steps.
      if (i >= 5 && i % 5 == 0) {
        series.x.push_back(static_cast<double>(i) - 2);
        series.y.push_back(mean_of(warm, i - 4, i + 1, &Steps::mean));
      }
    }
    const std::size_t last = warm.size(), middle = last / 2;
    const double before = result.relative_error * std::sqrt(result.loss.front() / result.best_loss);
    table.add_row({with_commas(dimension), std::to_string(n),
                   format("%.1f", mean_of(cold, 1, last, &Steps::mean)),
                   format("%.1f", mean_of(warm, 1, 11, &Steps::mean)),
                   format("%.1f", mean_of(warm, middle - 5, middle + 5, &Steps::mean)),
                   format("%.1f", mean_of(warm, last - 10, last, &Steps::mean)),
                   format("%.0f %%", 100 * mean_of(cold, 1, last, &Steps::at_limit)),
                   format("%.0f %%", 100 * mean_of(warm, 1, last, &Steps::at_limit)), format("%.3f", before),
                   format("%.3f", result.relative_error)});
    plot.series(std::move(series));
    progress.finish(format("%.1f steps at the end", warm.back().mean));
  }
  std::printf("\n%s\n", table.text().c_str());
  write_file(options.out / "power_iteration_steps.csv", csv.csv());
  plot.write(options.out / "power_iteration_steps.svg");
}

}  // namespace examples
