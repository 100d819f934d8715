// SPDX-License-Identifier: MIT
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "power_iteration/experiments.hpp"
#include "rotorlin/exponential/derivative.hpp"
#include "rotorlin/training/adam.hpp"
#include "rotorlin/training/schedule.hpp"

namespace examples {

namespace {

using rotorlin::PowerIteration;

/// The matrices of x -> r x and x -> x s~ on Cl(n), and their transposes' action on gradients.
class Multiplication {
 public:
  explicit Multiplication(int n) : n_(n), size_(Index{1} << n) {
    using Element = rotorlin::Multivector<double, rotorlin::Dynamic>;
    for (Index a = 0; a < size_ / 2; ++a) {
      Rotor even(n);
      even.set_zero();
      even[a] = 1;
      for (Index b = 0; b < size_; ++b) {
        Element blade(n);
        blade[b] = 1;
        add(left_, even * blade);
        add(right_, blade * even.reversed());
      }
    }
  }

  Matrix<double> left(const Rotor& r) const { return matrix(left_, r); }
  Matrix<double> right(const Rotor& s) const { return matrix(right_, s); }
  /// dL/dr from the gradient with respect to left(r).
  Rotor left_gradient(const Matrix<double>& grad) const { return gradient(left_, grad); }
  Rotor right_gradient(const Matrix<double>& grad) const { return gradient(right_, grad); }

 private:
  /// Entry a * 2^n + b: the even blade a takes blade b to sign times blade `row`.
  struct Term {
    Index row;
    double sign;
  };

  template <class Product>
  static void add(std::vector<Term>& terms, const Product& product) {
    Index row = 0;
    product.coeffs().cwiseAbs().maxCoeff(&row);
    terms.push_back({row, product[row]});
  }

  Matrix<double> matrix(const std::vector<Term>& terms, const Rotor& r) const {
    Matrix<double> result = Matrix<double>::Zero(size_, size_);
    std::size_t k = 0;
    for (Index a = 0; a < size_ / 2; ++a) {
      for (Index b = 0; b < size_; ++b, ++k) result(terms[k].row, b) += terms[k].sign * r[a];
    }
    return result;
  }

  Rotor gradient(const std::vector<Term>& terms, const Matrix<double>& grad) const {
    Rotor result(n_);
    result.set_zero();
    std::size_t k = 0;
    for (Index a = 0; a < size_ / 2; ++a) {
      for (Index b = 0; b < size_; ++b, ++k) result[a] += terms[k].sign * grad(terms[k].row, b);
    }
    return result;
  }

  int n_;
  Index size_;
  std::vector<Term> left_, right_;
};

enum class Gradient { exact, published };

/// Fits y = alpha r x s~ to a matrix T: minimises |M - T|^2 / |T|^2, the error for inputs of covariance 1.
class Fit {
 public:
  Fit(const Multiplication& algebra, const Matrix<double>& target, const Bivector& left,
      const Bivector& right, Gradient gradient)
      : algebra_(algebra), target_(target), n_(left.dimension()), gradient_(gradient) {
    parameters_.resize(2 * left.size() + 1);
    parameters_ << left.coeffs(), right.coeffs(), 1;
  }

  /// One step of Adam; returns the loss before it.
  double step(double rate) {
    const Index size = (parameters_.size() - 1) / 2;
    const Bivector left(n_, parameters_.head(size)), right(n_, parameters_.segment(size, size));
    const double alpha = parameters_[2 * size];
    const Exponential r = exponential(left, left_), s = exponential(right, right_);
    const Matrix<double> l = algebra_.left(r.rotor), m = algebra_.right(s.rotor), product = l * m;
    const Matrix<double> residual = alpha * product - target_;
    const double norm = target_.squaredNorm();
    const Rotor grad_r = algebra_.left_gradient((2 * alpha / norm) * (residual * m.transpose()));
    const Rotor grad_s = algebra_.right_gradient((2 * alpha / norm) * (l.transpose() * residual));

    Eigen::VectorXd gradient(parameters_.size());
    gradient << vjp(left, r, grad_r).coeffs(), vjp(right, s, grad_s).coeffs(),
        2 / norm * residual.cwiseProduct(product).sum();
    adam_.step(parameters_, gradient, rate);
    return residual.squaredNorm() / norm;
  }

