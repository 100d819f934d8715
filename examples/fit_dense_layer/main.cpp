// SPDX-License-Identifier: MIT
// What a rotor layer can take over from a real weight matrix.
//
// A dense network 784-D-D-10 is trained on Fashion-MNIST. Its hidden D x D matrix W is then replaced by
// layers with far fewer parameters: low rank, sums of Kronecker products, block Hadamard, rotor encoders, and
// RotorLinear of growing width. Every one of them is fitted to the same thing with the same means
// (common/matrix_fits.hpp), the matrix in the metric of its inputs: it minimises tr((W - M) C (W - M)^T),
// where C is the covariance of the layer's inputs over the training images. That is the squared error of the
// output M x + b with the best bias b, which is then set in closed form. The error in the table is measured
// on the test images.

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/arguments.hpp"
#include "common/idx.hpp"
#include "common/matrix_fits.hpp"
#include "common/network.hpp"
#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "rotorlin/rotorlin.hpp"

namespace {

using namespace examples;
using rotorlin::RotorLinear;

using Dense = rotorlin::DenseLinear<float>;

struct Options {
  std::filesystem::path data = debian_fashion_mnist;
  std::filesystem::path out = "out";
  int epochs = 4;
  Index steps = 400;
  std::uint64_t seed = 1;
  std::vector<Index> hidden = {512};
  std::vector<Index> widths = {1, 2, 4, 8, 16, 32, 64};
};

constexpr const char* usage =
    R"(Replaces the hidden matrix of a network by layers of few parameters and shows what that costs.

fit_dense_layer [--data FOLDER] [--out FOLDER] [--epochs N] [--steps N] [--hidden 512,1024,2048]
                [--widths 1,2,4,8,16,32,64] [--seed N]

