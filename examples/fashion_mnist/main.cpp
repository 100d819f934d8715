// SPDX-License-Identifier: MIT
// Networks of rotors trained from scratch on Fashion-MNIST, beside a dense network with a hundred times their
// parameters and low-rank networks with the same number.
//
// All see the same images (the mean image subtracted, one scale for all pixels) for the same number of
// epochs, with the same optimiser, schedule, batches and label smoothing (0.1). `rotor` and `lowrank` have
// the same stages and widths and differ in what the large matrix is made of; `lowrank-best` is the best
// low-rank network that was found. The first layers of these are shared by overlapping windows of the image,
// as are those of `rotor-only`, which is made of rotors up to the readout. The others read the image as a
// vector. Shapes and learning rates were chosen on the last 5,000 training images, held out (--validate);
// what is reported is training on all 60,000.

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/arguments.hpp"
#include "common/idx.hpp"
#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "models.hpp"

namespace {

using namespace examples;

struct Options {
  std::filesystem::path data = debian_fashion_mnist;
  std::filesystem::path out = "out";
  int epochs = 40;
  std::uint64_t seed = 1;
  int seeds = 1;
  Index images = 60000;
  bool validate = false;
  double rate = 1;
  std::vector<std::string> models = {};  ///< none: all
};

constexpr const char* usage =
    R"(Trains a dense, a rotor and a low-rank network on Fashion-MNIST.

fashion_mnist [--data FOLDER] [--out FOLDER] [--epochs N] [--seed N] [--seeds N] [--models NAMES]
              [--rate FACTOR] [--validate] [--quick]

  --data      folder with the four files of Fashion-MNIST, .gz or unpacked (default: Debian's package)
  --out       where fashion_mnist.csv and .svg go (default: out)
  --epochs    passes over the training images (default: 40)
  --seed      of starts and orders (default: 1)
  --seeds     trains so many times, from --seed on, and reports means (default: 1)
  --models    some of dense,rotor,lowrank,lowrank-best,rotor-only,rotor-plain,lowrank-plain,rotor-512
              (default: all)
  --rate      factor on the learning rates (default: 1)
  --validate  train on 55,000 images and report the accuracy on the other 5,000 instead of the test images
  --quick     2 epochs of 6,000 images, for a first look
)";

bool known(const std::string& name) {
  const auto all = models(0);
  return std::any_of(all.begin(), all.end(), [&](const Model& model) { return model.name == name; });
}

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
    } else if (arguments.is("--seed")) {
      options.seed = static_cast<std::uint64_t>(arguments.number(0, many));
    } else if (arguments.is("--seeds")) {
      options.seeds = static_cast<int>(arguments.number(1, many));
    } else if (arguments.is("--models")) {
      options.models = arguments.list();
      for (const std::string& name : options.models) {
        if (!known(name)) arguments.fail("--models: there is no '" + name + "'");
      }
    } else if (arguments.is("--rate")) {
      options.rate = arguments.real(1e-6, 1000);
    } else if (arguments.is("--validate")) {
      options.validate = true;
    } else if (arguments.is("--quick")) {
      options.epochs = 2;
      options.images = 6000;
    } else {
      arguments.unknown();
    }
  }
  return options;
}

/// The last 5,000 images become the test images.
void hold_out(FashionMnist& data) {
  constexpr Index held = 5000;
  const Index rest = data.train.size() - held;
  data.test.images = data.train.images.rightCols(held).eval();
  data.test.labels.assign(data.train.labels.begin() + rest, data.train.labels.end());
  data.train.images = data.train.images.leftCols(rest).eval();
  data.train.labels.resize(static_cast<std::size_t>(rest));
}

/// Subtracts the mean training image and divides by the standard deviation over all pixels.
void standardize(FashionMnist& data) {
  const Eigen::VectorXf mean = data.train.images.rowwise().mean();
  data.train.images.colwise() -= mean;
  data.test.images.colwise() -= mean;
  const float deviation =
      std::sqrt(data.train.images.squaredNorm() / static_cast<float>(data.train.images.size()));
  data.train.images /= deviation;
  data.test.images /= deviation;
}

struct Epoch {
  int number;
  double loss = 0, train_accuracy = 0, test_accuracy = 0, seconds = 0;
};

/// Epochs and images a second are means over the seeds.
struct Run {
  std::string name, description;
  Index parameters;
  std::vector<Epoch> epochs;
  std::vector<double> accuracies;  ///< on the test images at the end, of each seed
  double images_a_second = 0;

  double seconds_an_epoch() const {
    double sum = 0;
    for (const Epoch& e : epochs) sum += e.seconds;
    return sum / static_cast<double>(epochs.size());
  }
  /// Of the accuracies, as of a sample.
  double deviation() const {
    double square = 0;
    for (const double accuracy : accuracies) square += std::pow(accuracy - epochs.back().test_accuracy, 2);
    return std::sqrt(square / static_cast<double>(accuracies.size() - 1));
  }
};

