// SPDX-License-Identifier: MIT
#include <cstdio>
#include <string>
#include <vector>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "power_iteration/experiments.hpp"
#include "rotorlin/exponential/derivative.hpp"

namespace examples {

namespace {

using rotorlin::InvariantDecomposition;
using rotorlin::PowerIteration;

constexpr int recorded_steps[] = {1, 2, 5, 20};

/// The two largest angles differ by `gap`, relative to the larger; every further one is 0.7 of the one before
/// it. The largest is uniform in 0.5 to 2.
std::vector<double> angles_with_gap(int n, double gap, rotorlin::Random& random) {
  std::vector<double> angles(static_cast<std::size_t>(n / 2));
  angles[0] = random.uniform(0.5, 2);
  for (std::size_t p = 1; p < angles.size(); ++p) angles[p] = (p == 1 ? 1 - gap : 0.7) * angles[p - 1];
  return angles;
}

Rotor random_gradient(int n, rotorlin::Random& random) {
  return Rotor(n, random_normal(Index{1} << (n - 1), random));
}

template <class T>
double relative_error(const T& value, const T& exact) {
  return (value - exact).norm() / exact.norm();
}

/// Errors of the gradient for each number of recorded steps, all from vectors that have converged to
/// rounding: the rotor itself is then exact.
std::vector<double> errors_when_converged(const Bivector& b, const Rotor& grad_r) {
  const InvariantDecomposition<double> planes(b);
  const Bivector exact = rotorlin::exp_vjp(planes, grad_r);
  const Index extractions = planes.num_planes() - 1;
  Matrix<double> start(b.dimension(), extractions);
  for (Index p = 0; p < extractions; ++p) start.col(p) = planes.basis().col(2 * p);
  std::vector<double> errors;
  for (int steps : recorded_steps) {
    const std::vector<int> counts(static_cast<std::size_t>(extractions), steps);
    errors.push_back(relative_error(RecordedExp(b, start, counts).vjp(grad_r), exact));
  }
  return errors;
}

/// The largest relative error of the hand-written derivative of RecordedExp against central differences.
double check_against_differences(int n, rotorlin::Random& random) {
  double worst = 0;
  for (int trial = 0; trial < 5; ++trial) {
    const Bivector b(n, random_normal(Index{n} * (n - 1) / 2, random));
    const Index extractions = n / 2 - 1;
    Matrix<double> start = random_normal(n * extractions, random).reshaped(n, extractions);
    start.colwise().normalize();
    const std::vector<int> steps(static_cast<std::size_t>(extractions), 1 + 2 * trial);
    const Rotor grad_r = random_gradient(n, random);
    const auto loss = [&](const Bivector& at) {
      return RecordedExp(at, start, steps).rotor().coeffs().dot(grad_r.coeffs());
    };
    Bivector differences(n);
    for (Index i = 0; i < b.size(); ++i) {
      constexpr double step = 1e-5;
      Bivector above = b, below = b;
      above[i] += step;
      below[i] -= step;
      differences[i] = (loss(above) - loss(below)) / (2 * step);
    }
    worst = std::max(worst, relative_error(RecordedExp(b, start, steps).vjp(grad_r), differences));
  }
  return worst;
}

/// The authors' protocol on bivectors as layers have them at first, normal with variance 1.
void generic_bivectors(int n, int count, rotorlin::Random& random, Table& table) {
  std::vector<double> gradient, cosine, normal, rotor, steps;
  for (int trial = 0; trial < count; ++trial) {
    const Bivector b(n, random_normal(Index{n} * (n - 1) / 2, random));
    const InvariantDecomposition<double> planes(b);
    PowerIteration<double> iteration;
    // As after many steps of an optimiser that has come to rest.
    for (int pass = 0; pass < 50; ++pass) iteration.compute(b);
    const RecordedExp published = published_exp(b, iteration);
    const Rotor grad_r = random_gradient(n, random);
    const Bivector exact = rotorlin::exp_vjp(planes, grad_r), got = published.vjp(grad_r);
    gradient.push_back(relative_error(got, exact));
    cosine.push_back(got.coeffs().dot(exact.coeffs()) / (got.norm() * exact.norm()));
    // G splits into r h, h = <r~ G>_2, along which rotors can move, and the rest, which exp_vjp takes to
    // zero.
    const Rotor r = planes.rotor();
    const Rotor tangent = r * (r.reversed() * grad_r).bivector_part().even_part();
    const Rotor rest = grad_r - tangent;
    normal.push_back(published.vjp(rest).norm() / rest.norm() /
                     (published.vjp(tangent).norm() / tangent.norm()));
    rotor.push_back((published.rotor() - planes.rotor()).norm());
    for (int s : iteration.steps()) steps.push_back(s);
  }
  const auto percent = [&](double share) {
    const double e = quantile(gradient, share);
    return Table::Cell(format("%.1f %%", 100 * e), format("%.6g", e));
  };
  std::vector<Table::Cell> row = {std::to_string(n), with_commas(1LL << n), format("%.2f", median(steps))};
  for (double share : {0.05, 0.25, 0.5, 0.75, 0.95}) row.push_back(percent(share));
  row.push_back(format("%.3f", median(cosine)));
  row.push_back(format("%.2g", median(normal)));
  row.push_back(format("%.1e", median(rotor)));
  table.add_row(std::move(row));
}

/// Errors of rotors in float32, by the power iteration (two passes from random vectors) and by the exact
/// decomposition.
struct FloatErrors {
  std::vector<double> iterated, exact;
};

void add_float_errors(const Bivector& wide, rotorlin::Random& random, FloatErrors& errors) {
  const int n = wide.dimension();
  const auto b = wide.cast<float>();
  const Rotor reference = rotorlin::exp(b.cast<double>());
  PowerIteration<float> iteration;
  Matrix<float> start = random_normal(Index{n} * (n / 2 - 1), random).reshaped(n, n / 2 - 1).cast<float>();
  start.colwise().normalize();
  iteration.compute(b, start);
  iteration.compute(b);
  errors.iterated.push_back((iteration.rotor().cast<double>() - reference).norm());
  errors.exact.push_back((rotorlin::exp(b).cast<double>() - reference).norm());
}

void add_point(PlotSeries& series, double x, const std::vector<double>& values) {
  series.x.push_back(x);
  series.y.push_back(median(values));
  series.band_low.push_back(quantile(values, 0.1));
  series.band_high.push_back(quantile(values, 0.9));
}

}  // namespace

void gradient_error(const Options& options) {
  const int count = options.quick ? 30 : 300;
  rotorlin::Random random(options.seed);
  std::printf("The derivative of the recorded iteration agrees with central differences to %.1e (n = 6)\n\n",
              check_against_differences(6, random));

  std::printf(
      "Relative error of the published gradient for normal bivectors, the warm start having converged\n");
  Table generic({{"n", "n"},
                 {"dimension", "dimension"},
                 {"steps\nrecorded", "median_steps_recorded"},
                 {"error: 5 %\nbelow", "error_q05"},
                 {"25 %", "error_q25"},
                 {"median", "error_median"},
                 {"75 %", "error_q75"},
                 {"95 %", "error_q95"},
                 {"cosine to\nthe exact", "cosine_median"},
                 {"response\nwhere it is 0", "normal_response_median"},
                 {"error of\nthe rotor", "rotor_error_median"}});
  for (int n : {4, 5, 6, 8, 9, 11}) generic_bivectors(n, count, random, generic);
  std::printf("\n%s\n", generic.text().c_str());
  write_file(options.out / "power_iteration_generic.csv", generic.csv());

  const std::vector<double> gaps = {0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001};
  Table table({{"n", "n"},
               {"gap", "gap"},
               {"gradient, K = 1\nmedian", "k1_median"},
               {"10 %", "k1_q10"},
               {"90 %", "k1_q90"},
               {"K = 2", "k2_median"},
               {"K = 5", "k5_median"},
               {"K = 20", "k20_median"},
               {"float32 rotor,\niterated: median", "float_iterated_median"},
               {"90 %", "float_iterated_q90"},
               {"exact:\nmedian", "float_exact_median"},
               {"90 %", "float_exact_q90"}});
  SvgPlot gradient_plot(
      "Error of the gradient through K recorded steps",
      format("Cl(6), converged vectors; %d bivectors a point, median and 10 to 90 %%.", count));
  gradient_plot.x_axis("gap between the two largest angles, relative").log_x();
  gradient_plot.y_axis("relative error of dL/db").log_y();
  SvgPlot float_plot("Error of the rotor in float32",
                     format("%d random bivectors a point: median and 10 to 90 %%.", count));
  float_plot.x_axis("gap between the two largest angles, relative").log_x();
  float_plot.y_axis("|r - exp(b)|").log_y();

  for (int n : {6, 11}) {
    Progress progress(format("  gaps, n = %d", n));
    std::vector<PlotSeries> by_steps;
    for (int steps : recorded_steps) by_steps.push_back({.name = format("K = %d", steps)});
    PlotSeries iterated{.name = format("iterated, n = %d", n)}, exact{.name = format("exact, n = %d", n)};
    for (std::size_t g = 0; g < gaps.size(); ++g) {
      std::vector<std::vector<double>> errors(std::size(recorded_steps));
      FloatErrors floats;
      for (int trial = 0; trial < count; ++trial) {
        const Bivector b = random_bivector(n, angles_with_gap(n, gaps[g], random), random);
        const auto of_trial = errors_when_converged(b, random_gradient(n, random));
        for (std::size_t k = 0; k < errors.size(); ++k) errors[k].push_back(of_trial[k]);
        add_float_errors(b, random, floats);
      }
      for (std::size_t k = 0; k < errors.size(); ++k) add_point(by_steps[k], gaps[g], errors[k]);
      add_point(iterated, gaps[g], floats.iterated);
      add_point(exact, gaps[g], floats.exact);
      const auto cell = [](const std::vector<double>& values, double share) {
        const double e = quantile(values, share);
        return Table::Cell(e < 1e-3 ? format("%.1e", e) : format("%.3f", e), format("%.6g", e));
      };
      table.add_row({std::to_string(n), format("%g", gaps[g]), cell(errors[0], 0.5), cell(errors[0], 0.1),
                     cell(errors[0], 0.9), cell(errors[1], 0.5), cell(errors[2], 0.5), cell(errors[3], 0.5),
                     cell(floats.iterated, 0.5), cell(floats.iterated, 0.9), cell(floats.exact, 0.5),
                     cell(floats.exact, 0.9)});
      progress.update(static_cast<double>(g + 1) / static_cast<double>(gaps.size()),
                      format("gap %g", gaps[g]));
    }
    if (n == 6) {
      for (auto& series : by_steps) gradient_plot.series(std::move(series));
    }
    float_plot.series(std::move(iterated)).series(std::move(exact));
    progress.finish("done");
  }
  std::printf("\n%s\n", table.text().c_str());
  write_file(options.out / "power_iteration_errors.csv", table.csv());
  gradient_plot.write(options.out / "power_iteration_gradient.svg");
  float_plot.write(options.out / "power_iteration_float.svg");
}

}  // namespace examples
