// SPDX-License-Identifier: MIT
// Networks of rotors trained from scratch on Fashion-MNIST, beside a dense network with a hundred times their
// parameters and low-rank networks with the same number.
//
// All see the same images (the mean image subtracted, one scale for all pixels) for the same number of
// epochs, with the same optimiser, schedule, batches and label smoothing (0.1). `rotor` and `lowrank` have
// the same stages, widths, normalisation and readout, and differ in what the matrices are made of; their
// first two layers are shared by overlapping windows of the image, as in `lowrank-25`, the best low-rank
// network that was found. The others read the image as a vector. Shapes and learning rates were chosen on the
// last 5,000 training images, held out (--validate); what is reported is training on all 60,000.

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/arguments.hpp"
#include "common/idx.hpp"
#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "fashion_mnist/network.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/training/schedule.hpp"

namespace {

using namespace examples;
using rotorlin::DenseLinear;
using rotorlin::Kernel;
using rotorlin::LowRankLinear;
using rotorlin::Random;
using rotorlin::RotorLinear;

struct Options {
  std::filesystem::path data = debian_fashion_mnist;
  std::filesystem::path out = "out";
  int epochs = 20;
  std::uint64_t seed = 1;
  Index images = 60000;
  bool validate = false;
  double rate = 1;
  std::vector<std::string> models = {};  ///< none: all
};

constexpr const char* usage =
    R"(Trains a dense, a rotor and a low-rank network on Fashion-MNIST.

fashion_mnist [--data FOLDER] [--out FOLDER] [--epochs N] [--seed N] [--models NAMES] [--rate FACTOR]
              [--validate] [--quick]