std::vector<Epoch> train(Model& model, const FashionMnist& data, const Options& options, std::uint64_t seed) {
  const Index images = std::min(options.images, data.train.size());
  Training training(model.network, data.train, images, options.epochs, options.rate * model.learning_rate,
                    seed);
  std::vector<Epoch> epochs;
  Progress progress("  " + model.name);
  for (int number = 1; number <= options.epochs; ++number) {
    const Training::Epoch epoch = training.epoch([&](const Training::Epoch& now) {
      const auto done = static_cast<double>(now.done);
      progress.update((number - 1 + done / static_cast<double>(images)) / options.epochs,
                      format("epoch %d  loss %.3f  accuracy %.2f %%  %.0f images/s", number, now.loss,
                             100 * now.accuracy, done / now.seconds));
    });
    epochs.push_back({number, epoch.loss, epoch.accuracy, model.network.accuracy(data.test), epoch.seconds});
  }
  progress.finish(
      format("loss %.3f  test accuracy %.2f %%", epochs.back().loss, 100 * epochs.back().test_accuracy));
  return epochs;
}

/// Trains the model once for every seed.
Run run_of(const std::string& name, const FashionMnist& data, const Options& options) {
  Run run;
  for (int k = 0; k < options.seeds; ++k) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(k);
    std::vector<Model> all = models(seed);
    Model& model = *std::find_if(all.begin(), all.end(), [&](const Model& m) { return m.name == name; });
    const std::vector<Epoch> epochs = train(model, data, options, seed);
    if (k == 0) {
      run = {name, model.description, model.network.num_parameters(), epochs, {}};
      for (Epoch& mean : run.epochs) mean = {mean.number};
    }
    for (std::size_t i = 0; i < epochs.size(); ++i) {
      Epoch& mean = run.epochs[i];
      mean.loss += epochs[i].loss / options.seeds;
      mean.train_accuracy += epochs[i].train_accuracy / options.seeds;
      mean.test_accuracy += epochs[i].test_accuracy / options.seeds;
      mean.seconds += epochs[i].seconds / options.seeds;
    }
    run.accuracies.push_back(epochs.back().test_accuracy);
  }
  run.images_a_second =
      static_cast<double>(std::min(options.images, data.train.size())) / run.seconds_an_epoch();
  return run;
}

Table table_of(const std::vector<Run>& runs, Index dense_parameters) {
  Table table({{"model", "", true},
               {"matrices", "", true},
               {"parameters", ""},
               {"of dense", ""},
               {"train\nloss", ""},
               {"train\naccuracy", ""},
               {"test\naccuracy", ""},
               {"seconds\nan epoch", ""},
               {"images/s", ""}});
  for (const Run& run : runs) {
    const Epoch& last = run.epochs.back();
    const double share = static_cast<double>(run.parameters) / static_cast<double>(dense_parameters);
    table.add_row({run.name, run.description, with_commas(run.parameters), format("%.2f %%", 100 * share),
                   format("%.3f", last.loss), format("%.2f %%", 100 * last.train_accuracy),
                   format("%.2f %%", 100 * last.test_accuracy) +
                       (run.accuracies.size() > 1 ? format(" ± %.2f", 100 * run.deviation()) : ""),
                   format("%.1f", run.seconds_an_epoch()), with_commas(std::llround(run.images_a_second))});
  }
  return table;
}

Table csv_of(const std::vector<Run>& runs) {
  Table table({{"", "model"},
               {"", "parameters"},
               {"", "epoch"},
               {"", "train_loss"},
               {"", "test_accuracy"},
               {"", "seconds"}});
  for (const Run& run : runs) {
    for (const Epoch& e : run.epochs) {
      table.add_row({run.name, std::to_string(run.parameters), std::to_string(e.number),
                     format("%.6f", e.loss), format("%.2f", 100 * e.test_accuracy),
                     format("%.3f", e.seconds)});
    }
  }
  return table;
}

SvgPlot plot_of(const std::vector<Run>& runs) {
  SvgPlot plot("Fashion-MNIST, trained from scratch",
               "Accuracy after each epoch, on the test images. Dashed: rotors of Pence et al., 88.36 %.");
  plot.x_axis("epoch").y_axis("test accuracy, %").y_range(80, 91).reference(88.36, "");
  for (const Run& run : runs) {
    PlotSeries series{.name = run.name + ", " + with_commas(run.parameters)};
    for (const Epoch& e : run.epochs) {
      series.x.push_back(e.number);
      series.y.push_back(100 * e.test_accuracy);
    }
    plot.series(std::move(series));
  }
  return plot;
}

void run(const Options& options) {
  const Stopwatch clock;
  std::printf("Fashion-MNIST from %s\n", options.data.c_str());
  FashionMnist data = read_fashion_mnist(options.data);
  prepare_folder(options.out, files_in(options.data));
  if (options.validate) hold_out(data);
  standardize(data);
  std::printf("  %s training images, %s %s images, %d epochs\n\n",
              with_commas(std::min(options.images, data.train.size())).c_str(),
              with_commas(data.test.size()).c_str(), options.validate ? "held-out" : "test", options.epochs);

  std::vector<Run> runs;
  Index dense_parameters = 0;
  for (const Model& model : models(options.seed)) {
    if (model.name == "dense") dense_parameters = model.network.num_parameters();
    const auto& wanted = options.models;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), model.name) != wanted.end()) {
      runs.push_back(run_of(model.name, data, options));
    }
  }
  std::printf("\n%s\n", table_of(runs, dense_parameters).text().c_str());

  const auto csv = options.out / "fashion_mnist.csv", svg = options.out / "fashion_mnist.svg";
  write_file(csv, csv_of(runs).csv());
  plot_of(runs).write(svg);
  std::printf("Written: %s, %s.  %s in all\n", csv.c_str(), svg.c_str(), duration(clock.seconds()).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] { run(parse(count, arguments)); });
}
