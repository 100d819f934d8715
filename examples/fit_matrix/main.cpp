// SPDX-License-Identifier: MIT
// Layers of few parameters for a matrix of your own: which kind keeps most of it?
//
// Every kind of layer is fitted at every budget of parameters to the same thing, W in the metric of the
// inputs that it meets: tr((W - M) G (W - M)^T) is the squared error of the output for inputs of second
// moment G. The best of each budget is saved.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/arguments.hpp"
#include "common/matrix_fits.hpp"
#include "common/output.hpp"
#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "rotorlin/io/npy.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/training/detail/gram_samples.hpp"

namespace {

using namespace examples;

struct Options {
  std::filesystem::path weight, activations, gram, out = "out";
  std::string tensor;
  bool transposed = false, network = true;
  std::vector<Index> budgets;
  Index steps = 400;
  std::uint64_t seed = 1;
};

constexpr const char* usage =
    R"(Fits small layers of every kind to a matrix of your own and says which keeps most of it.

fit_matrix W.npy|W.safetensors [--tensor NAME] [--transposed] [--activations X | --gram G]
           [--budgets N,N,...] [--steps N] [--no-network] [--out FOLDER] [--seed N]

  W              the matrix, out x in as in y = W x (PyTorch's nn.Linear), in .npy or safetensors
  --tensor       its name in a safetensors file
  --transposed   the file holds in x out (Keras, GPT-2's Conv1D)
  --activations  inputs that the layer meets, samples x in, in .npy (of more dimensions the last
                 are the features: batch x sequence x in) or safetensors (its one tensor);
                 every fifth sample is held back, and the table has the error on these too
  --gram         their second moments E[x x^T] instead, in x in; without either all inputs count alike
  --budgets      numbers of parameters to fit to (default: 1/256, 1/64 and 1/16 of the matrix's)
  --steps        of Adam for each fit that has no closed form (default: 400)
  --no-network   leave out the rotor network, which takes longest
  --out          where fit_matrix.csv, .svg and the best layer of each budget go (default: out)
  --seed         of starts (default: 1)
)";

Options parse(int count, char** values) {
  Options options;
  Arguments arguments(count, values, usage);
  constexpr long many = 1000000000;
  while (arguments.next()) {
    if (arguments.is("--tensor")) {
      options.tensor = arguments.value();
    } else if (arguments.is("--transposed")) {
      options.transposed = true;
    } else if (arguments.is("--no-network")) {
      options.network = false;
    } else if (arguments.is("--activations")) {
      options.activations = arguments.value();
    } else if (arguments.is("--gram")) {
      options.gram = arguments.value();
    } else if (arguments.is("--out")) {
      options.out = arguments.value();
    } else if (arguments.is("--budgets")) {
      for (const long budget : arguments.numbers(1, many)) options.budgets.push_back(budget);
      std::sort(options.budgets.begin(), options.budgets.end());
    } else if (arguments.is("--steps")) {
      options.steps = arguments.number(1, many);
    } else if (arguments.is("--seed")) {
      options.seed = static_cast<std::uint64_t>(arguments.number(0, many));
    } else if (!arguments.is_option() && options.weight.empty()) {
      options.weight = arguments.name();
    } else {
      arguments.unknown();
    }
  }
  if (options.weight.empty()) arguments.fail("no matrix is given");
  if (!options.activations.empty() && !options.gram.empty())
    arguments.fail("--activations and --gram say the same thing, give one");
  return options;
}

/// A matrix of an .npy file, or a tensor of two dimensions of a safetensors file: the one of that name, or
/// the only one where the name is empty. An .npy array of more dimensions is taken as `samples`: the last
/// dimension are the features, all before it count samples.
Matrix<double> read_matrix(const std::filesystem::path& path, const std::string& tensor, bool samples) {
  Matrix<double> matrix;
  if (path.extension() == ".npy") {
    if (!samples && !tensor.empty())
      throw std::runtime_error(path.string() + " holds one array without a name, leave out --tensor");
    const rotorlin::NpyFile file(path);
    if (samples && file.shape().size() > 2) {
      matrix = file.batch<double>(0, file.samples()).transpose();
    } else {
      matrix = file.matrix<double>();
    }
  } else if (path.extension() == ".safetensors") {
    const rotorlin::SafetensorsFile file(path);
    std::string name = tensor, all;
    for (const auto& info : file.tensors()) all += (all.empty() ? "" : ", ") + info.name;
    if (all.size() > 400) all = all.substr(0, 400) + " ...";
    if (name.empty() && file.tensors().size() == 1) name = file.tensors().front().name;
    if (name.empty() && samples)
      throw std::runtime_error(path.string() + " holds " + all + "; expected a file of one tensor, or .npy");
    if (name.empty() || !file.contains(name)) {
      throw std::runtime_error(path.string() +
                               (name.empty() ? " holds several tensors" : " has no '" + name + "'") +
                               "; give --tensor one of: " + all);
    }
    matrix = file.matrix<double>(name);
  } else {
    throw std::runtime_error(path.string() + ": expected a name that ends in .npy or .safetensors");
  }
  if (matrix.size() == 0) throw std::runtime_error(path.string() + " holds no numbers");
  if (!rotorlin::detail::all_finite(matrix))
    throw std::runtime_error(path.string() + " has NaN or infinite entries");
  return matrix;
}

/// What is fitted, and samples to judge by: those held back of the activations, else columns of a factor of
/// the Gram matrix's.
struct Problem {
  FitTarget target;
  Matrix<float> train, held_back;  ///< in x samples; held_back may be empty
  std::string metric;
};

Problem read_problem(const Options& options) {
  Problem problem;
  Matrix<double> weight = read_matrix(options.weight, options.tensor, false);
  if (options.transposed) weight.transposeInPlace();
  const Index in = weight.cols();
  if (weight.isZero(0)) throw std::runtime_error(options.weight.string() + " is zero everywhere");
  if (in < 2 || weight.rows() < 2)
    throw std::runtime_error(options.weight.string() + " is " + rotorlin::detail::shape(weight) +
                             ", expected a matrix of at least 2 x 2");
  FitTarget& target = problem.target;
  target.weight = weight.cast<float>();
  target.steps = options.steps;
  target.seed = options.seed;
  const auto must_fit = [&](const std::filesystem::path& path, const Matrix<double>& m, bool square) {
    if (m.cols() == in && (!square || m.rows() == in)) return;
    throw std::runtime_error(
        path.string() + " is " + rotorlin::detail::shape(m) + ", expected " +
        (square ? std::to_string(in) : "samples") + " x " + std::to_string(in) + ": W is " +
        rotorlin::detail::shape(weight) + ", out x in; " +
        (options.transposed ? "is --transposed right?" : "is the file --transposed, or another layer's?"));
  };
  if (!options.activations.empty()) {
    const Matrix<double> x = read_matrix(options.activations, "", true);
    must_fit(options.activations, x, false);
    const Index every = x.rows() < 10 ? x.rows() + 1 : 5, held = x.rows() / every;
    problem.train.resize(in, x.rows() - held);
    problem.held_back.resize(in, held);
    for (Index i = 0, t = 0, h = 0; i < x.rows(); ++i) {
      auto column = (i + 1) % every == 0 ? problem.held_back.col(h++) : problem.train.col(t++);
      column = x.row(i).transpose().cast<float>();
    }
    const Matrix<double> seen = problem.train.cast<double>();
    target.gram = seen * seen.transpose() / static_cast<double>(seen.cols());
    problem.metric = "inputs of " + options.activations.filename().string();
  } else if (!options.gram.empty()) {
    target.gram = read_matrix(options.gram, "", true);
    must_fit(options.gram, target.gram, true);
    try {
      rotorlin::detail::gram_columns(target.gram, "fit_matrix", 1e-7);
    } catch (const std::exception& error) {
      throw std::runtime_error(options.gram.string() + " is no second moment E[x x^T]: " + error.what());
    }
    problem.metric = "inputs of second moment " + options.gram.filename().string();
  } else {
    target.gram = Matrix<double>::Identity(in, in);
    problem.metric = "all inputs alike";
  }
  return problem;
}

/// Rotors with permutations, normalisation and activations between them. Not linear: fitted to samples,
/// random ones of the second moment where there are no activations.
FittedLayer fit_network(const Problem& problem, Index width, Index depth) {
  const FitTarget& target = problem.target;
  FittedLayer result{
      .method = "rotor network",
      .shape = format("width %ld, depth %ld", static_cast<long>(width), static_cast<long>(depth))};
  Progress progress("  " + result.method + ", " + result.shape);
  Matrix<float> x = problem.train;
  if (x.size() == 0) {
    const Matrix<double> factor = rotorlin::detail::gram_columns(target.gram, "fit_matrix", 1e-12);
    Matrix<double> z(factor.cols(), 4096);
    rotorlin::Random random(target.seed);
    for (Index j = 0; j < z.cols(); ++j) {
      for (Index i = 0; i < z.rows(); ++i) z(i, j) = random.normal();
    }
    x = (factor * z).cast<float>();
  }
  const Matrix<float> y = target.weight * x;
  const auto layer = std::make_shared<rotorlin::RotorNetwork<float>>(
      target.in(), target.out(),
      rotorlin::RotorNetworkOptions{.depth = depth, .width = width, .seed = target.seed});
  rotorlin::FitOptions fitting;
  const Index batches = (x.cols() - 1) / fitting.batch_size + 1;
  fitting.epochs = std::max<Index>(1, 2 * target.steps / batches);
  fitting.learning_rate = 0.02;
  fitting.seed = target.seed;
  fitting.progress = [&](const rotorlin::FitProgress& p) {
    progress.update(static_cast<double>(p.step) / static_cast<double>(p.steps), "");
    return true;
  };
  result.error = rotorlin::fit(*layer, x, y, fitting).relative_error;
  result.seconds = progress.seconds();
  result.parameters = layer->num_parameters();
  const auto workspace = std::make_shared<rotorlin::RotorNetwork<float>::Workspace>();
  result.forward = [layer, workspace](const ConstMatrixRef<float>& in, MatrixRef<float> out) {
    layer->forward(in, out, *workspace);
  };
  result.save = [layer](const std::filesystem::path& path) { rotorlin::save(*layer, path); };
  progress.finish(format("error %.3f", result.error));
  return result;
}

/// The layers of at most `budget` parameters, one of each kind that has one so small.
std::vector<FittedLayer> fit_budget(const Problem& problem, Index budget, bool network) {
  const FitTarget& target = problem.target;
  const Index in = target.in(), out = target.out(), most_rank = std::min(in, out);
  std::vector<FittedLayer> results;
  if (const Index rank = std::min(most_rank, budget / (in + out)); rank >= 1)
    results.push_back(fit_low_rank(target, rank));

  const Index pair = rotorlin::RotorLinear<float>(in, out, {.bias = false}).num_parameters();
  if (budget >= pair) results.push_back(fit_rotors(target, budget / pair));

  // About a quarter of the parameters serves the rotors of an encoder best.
  if (const Index rank = std::min(most_rank, (3 * budget / 4) / out); rank >= 1) {
    const Index one =
        rotorlin::RotorEncoderLinear<float>(in, out, {.rank = rank, .bias = false}).num_parameters() -
        rank * out;
    if (const Index width = (budget - rank * out) / one; width >= 1)
      results.push_back(fit_rotor_encoder(target, rank, width));
  }

  const Index product = rotorlin::KroneckerLinear<float>(in, out, {.bias = false}).num_parameters();
  if (budget >= product) results.push_back(fit_kronecker(target, budget / product));

  Index blocks = 1, padded = 1;
  while (padded < in) padded *= 2;
  while (blocks < std::min(padded, out) && out * (padded / blocks) > budget) blocks *= 2;
  if (blocks <= std::min(padded, out) && out * (padded / blocks) <= budget)
    results.push_back(fit_block_hadamard(target, blocks));

  if (network) {
    const auto parameters = [&](Index width) {
      return rotorlin::RotorNetwork<float>(in, out, {.depth = 1, .width = width}).num_parameters();
    };
    if (parameters(1) <= budget) {
      const Index more = parameters(2) - parameters(1);
      results.push_back(fit_network(problem, 1 + (budget - parameters(1)) / more, 1));
    }
  }
  return results;
}

/// Microseconds a sample of a forward pass, alternating with the dense matrix: the fastest of several rounds.
struct Times {
  double batch = 1e300, single = 1e300, dense_batch = 1e300, dense_single = 1e300;
};
Times time_forward(const FittedLayer& layer, const Matrix<float>& weight) {
  constexpr Index batch = 256;
  Matrix<float> x(weight.cols(), batch), y(weight.rows(), batch);
  rotorlin::Random(1).fill_uniform(x, -1, 1);
  Times times;
  const auto measure = [](double& best, Index samples, const auto& run) {
    const Stopwatch round;
    Index repetitions = 0;
    do {
      run();
      ++repetitions;
    } while (round.seconds() < 0.003);
    best = std::min(best, 1e6 * round.seconds() / static_cast<double>(repetitions * samples));
  };
  for (int round = 0; round < 7; ++round) {
    measure(times.batch, batch, [&] { layer.forward(x, y); });
    measure(times.dense_batch, batch, [&] { y.noalias() = weight * x; });
    measure(times.single, 1, [&] { layer.forward(x.col(0), y.col(0)); });
    measure(times.dense_single, 1, [&] { y.col(0).noalias() = weight * x.col(0); });
  }
  return times;
}

struct Row {
  Index budget;
  FittedLayer layer;
  double held_back = -1;  ///< error on samples that were held back
  Times times = {};
  double judged() const { return held_back >= 0 ? held_back : layer.error; }
};

Table table_of(const std::vector<Row>& rows, bool held_back) {
  std::vector<Table::Column> columns = {{"budget", "budget"},
                                        {"layer", "layer", true},
                                        {"shape", "shape", true},
                                        {"parameters", "parameters"},
                                        {"relative\nerror", "relative_error"}};
  if (held_back) columns.push_back({"held\nback", "relative_error_held_back"});
  columns.push_back({"dense time over ours\nbatch 256", "speedup_batch256"});
  columns.push_back({"alone", "speedup_batch1"});
  columns.push_back({"fit", "fit_seconds"});
  Table table(columns);
  for (const Row& row : rows) {
    std::vector<Table::Cell> cells = {
        {with_commas(row.budget), std::to_string(row.budget)},
        row.layer.method,
        row.layer.shape,
        {with_commas(row.layer.parameters), std::to_string(row.layer.parameters)},
        {format("%.4f", row.layer.error), format("%.9g", row.layer.error)}};
    if (held_back) cells.push_back({format("%.4f", row.held_back), format("%.9g", row.held_back)});
    const double batch = row.times.dense_batch / row.times.batch;
    const double single = row.times.dense_single / row.times.single;
    cells.push_back({format("%.2f", batch), format("%.4g", batch)});
    cells.push_back({format("%.2f", single), format("%.4g", single)});
    cells.push_back({format("%.1f s", row.layer.seconds), format("%.3f", row.layer.seconds)});
    table.add_row(std::move(cells));
  }
  return table;
}

SvgPlot plot_of(const std::vector<Row>& rows, const FitTarget& target, const std::string& metric) {
  SvgPlot plot(format("Layers fitted to a %ld × %ld matrix", static_cast<long>(target.out()),
                      static_cast<long>(target.in())),
               "In the metric of " + metric + ". Lower and further left is better.");
  plot.x_axis("parameters").log_x().y_axis("relative error of the output").y_range(0, 1);
  for (const char* method :
       {"low rank", "rotors", "rotor encoder", "Kronecker", "block Hadamard", "rotor network"}) {
    PlotSeries series{.name = method};
    for (const Row& row : rows) {
      if (row.layer.method != method) continue;
      series.x.push_back(static_cast<double>(row.layer.parameters));
      series.y.push_back(row.judged());
    }
    if (!series.x.empty()) plot.series(series);
  }
  return plot;
}

const Row& best_of(const std::vector<Row>& rows, Index budget, bool low_rank_alone) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (row.budget != budget || (low_rank_alone && row.layer.method != "low rank")) continue;
    if (best == nullptr || row.judged() < best->judged()) best = &row;
  }
  if (best == nullptr) throw std::logic_error("no such row");
  return *best;
}

/// What a user should take from the table, a line for each budget.
void recommend(const std::vector<Row>& rows, const std::vector<Index>& budgets) {
  std::puts("Which to take:");
  for (const Index budget : budgets) {
    const auto in_budget = [&](const Row& row) { return row.budget == budget; };
    const auto low = [&](const Row& row) { return in_budget(row) && row.layer.method == "low rank"; };
    if (std::none_of(rows.begin(), rows.end(), in_budget)) {
      std::printf("  %s parameters: no layer of any kind is so small\n", with_commas(budget).c_str());
      continue;
    }
    const Row& best = best_of(rows, budget, false);
    const bool has_low = std::any_of(rows.begin(), rows.end(), low);
    std::string text = best.layer.method + " (" + best.layer.shape + format("), error %.3f", best.judged());
    if (best.judged() > 0.95) {
      text = "nothing keeps much: the best is " + text;
    } else if (best.layer.method == "low rank") {
      text = "low rank is better here: " + text;
    } else if (!has_low) {
      text += "; low rank needs more parameters than that";
    } else {
      const double other = best_of(rows, budget, true).judged();
      text += format("; low rank %.3f%s", other,
                     other - best.judged() < 0.01 ? ": about even, and low rank is the faster" : "");
    }
    std::printf("  %s parameters: %s\n", with_commas(budget).c_str(), text.c_str());
  }
  std::puts(
      "At equal time low rank wins as a rule: it takes two operations a parameter and sample, the others "
      "many.");
}

void run(const Options& options) {
  const Stopwatch clock;
  const std::vector<std::filesystem::path> inputs = {options.weight, options.activations, options.gram};
  prepare_folder(options.out, inputs);
  const Problem problem = read_problem(options);
  const FitTarget& target = problem.target;
  const Index dense = target.weight.size();
  std::printf("W is %ld x %ld, %s parameters; in the metric of %s\n", static_cast<long>(target.out()),
              static_cast<long>(target.in()), with_commas(dense).c_str(), problem.metric.c_str());
  std::vector<Index> budgets = options.budgets;
  if (budgets.empty()) {
    for (const Index part : {256, 64, 16}) budgets.push_back(std::max<Index>(1, dense / part));
  }
  const auto file_of = [&](Index budget) {
    return options.out / ("fit_matrix_" + std::to_string(budget) + ".safetensors");
  };
  for (const Index budget : budgets) output_file(file_of(budget), inputs);

  std::vector<Row> rows;
  for (const Index budget : budgets) {
    std::printf("\nUp to %s parameters\n", with_commas(budget).c_str());
    for (FittedLayer& layer : fit_budget(problem, budget, options.network)) {
      Row row{.budget = budget, .layer = std::move(layer)};
      row.times = time_forward(row.layer, target.weight);
      if (problem.held_back.cols() > 0) {
        const Matrix<float> y = target.weight * problem.held_back;
        Matrix<float> ours(y.rows(), y.cols());
        row.layer.forward(problem.held_back, ours);
        row.held_back = (ours - y).norm() / std::max(y.norm(), 1e-30f);
      }
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty())
    throw std::runtime_error("no layer of any kind is as small as the largest budget, " +
                             std::to_string(budgets.back()) + "; give larger --budgets");
  const Table table = table_of(rows, problem.held_back.cols() > 0);
  std::printf("\n%s\n", table.text().c_str());
  recommend(rows, budgets);

  const auto csv = options.out / "fit_matrix.csv", svg = options.out / "fit_matrix.svg";
  write_file(csv, table.csv());
  plot_of(rows, target, problem.metric).write(svg);
  std::printf("\nWritten: %s, %s", csv.c_str(), svg.c_str());
  for (const Index budget : budgets) {
    if (std::none_of(rows.begin(), rows.end(), [&](const Row& row) { return row.budget == budget; }))
      continue;
    best_of(rows, budget, false).layer.save(file_of(budget));
    std::printf(", %s", file_of(budget).c_str());
  }
  std::printf(" (the best layer of each budget).  %s in all\n", duration(clock.seconds()).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] { run(parse(count, arguments)); });
}