  --data      folder with the four files of Fashion-MNIST, .gz or unpacked (default: Debian's package)
  --out       where fashion_mnist.csv and .svg go (default: out)
  --epochs    passes over the training images (default: 20)
  --models    some of dense,rotor,lowrank,lowrank-25,rotor-plain,lowrank-plain,rotor-512 (default: all)
  --rate      factor on the learning rates (default: 1)
  --validate  train on 55,000 images and report the accuracy on the other 5,000 instead of the test images
  --quick     2 epochs of 6,000 images, for a first look
)";

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    const auto value = [&]() -> std::string {
      if (++i == count) throw std::invalid_argument(name + " needs a value\n\n" + usage);
      return arguments[i];
    };
    const auto number = [&](long low) {
      const std::string text = value();
      std::size_t used = 0;
      long result = low - 1;
      try {
        result = std::stol(text, &used);
      } catch (const std::exception&) {
      }
      if (used != text.size() || result < low || result > 1000000) {
        throw std::invalid_argument(name + ": '" + text + "' is not a whole number from " +
                                    std::to_string(low) + " to 1000000");
      }
      return result;
    };
    if (name == "--help" || name == "-h") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else if (name == "--data") {
      options.data = value();
    } else if (name == "--out") {
      options.out = value();
    } else if (name == "--epochs") {
      options.epochs = static_cast<int>(number(1));
    } else if (name == "--seed") {
      options.seed = static_cast<std::uint64_t>(number(0));
    } else if (name == "--models") {
      std::istringstream names(value());
      for (std::string model; std::getline(names, model, ',');) options.models.push_back(model);
    } else if (name == "--rate") {
      const std::string text = value();
      char* end = nullptr;
      options.rate = std::strtod(text.c_str(), &end);
      if (*end != '\0' || !(options.rate > 0 && options.rate <= 1000)) {
        throw std::invalid_argument(name + ": '" + text + "' is not a number above 0 and up to 1000");
      }
    } else if (name == "--validate") {
      options.validate = true;
    } else if (name == "--quick") {
      options.epochs = 2;
      options.images = 6000;
    } else {
      throw std::invalid_argument("unknown argument " + name + "\n\n" + usage);
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

struct Model {
  std::string name, description;
  Network network;
  double learning_rate;
};

/// The pixels of overlapping windows of 8 x 8, `step` pixels apart, window after window.
std::vector<Index> windows(Index step) {
  std::vector<Index> pixels;
  for (Index top = 0; top <= 20; top += step) {
    for (Index left = 0; left <= 20; left += step) {
      for (Index pixel = 0; pixel < 64; ++pixel) {
        pixels.push_back((top + pixel / 8) * 28 + left + pixel % 8);
      }
    }
  }
  return pixels;
}

/// The learning rates are those of angles; the readouts of rotor networks take smaller steps.
std::vector<Model> models(std::uint64_t seed) {
  const StageOptions hidden, readout = logits(0.1);
  const auto last = [&](Index in, bool bias = true) { return DenseLinear<float>(in, 10, bias, seed + 9); };
  std::vector<Model> result;
  const auto add = [&](const char* name, const char* description, double rate) -> Network& {
    result.push_back({name, description, Network(784), rate});
    result.back().network.smoothing = 0.1f;
    return result.back().network;
  };

  add("dense", "784-512-512-10", 1e-3)
      .add(DenseLinear<float>(784, 512, true, seed), hidden)
      .add(DenseLinear<float>(512, 512, true, seed + 1), hidden)
      .add(last(512), logits(1));
  // The layers on windows are shared by 36 of them: making their matrices once a step costs little.
  add("rotor", "36 windows: 64-64-16, 576-64", 0.03)
      .gather(windows(4))
      .add(RotorLinear<float>(64, 64, {.width = 32, .kernel = Kernel::dense, .seed = seed}), hidden)
      .add(RotorLinear<float>(64, 16, {.width = 16, .seed = seed + 1}), hidden)
      .add(RotorLinear<float>(576, 64, {.chunk = 16, .width = 2, .bias = false, .seed = seed + 2}), hidden)
      .add(last(64, false), logits(0.4));
  add("lowrank", "the same, ranks 10, 10 and 6", 0.01)
      .gather(windows(4))
      .add(LowRankLinear<float>(64, 64, 10, true, seed), hidden)
      .add(LowRankLinear<float>(64, 16, 10, true, seed + 1), hidden)
      .add(LowRankLinear<float>(576, 64, 6, false, seed + 2), hidden)
      .add(last(64, false), logits(1));
  add("lowrank-25", "25 windows: 64-64-16, 400-64", 0.02)
      .gather(windows(5))
      .add(LowRankLinear<float>(64, 64, 10, true, seed), hidden)
      .add(LowRankLinear<float>(64, 16, 10, true, seed + 1), hidden)
      .add(LowRankLinear<float>(400, 64, 8, false, seed + 2), hidden)
      .add(last(64, false), logits(1));
  add("rotor-plain", "784-512-64, chunks of 64", 0.02)
      .add(RotorLinear<float>(784, 512, {.chunk = 64, .seed = seed}), hidden)
      .add(RotorLinear<float>(512, 64, {.chunk = 64, .width = 8, .seed = seed + 1}), hidden)
      .add(last(64), readout);
  add("lowrank-plain", "784-64-64, ranks 6 and 5", 0.01)
      .add(LowRankLinear<float>(784, 64, 6, true, seed), hidden)
      .add(LowRankLinear<float>(64, 64, 5, true, seed + 1), hidden)
      .add(last(64), logits(1));
  auto& wide = add("rotor-512", "784-512-512-512-512, 10 rotors", 0.02);
  for (Index in : {784, 512, 512, 512}) {
    wide.add(RotorLinear<float>(in, 512, {.bias = false, .seed = ++seed}), hidden);
  }
  wide.add(last(512), readout);
  return result;
}

/// The models of these names, in the order of `all`; no names: all of them.
std::vector<Model*> selected(std::vector<Model>& all, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::none_of(all.begin(), all.end(), [&](const Model& model) { return model.name == name; })) {
      throw std::invalid_argument("--models: there is no '" + name + "'\n\n" + usage);
    }
  }
  std::vector<Model*> result;
  for (Model& model : all) {
    if (names.empty() || std::find(names.begin(), names.end(), model.name) != names.end()) {
      result.push_back(&model);
    }
  }
  return result;
}