  /// Relative errors of the published gradient, of each bivector at each step.
  const std::vector<double>& errors() const { return errors_; }

 private:
  struct Exponential {
    Rotor rotor;
    std::vector<RecordedExp> recorded = {};  ///< one for the published gradient
  };

  Exponential exponential(const Bivector& b, PowerIteration<double>& iteration) const {
    if (gradient_ == Gradient::exact) return {rotorlin::exp(b)};
    RecordedExp recorded = published_exp(b, iteration);
    return {recorded.rotor(), {recorded}};
  }

  Bivector vjp(const Bivector& b, const Exponential& e, const Rotor& grad_r) {
    const Bivector exact = rotorlin::exp_vjp(b, grad_r);
    if (e.recorded.empty()) return exact;
    Bivector published = e.recorded.front().vjp(grad_r);
    errors_.push_back((published - exact).norm() / exact.norm());
    return published;
  }

  const Multiplication& algebra_;
  const Matrix<double>& target_;
  int n_;
  Gradient gradient_;
  Eigen::VectorXd parameters_;
  rotorlin::Adam<double> adam_;
  PowerIteration<double> left_, right_;
  std::vector<double> errors_;
};

/// What is fitted: `pairs` rotor pairs summed, of which one pair can reach the matrix only where it is one;
/// the start is the first pair, moved by normal numbers of this deviation, or anywhere.
struct Problem {
  std::string name;
  int pairs;
  double start_deviation;  ///< 0: start anywhere
};

struct Curves {
  std::vector<std::vector<double>> loss;  ///< of every seed, after every step
  std::vector<double> errors;
  std::vector<double> final_losses() const {
    std::vector<double> result;
    for (const auto& curve : loss) result.push_back(curve.back());
    return result;
  }
};

Curves fit_all(const Multiplication& algebra, int n, const Problem& problem, Gradient gradient, double rate,
               int seeds, int steps, std::uint64_t seed) {
  const rotorlin::CosineSchedule schedule(rate, 0, steps);
  Curves curves;
  const Index size = Index{n} * (n - 1) / 2;
  for (int k = 0; k < seeds; ++k) {
    rotorlin::Random random(seed + static_cast<std::uint64_t>(k));
    const auto draw = [&] { return Bivector(n, random_normal(size, random)); };
    Bivector left = draw(), right = draw();
    Matrix<double> target = algebra.left(rotorlin::exp(left)) * algebra.right(rotorlin::exp(right));
    for (int pair = 1; pair < problem.pairs; ++pair) {
      target += algebra.left(rotorlin::exp(draw())) * algebra.right(rotorlin::exp(draw()));
    }
    if (problem.start_deviation > 0) {
      left += problem.start_deviation * draw();
      right += problem.start_deviation * draw();
    } else {
      left = draw();
      right = draw();
    }
    Fit fit(algebra, target, left, right, gradient);
    std::vector<double> loss;
    for (int step = 0; step <= steps; ++step) loss.push_back(fit.step(schedule.rate(step)));
    curves.loss.push_back(std::move(loss));
    curves.errors.insert(curves.errors.end(), fit.errors().begin(), fit.errors().end());
  }
  return curves;
}

/// Median and quartiles of the loss over the seeds.
PlotSeries band_of(std::string name, const Curves& curves) {
  PlotSeries series{.name = std::move(name), .marker = Marker::none};
  for (std::size_t step = 0; step < curves.loss.front().size(); step += 5) {
    std::vector<double> losses;
    for (const auto& curve : curves.loss) losses.push_back(curve[step]);
    series.x.push_back(static_cast<double>(step));
    series.y.push_back(median(losses));
    series.band_low.push_back(quantile(losses, 0.25));
    series.band_high.push_back(quantile(losses, 0.75));
  }
  return series;
}

}  // namespace

void training(const Options& options) {
  const int seeds = options.quick ? 5 : 20, steps = options.quick ? 200 : 1000;
  const std::vector<Problem> problems = {
      {"one pair, start nearby", 1, 0.3}, {"one pair, start anywhere", 1, 0}, {"sum of four pairs", 4, 0}};
  std::printf(
      "The same fits with the exact and the published gradient: Adam with a cosine schedule, %d steps, %d "
      "seeds\n",
      steps, seeds);
  Table table({{"n", "n"},
               {"target", "target", true},
               {"rate", "rate"},
               {"exact:\nmedian", "exact_median"},
               {"25 %", "exact_q25"},
               {"75 %", "exact_q75"},
               {"published:\nmedian", "published_median"},
               {"25 %", "published_q25"},
               {"75 %", "published_q75"},
               {"exact\nlower", "exact_lower"},
               {"published\nlower", "published_lower"},
               {"gradient error:\nmedian", "gradient_error_median"},
               {"90 %", "gradient_error_q90"}});
  Table curves_csv(
      {{"", "n"}, {"", "target"}, {"", "rate"}, {"", "gradient"}, {"", "seed"}, {"", "step"}, {"", "loss"}});

  for (int n : {4, 5, 6}) {
    const Multiplication algebra(n);
    for (std::size_t p = 0; p < problems.size(); ++p) {
      for (double rate : {0.01, 0.05}) {
        const Problem& problem = problems[p];
        Progress progress(format("  n = %d, %s, rate %g", n, problem.name.c_str(), rate));
        Curves of[2];
        for (Gradient gradient : {Gradient::exact, Gradient::published}) {
          Curves& curves = of[static_cast<int>(gradient)];
          curves = fit_all(algebra, n, problem, gradient, rate, seeds, steps, options.seed);
          for (std::size_t k = 0; k < curves.loss.size(); ++k) {
            for (std::size_t step = 0; step < curves.loss[k].size(); step += 50) {
              curves_csv.add_row({std::to_string(n), problem.name, format("%g", rate),
                                  gradient == Gradient::exact ? "exact" : "published", std::to_string(k + 1),
                                  std::to_string(step), format("%.6g", curves.loss[k][step])});
            }
          }
        }
        const auto exact = of[0].final_losses(), published = of[1].final_losses();
        // Differences below a hundredth, and losses that are zero to rounding, count as equal.
        int exact_lower = 0, published_lower = 0;
        for (std::size_t k = 0; k < exact.size(); ++k) {
          exact_lower += exact[k] < 0.99 * published[k] - 1e-12;
          published_lower += published[k] < 0.99 * exact[k] - 1e-12;
        }
        const auto loss = [](const std::vector<double>& values, double share) {
          const double v = quantile(values, share);
          return Table::Cell(v < 1e-3 ? format("%.1e", v) : format("%.4f", v), format("%.6g", v));
        };
        table.add_row({std::to_string(n), problem.name, format("%g", rate), loss(exact, 0.5),
                       loss(exact, 0.25), loss(exact, 0.75), loss(published, 0.5), loss(published, 0.25),
                       loss(published, 0.75), std::to_string(exact_lower), std::to_string(published_lower),
                       loss(of[1].errors, 0.5), loss(of[1].errors, 0.9)});
        progress.finish(format("loss %.2e exact, %.2e published", median(exact), median(published)));

        if (n == 6 && rate == 0.05 && problem.start_deviation == 0) {
          SvgPlot plot(
              "Loss of fits: " + problem.name,
              format("Cl(6), Adam, cosine from %g to 0, %d seeds: median and quartiles.", rate, seeds));
          plot.x_axis("step").y_axis("relative squared error");
          if (problem.pairs == 1) plot.log_y();
          plot.series(band_of("exact", of[0])).series(band_of("published", of[1]));
          plot.write(options.out / (problem.pairs == 1 ? "power_iteration_training_one.svg"
                                                       : "power_iteration_training_sum.svg"));
        }
      }
    }
  }
  std::printf("\n%s\n", table.text().c_str());
  std::puts(
      "loss: |M - T|^2 / |T|^2 after the last step.  lower: number of seeds of which the loss is lower by "
      "more than 1 %");
  write_file(options.out / "power_iteration_training.csv", table.csv());
  write_file(options.out / "power_iteration_curves.csv", curves_csv.csv());
}

}  // namespace examples
