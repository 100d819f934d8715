// SPDX-License-Identifier: MIT
// What a rotor layer can take over from a real weight matrix.
//
// A dense network 784-512-512-10 is trained on Fashion-MNIST. Its hidden 512 x 512 matrix W is then replaced
// by layers with far fewer parameters: low rank, and RotorLinear of growing width. Every one of them is
// fitted to the same thing, the matrix in the metric of its inputs: it minimises tr((W - M) C (W - M)^T),
// where C is the covariance of the layer's inputs over the training images. That is the squared error of the
// output M x + b with the best bias b, which is then set in closed form. The error in the table is measured
// on the test images.

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/arguments.hpp"
#include "common/idx.hpp"
#include "common/network.hpp"
#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "rotorlin/rotorlin.hpp"

namespace {

using namespace examples;
using rotorlin::FitOptions;
using rotorlin::FitProgress;
using rotorlin::LowRankLinear;
using rotorlin::RotorLinear;

using Dense = rotorlin::DenseLinear<float>;

struct Options {
  std::filesystem::path data = debian_fashion_mnist;
  std::filesystem::path out = "out";
  int epochs = 4;
  Index steps = 400;
  std::uint64_t seed = 1;
  std::vector<Index> widths = {1, 2, 4, 8, 16, 32, 64};
};

constexpr const char* usage =
    R"(Replaces the hidden 512 x 512 matrix of a network by rotor layers and shows what that costs.

fit_dense_layer [--data FOLDER] [--out FOLDER] [--epochs N] [--steps N]
                [--widths 1,2,4,8,16,32,64] [--seed N]