struct Epoch {
  int number;
  double loss, train_accuracy, test_accuracy, seconds;
};

struct Run {
  std::string name, description;
  Index parameters;
  std::vector<Epoch> epochs;
  double images_a_second() const { return images / seconds(); }
  double seconds() const {
    double sum = 0;
    for (const Epoch& e : epochs) sum += e.seconds;
    return sum;
  }
  double images = 0;  ///< seen in training
};

Run train(Model& model, const FashionMnist& data, const Options& options) {
  constexpr Index batch = 128;
  const Index images = std::min(options.images, data.train.size()), steps = (images - 1) / batch + 1;
  const rotorlin::CosineSchedule schedule(options.rate * model.learning_rate, 0, options.epochs * steps);
  Random random(options.seed);
  std::vector<Index> order(static_cast<std::size_t>(images));
  std::iota(order.begin(), order.end(), Index{0});
  Eigen::MatrixXf x(model.network.in_features(), batch);
  std::vector<int> labels(static_cast<std::size_t>(batch));

  Run run{model.name, model.description, model.network.num_parameters(), {}};
  Progress progress("  " + model.name);
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const Stopwatch clock;
    random.shuffle(order);
    double loss = 0;
    Index correct = 0, done = 0;
    for (Index s = 0; s < steps; ++s) {
      const Index count = std::min(batch, images - s * batch);
      for (Index j = 0; j < count; ++j) {
        const Index image = order[static_cast<std::size_t>(s * batch + j)];
        x.col(j) = data.train.images.col(image);
        labels[static_cast<std::size_t>(j)] = data.train.labels[static_cast<std::size_t>(image)];
      }
      const double rate = schedule.rate((epoch - 1) * steps + s);
      const auto result = model.network.train_step(x.leftCols(count), labels.data(), rate);
      loss += result.cross_entropy * static_cast<double>(count);
      correct += result.correct;
      done += count;
      const double all = static_cast<double>(options.epochs) * static_cast<double>(images);
      progress.update(
          (static_cast<double>(epoch - 1) * static_cast<double>(images) + static_cast<double>(done)) / all,
          format("epoch %d  loss %.3f  accuracy %.2f %%  %.0f images/s", epoch,
                 loss / static_cast<double>(done),
                 100 * static_cast<double>(correct) / static_cast<double>(done),
                 static_cast<double>(done) / clock.seconds()));
    }
    const double seconds = clock.seconds();
    run.epochs.push_back({epoch, loss / static_cast<double>(images),
                          static_cast<double>(correct) / static_cast<double>(images),
                          model.network.accuracy(data.test), seconds});
    run.images += static_cast<double>(images);
  }
  progress.finish(format("loss %.3f  test accuracy %.2f %%  %.0f images/s", run.epochs.back().loss,
                         100 * run.epochs.back().test_accuracy, run.images_a_second()));
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
                   format("%.2f %%", 100 * last.test_accuracy),
                   format("%.1f", run.seconds() / static_cast<double>(run.epochs.size())),
                   with_commas(std::llround(run.images_a_second()))});
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
  if (options.validate) hold_out(data);
  standardize(data);
  std::printf("  %s training images, %s %s images, %d epochs\n\n",
              with_commas(std::min(options.images, data.train.size())).c_str(),
              with_commas(data.test.size()).c_str(), options.validate ? "held-out" : "test", options.epochs);

  std::vector<Model> all = models(options.seed);
  std::vector<Run> runs;
  for (Model* model : selected(all, options.models)) runs.push_back(train(*model, data, options));
  std::printf("\n%s\n", table_of(runs, all.front().network.num_parameters()).text().c_str());

  const auto csv = options.out / "fashion_mnist.csv", svg = options.out / "fashion_mnist.svg";
  write_file(csv, csv_of(runs).csv());
  plot_of(runs).write(svg);
  std::printf("Written: %s, %s.  %s in all\n", csv.c_str(), svg.c_str(), duration(clock.seconds()).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] { run(parse(count, arguments)); });
}