  --data    folder with the four files of Fashion-MNIST, .gz or unpacked (default: Debian's package)
  --out     where tables (.csv) and plots (.svg) go (default: out)
  --epochs  passes over the training images when the dense network is trained (default: 4)
  --steps   steps of Adam that fit a layer without a closed form (default: 400)
  --hidden  widths D of the network 784-D-D-10; of several there is a comparison as well (default: 512)
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
    } else if (arguments.is("--hidden")) {
      const std::vector<long> hidden = arguments.numbers(16, 1 << 14);
      options.hidden.assign(hidden.begin(), hidden.end());
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
  Eigen::MatrixXf weight;          ///< W, D x D
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

using ForwardPass = std::function<void(const ConstMatrixRef<float>&, MatrixRef<float>)>;

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
Replacement measure(std::string name, Index parameters, const ForwardPass& forward, double fit_seconds,
                    const Target& target, const Network& network, const std::vector<int>& labels) {
  Replacement result{.name = std::move(name), .parameters = parameters, .fit_seconds = fit_seconds};
  Eigen::MatrixXf y(target.test_y.rows(), target.test_y.cols());
  forward(target.test_x, y);
  result.error = (y - target.test_y).norm() / target.test_y.norm();
  const Eigen::MatrixXf logits = network.layer<Dense>(2).forward(y.cwiseMax(0.0f));
  result.accuracy = static_cast<double>(count_correct(logits, labels.data())) / static_cast<double>(y.cols());

  Eigen::MatrixXf out(y.rows(), 256);
  const auto batch = target.test_x.leftCols(256);
  result.batch_us = microseconds(256, [&] { forward(batch, out); });
  result.single_us = microseconds(1, [&] { forward(batch.col(0), out.col(0)); });
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

/// All that was fitted at one width of the network.
struct Study {
  Index hidden = 0;
  double dense_accuracy = 0, bias_alone = 0;
  std::vector<Replacement> rows;  ///< the dense matrix first; names begin with the kind of layer
};

/// The kinds of layers, by which the names of replacements begin.
constexpr const char* kinds[] = {"rotors", "low rank", "rotor encoder", "Kronecker", "block Hadamard"};

SvgPlot plot_of(const Study& study) {
  const auto side = static_cast<long>(study.hidden);
  SvgPlot plot(format("Layers fitted to a %ld × %ld matrix: what is left of the error", side, side),
               "Hidden layer of a Fashion-MNIST network, on test images. Lower and further left is better.");
  plot.x_axis("parameters (the dense matrix has " + with_commas(study.hidden * study.hidden) + ")");
  plot.log_x().y_axis("relative error of the output").y_range(0, 1.06 * study.bias_alone);
  plot.reference(study.bias_alone, "bias alone");
  for (const char* kind : kinds) {
    PlotSeries series{.name = kind};
    for (const Replacement& r : study.rows) {
      if (!r.name.starts_with(kind + std::string(", "))) continue;
      series.x.push_back(static_cast<double>(r.parameters));
      series.y.push_back(r.error);
    }
    if (!series.x.empty()) plot.series(series);
  }
  return plot;
}

/// Trains the network of one width and fits layers to its hidden matrix.
Study fit_layers(const Options& options, const FashionMnist& data, Index hidden) {
  const auto side = static_cast<long>(hidden);
  std::printf("\nA dense network, 784-%ld-%ld-10\n", side, side);
  const StageOptions relu{.normalize = false, .slope = 0};
  Network network(784);
  network.add(Dense(784, hidden, {.seed = options.seed}), relu)
      .add(Dense(hidden, hidden, {.seed = options.seed + 1}), relu)
      .add(Dense(hidden, 10, {.seed = options.seed + 2}), logits(1));
  train(network, data, options);

  std::printf("\nLayers fitted to its %ld x %ld matrix\n", side, side);
  const Target seen = observe(network, data);
  FitTarget target{
      .weight = seen.weight, .gram = seen.covariance, .mean_x = seen.mean_x, .mean_y = seen.mean_y};
  target.steps = options.steps;
  target.seed = options.seed;
  Study study{.hidden = hidden, .rows = {}};
  study.bias_alone = (seen.test_y.colwise() - seen.mean_y).norm() / seen.test_y.norm();
  const auto add = [&](const FittedLayer& layer) {
    study.rows.push_back(measure(layer.method + ", " + layer.shape, layer.parameters, layer.forward,
                                 layer.seconds, seen, network, data.test.labels));
  };
  const Dense& dense = network.layer<Dense>(1);
  Dense::Workspace workspace;
  study.rows.push_back(measure(
      "dense", dense.bias_offset(),
      [&](const ConstMatrixRef<float>& x, MatrixRef<float> y) { dense.forward(x, y, workspace); }, 0, seen,
      network, data.test.labels));
  study.dense_accuracy = study.rows.front().accuracy;

  for (const Index rank : {1, 2, 4, 8, 16}) add(fit_low_rank(target, rank));
  const Index one = rotorlin::KroneckerLinear<float>(hidden, hidden, {.bias = false}).num_parameters();
  for (const Index budget : {1, 2, 4, 8, 16}) {
    const Index terms = budget * 2 * hidden / one;  // beside the ranks
    if (terms >= 1) add(fit_kronecker(target, terms));
  }
  for (const Index rank : {2, 4, 8, 12}) add(fit_rotor_encoder(target, rank, 2));
  for (auto blocks = static_cast<Index>(std::bit_floor(static_cast<std::size_t>(hidden)));
       32 * blocks >= hidden; blocks /= 2)
    add(fit_block_hadamard(target, blocks));
  RotorLinear<float> last(2, 2);
  for (const Index width : options.widths) add(fit_rotors(target, width, &last));

  std::printf("\n%s\n", table_of(study.rows).text().c_str());
  std::printf(
      "parameters: without the %ld biases that every layer has; with the bias alone the error is %.3f\n",
      side, study.bias_alone);
  std::printf("relative error: |y' - y| / |y| over the test images, y = W x + b\n");
  std::printf("\nThe three largest rotation planes of the layer of width %ld, y = sum alpha r x s~\n\n%s\n",
              static_cast<long>(options.widths.back()), largest_planes(last, 3).text().c_str());
  return study;
}

/// The fewest parameters of a kind with which the network loses at most `points` percentage points, between
/// two sizes by interpolation in the logarithm; 0 where no size does.
double parameters_for(const Study& study, const std::string& kind, double points) {
  const double wanted = study.dense_accuracy - points / 100;
  double before = 0, before_accuracy = 0;
  for (const Replacement& r : study.rows) {
    if (!r.name.starts_with(kind + ", ")) continue;
    const auto now = static_cast<double>(r.parameters);
    if (r.accuracy >= wanted) {
      if (before == 0 || now <= before) return now;
      const double part = (wanted - before_accuracy) / (r.accuracy - before_accuracy);
      return std::exp(std::log(before) + part * (std::log(now) - std::log(before)));
    }
    before = now;
    before_accuracy = r.accuracy;
  }
  return 0;
}

/// "Parameters for an accuracy against width".
void compare_widths(const std::vector<Study>& studies, const std::filesystem::path& out) {
  constexpr double points = 5;
  Table table({{"D", "hidden"},
               {"dense\naccuracy", "dense_accuracy"},
               {"layer", "layer", true},
               {"parameters", "parameters"}});
  SvgPlot plot("Parameters that keep the network within 5 points of its accuracy",
               "In the place of the D × D matrix of a network 784-D-D-10 on Fashion-MNIST. Lower is better.");
  plot.x_axis("D").log_x().y_axis("parameters").log_y();
  for (const char* kind : kinds) {
    PlotSeries series{.name = kind};
    for (const Study& study : studies) {
      const double parameters = parameters_for(study, kind, points);
      table.add_row(
          {std::to_string(study.hidden),
           {format("%.2f %%", 100 * study.dense_accuracy), format("%.2f", 100 * study.dense_accuracy)},
           kind,
           {parameters == 0 ? "none fitted is enough" : with_commas(std::lround(parameters)),
            format("%.0f", parameters)}});
      if (parameters == 0) continue;
      series.x.push_back(static_cast<double>(study.hidden));
      series.y.push_back(parameters);
    }
    if (!series.x.empty()) plot.series(series);
  }
  std::printf("Parameters with which the network is within %.0f points of its accuracy\n\n%s\n", points,
              table.text().c_str());
  write_file(out / "fit_dense_layer_widths.csv", table.csv());
  plot.write(out / "fit_dense_layer_widths.svg");
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

  std::vector<Study> studies;
  for (const Index hidden : options.hidden) {
    studies.push_back(fit_layers(options, data, hidden));
    const std::string suffix = options.hidden.size() == 1 ? "" : "_" + std::to_string(hidden);
    const auto csv = options.out / ("fit_dense_layer" + suffix + ".csv");
    const auto svg = options.out / ("fit_dense_layer" + suffix + ".svg");
    write_file(csv, table_of(studies.back().rows).csv());
    plot_of(studies.back()).write(svg);
    std::printf("Written: %s, %s.  %s so far\n", csv.c_str(), svg.c_str(), duration(clock.seconds()).c_str());
  }
  if (studies.size() > 1) compare_widths(studies, options.out);
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] { run(parse(count, arguments)); });
}