  --data    folder with the four files of Fashion-MNIST, .gz or unpacked (default: Debian's package)
  --out     where fit_dense_layer.csv and .svg go (default: out)
  --epochs  passes over the training images when the dense network is trained (default: 4)
  --steps   steps of Adam that fit a rotor layer (default: 400)
  --widths  numbers of parallel rotor pairs to fit, ascending
  --seed    of starts and orders (default: 1)
)";

Options parse(int count, char** values) {
  Options options;
  Arguments arguments(count, values, usage);
  constexpr long many = 1000000;
  while (arguments.next()) {
    if (arguments.is("--data")) {
      options.data = arguments.value();
    } else if (arguments.is("--out")) {
      options.out = arguments.value();
    } else if (arguments.is("--epochs")) {
      options.epochs = static_cast<int>(arguments.number(1, many));
    } else if (arguments.is("--steps")) {
      options.steps = arguments.number(1, many);
    } else if (arguments.is("--seed")) {
      options.seed = static_cast<std::uint64_t>(arguments.number(0, many));
    } else if (arguments.is("--widths")) {
      const std::vector<long> widths = arguments.numbers(1, many);
      options.widths.assign(widths.begin(), widths.end());
    } else {
      arguments.unknown();
    }
  }
  return options;
}

void train(Network& network, const FashionMnist& data, const Options& options) {
  const Index images = data.train.size();
  Training training(network, data.train, images, options.epochs, 1e-3, options.seed);
  for (int number = 1; number <= options.epochs; ++number) {
    Progress progress(format("  epoch %d of %d", number, options.epochs));
    const Training::Epoch epoch = training.epoch([&](const Training::Epoch& now) {
      progress.update(static_cast<double>(now.done) / static_cast<double>(images),
                      format("loss %.3f", now.loss));
    });
    progress.finish(
        format("loss %.3f  test accuracy %.2f %%", epoch.loss, 100 * network.accuracy(data.test)));
  }
}

/// The layer that is to be replaced, and what it meets in the network.
struct Target {
  Eigen::MatrixXf weight;          ///< W, 512 x 512
  Eigen::VectorXf bias;            ///< b
  Eigen::VectorXf mean_x, mean_y;  ///< of inputs and outputs over the training images
  Eigen::MatrixXd covariance;      ///< of the inputs over the training images
  Eigen::MatrixXf test_x, test_y;  ///< inputs and outputs for the test images, a column each
};

Target observe(const Network& network, const FashionMnist& data) {
  const auto& first = network.layer<Dense>(0);
  const auto& hidden = network.layer<Dense>(1);
  Target target;
  target.weight = hidden.weight();
  target.bias = hidden.bias();

  const Index features = hidden.in_features(), images = data.train.size();
  Eigen::MatrixXd moment = Eigen::MatrixXd::Zero(features, features);
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(features);
  for (Index begin = 0, count = 0; begin < images; begin += count) {
    count = std::min<Index>(1000, images - begin);
    const Eigen::MatrixXf y = first.forward(data.train.images.middleCols(begin, count));
    const Eigen::MatrixXd x = y.cwiseMax(0.0f).cast<double>();
    moment += x * x.transpose();
    sum += x.rowwise().sum();
  }
  const Eigen::VectorXd mean = sum / static_cast<double>(images);
  target.covariance = moment / static_cast<double>(images) - mean * mean.transpose();
  target.mean_x = mean.cast<float>();
  target.mean_y = target.weight * target.mean_x + target.bias;
  target.test_x = first.forward(data.test.images).cwiseMax(0.0f);
  target.test_y = hidden.forward(target.test_x);
  return target;
}

/// Microseconds a sample of `run`, which handles `samples` of them: the fastest of several rounds.
template <class Run>
double microseconds(Index samples, const Run& run) {
  run();
  double best = 1e300;
  const Stopwatch all;
  do {
    const Stopwatch round;
    Index repetitions = 0;
    do {
      run();
      ++repetitions;
    } while (round.seconds() < 0.005);
    best = std::min(best, round.seconds() / static_cast<double>(repetitions * samples));
  } while (all.seconds() < 0.15);
  return 1e6 * best;
}

/// A line of the table.
struct Replacement {
  std::string name;
  Index parameters = 0;  ///< without the bias, which all have
  double error = 0;      ///< |y' - y| / |y| over the test images
  double accuracy = 0;   ///< of the network with the layer replaced
  double fit_seconds = 0;
  double batch_us = 0, single_us = 0;  ///< forward, a sample in a batch of 256 and by itself
};

/// Measures a layer in the place of the target.
template <rotorlin::LinearLayer L>
Replacement measure(std::string name, const L& layer, double fit_seconds, const Target& target,
                    const Network& network, const std::vector<int>& labels) {
  Replacement result{.name = std::move(name), .fit_seconds = fit_seconds};
  result.parameters = layer.bias_offset();
  const Eigen::MatrixXf y = layer.forward(target.test_x);
  result.error = (y - target.test_y).norm() / target.test_y.norm();
  const Eigen::MatrixXf logits = network.layer<Dense>(2).forward(y.cwiseMax(0.0f));
  result.accuracy = static_cast<double>(count_correct(logits, labels.data())) / static_cast<double>(y.cols());

  typename L::Workspace workspace;
  Eigen::MatrixXf out(y.rows(), 256);
  const auto batch = target.test_x.leftCols(256);
  result.batch_us = microseconds(256, [&] { layer.forward(batch, out, workspace); });
  result.single_us = microseconds(1, [&] { layer.forward(batch.col(0), out.col(0), workspace); });
  return result;
}

/// 0.812 e13 - 0.31 e25: the blades of the plane (u, v) with the largest coefficients of u ^ v.
std::string describe_plane(const Eigen::VectorXf& u, const Eigen::VectorXf& v) {
  struct Blade {
    float value;
    Index i, j;
  };
  std::vector<Blade> blades;
  for (Index i = 0; i < u.size(); ++i) {
    for (Index j = i + 1; j < u.size(); ++j) blades.push_back({u[i] * v[j] - u[j] * v[i], i + 1, j + 1});
  }
  std::sort(blades.begin(), blades.end(),
            [](const Blade& a, const Blade& b) { return std::abs(a.value) > std::abs(b.value); });
  std::string text;
  for (std::size_t k = 0; k < std::min<std::size_t>(4, blades.size()); ++k) {
    const Blade& b = blades[k];
    text += (k == 0 ? (b.value < 0 ? "-" : "") : (b.value < 0 ? " - " : " + "));
    text += format("%.2f e%ld%ld", std::abs(b.value), static_cast<long>(b.i), static_cast<long>(b.j));
  }
  return text + (blades.size() > 4 ? " ..." : "");
}

/// The planes with the largest angles among all rotors of the layer. Angles are those of r and s in y = alpha
/// r x s~, and a full turn of them changes nothing: they are given in -180 to 180 degrees.
Table largest_planes(const RotorLinear<float>& layer, std::size_t count) {
  struct Plane {
    const rotorlin::RotorPlanes<float>* rotor;
    Index number;
    float angle;
  };
  const auto rotors = layer.planes();
  std::vector<Plane> planes;
  for (const auto& rotor : rotors) {
    for (Index p = 0; p < rotor.angles.size(); ++p) {
      planes.push_back({&rotor, p, std::remainder(rotor.angles[p] * 57.29578f, 360.0f)});
    }
  }
  std::sort(planes.begin(), planes.end(),
            [](const Plane& a, const Plane& b) { return std::abs(a.angle) > std::abs(b.angle); });
  planes.resize(std::min(count, planes.size()));

  Table table({{"rotor pair", "pair"},
               {"alpha", "alpha"},
               {"rotor", "rotor", true},
               {"angle", "angle"},
               {"plane u ^ v", "plane", true}});
  for (const Plane& plane : planes) {
    const auto& rotor = *plane.rotor;
    table.add_row({std::to_string(rotor.branch + 1), format("%.3f", layer.alpha()[rotor.branch]),
                   rotor.left ? "r (left)" : "s (right)", format("%.1f°", plane.angle),
                   describe_plane(rotor.basis.col(2 * plane.number), rotor.basis.col(2 * plane.number + 1))});
  }
  return table;
}

Table table_of(const std::vector<Replacement>& rows) {
  const Replacement& dense = rows.front();
  Table table({{"layer", "layer", true},
               {"parameters", "parameters"},
               {"compression", "compression"},
               {"relative\nerror", "relative_error"},
               {"test\naccuracy", "test_accuracy"},
               {"fit", "fit_seconds"},
               {"µs a sample\nbatch 256", "us_per_sample_batch256"},
               {"µs a sample\nalone", "us_per_sample_batch1"},
               {"dense time\nover ours", "speedup_batch256"}});
  for (const Replacement& r : rows) {
    const double compression = static_cast<double>(dense.parameters) / static_cast<double>(r.parameters);
    const double speed = dense.batch_us / r.batch_us;
    table.add_row(
        {r.name,
         {with_commas(r.parameters), std::to_string(r.parameters)},
         {format("%.0f×", compression), format("%.6g", compression)},
         {format("%.3f", r.error), format("%.6g", r.error)},
         {format("%.2f %%", 100 * r.accuracy), format("%.2f", 100 * r.accuracy)},
         {r.fit_seconds == 0 ? "-" : format("%.1f s", r.fit_seconds), format("%.3f", r.fit_seconds)},
         {format("%.2f", r.batch_us), format("%.4f", r.batch_us)},
         {format("%.2f", r.single_us), format("%.4f", r.single_us)},
         {format("%.1f", speed), format("%.3f", speed)}});
  }
  return table;
}

SvgPlot plot_of(const std::vector<Replacement>& low_rank, const std::vector<Replacement>& rotors,
                double bias_alone) {
  SvgPlot plot("Layers fitted to a 512 × 512 matrix: what is left of the error",
               "Hidden layer of a Fashion-MNIST network, on test images. Lower and further left is better.");
  plot.x_axis("parameters (the dense matrix has 262,144)").log_x().y_axis("relative error of the output");
  plot.y_range(0, 1.06 * bias_alone);
  plot.reference(bias_alone, "bias alone");
  const auto series = [](std::string name, const std::vector<Replacement>& rows) {
    PlotSeries s{.name = std::move(name)};
    for (const Replacement& r : rows) {
      s.x.push_back(static_cast<double>(r.parameters));
      s.y.push_back(r.error);
      s.labels.push_back(r.name.substr(r.name.find_last_of(' ') + 1));
    }
    return s;
  };
  plot.series(series("RotorLinear, by width", rotors));
  plot.series(series("low rank, by rank", low_rank));
  return plot;
}

void run(const Options& options) {
  const Stopwatch clock;
  std::printf("Fashion-MNIST from %s\n", options.data.c_str());
  const FashionMnist data = read_fashion_mnist(options.data);
  if (data.train.size() < 256 || data.test.size() < 256) {
    throw std::runtime_error(options.data.string() + " holds " + std::to_string(data.train.size()) +
                             " training and " + std::to_string(data.test.size()) +
                             " test images, expected 256 or more of both");
  }
  prepare_folder(options.out, files_in(options.data));
  std::printf("  %s training images, %s test images\n", with_commas(data.train.size()).c_str(),
              with_commas(data.test.size()).c_str());

  std::puts("\nA dense network, 784-512-512-10");
  const StageOptions relu{.normalize = false, .slope = 0};
  Network network(784);
  network.add(Dense(784, 512, {.seed = options.seed}), relu)
      .add(Dense(512, 512, {.seed = options.seed + 1}), relu)
      .add(Dense(512, 10, {.seed = options.seed + 2}), logits(1));
  train(network, data, options);

  std::puts("\nLayers fitted to its 512 x 512 matrix");
  const Target target = observe(network, data);
  const auto measured = [&](const std::string& name, const auto& layer, double seconds) {
    return measure(name, layer, seconds, target, network, data.test.labels);
  };
  const double bias_alone = (target.test_y.colwise() - target.mean_y).norm() / target.test_y.norm();
  const Replacement dense = measured("dense", network.layer<Dense>(1), 0);
  const auto report = [](const Replacement& r) { return format("error %.3f", r.error); };

  std::vector<Replacement> low_rank;
  for (Index rank : {1, 2, 4, 8}) {
    Progress progress(format("  rank %ld", static_cast<long>(rank)));
    LowRankLinear<float> layer(512, 512, rank);
    layer.fit_closed_form(target.weight, target.covariance);
    match_bias(layer, target.mean_x, target.mean_y);
    const double seconds = progress.seconds();
    low_rank.push_back(measured(format("rank %ld", static_cast<long>(rank)), layer, seconds));
    progress.finish(report(low_rank.back()));
  }

  std::vector<Replacement> rotors;
  Table planes({});
  for (Index width : options.widths) {
    Progress progress(format("  rotors width %ld", static_cast<long>(width)));
    RotorLinear<float> layer(512, 512, {.width = width, .seed = options.seed});
    // Fits that start near the identity end a little lower than those that start anywhere.
    layer.parameters().head(layer.alpha_offset()) *= 0.3f;
    FitOptions fitting;
    fitting.epochs = options.steps;
    fitting.learning_rate = 0.1;
    fitting.progress = [&](const FitProgress& p) {
      progress.update(static_cast<double>(p.step) / static_cast<double>(p.steps),
                      format("error %.3f", std::sqrt(p.loss) * bias_alone));
      return true;
    };
    fit_dense(layer, target.weight, target.covariance, fitting);
    match_bias(layer, target.mean_x, target.mean_y);
    const double seconds = progress.seconds();
    rotors.push_back(measured(format("rotors width %ld", static_cast<long>(width)), layer, seconds));
    progress.finish(report(rotors.back()));
    if (width == options.widths.back()) planes = largest_planes(layer, 3);
  }

  std::vector<Replacement> rows = {dense};
  rows.insert(rows.end(), low_rank.begin(), low_rank.end());
  rows.insert(rows.end(), rotors.begin(), rotors.end());
  const Table table = table_of(rows);
  std::printf("\n%s\n", table.text().c_str());
  std::printf(
      "parameters: without the 512 biases that every layer has; with the bias alone the error is %.3f\n",
      bias_alone);
  std::printf("relative error: |y' - y| / |y| over the test images, y = W x + b\n");

  std::printf("\nThe three largest rotation planes of the layer of width %ld, y = sum alpha r x s~\n\n%s\n",
              static_cast<long>(options.widths.back()), planes.text().c_str());

  const auto csv = options.out / "fit_dense_layer.csv", svg = options.out / "fit_dense_layer.svg";
  write_file(csv, table.csv());
  plot_of(low_rank, rotors, bias_alone).write(svg);
  std::printf("Written: %s, %s.  %s in all\n", csv.c_str(), svg.c_str(), duration(clock.seconds()).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] { run(parse(count, arguments)); });
}
