// SPDX-License-Identifier: MIT
#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "experiments.hpp"

namespace examples {

namespace {

constexpr std::array<Projection, 3> replaced_projections = {Projection::q, Projection::k, Projection::v};

using Tuple = std::vector<Index>;  // layers, ascending

/// All tuples of up to `most` layers, or a sample of `count` of each length.
std::set<Tuple> choose_tuples(Index layers, Index most, Index count, std::uint64_t seed) {
  std::set<Tuple> chosen;
  std::vector<Tuple> of_length = {{}};
  rotorlin::Random random(seed);
  for (Index length = 1; length <= std::min(most, layers); ++length) {
    std::vector<Tuple> longer;
    for (const Tuple& tuple : of_length) {
      for (Index l = tuple.empty() ? 0 : tuple.back() + 1; l < layers; ++l) {
        longer.push_back(tuple);
        longer.back().push_back(l);
      }
    }
    of_length = longer;
    random.shuffle(longer);
    if (count > 0 && count < static_cast<Index>(longer.size()))
      longer.resize(static_cast<std::size_t>(count));
    chosen.insert(longer.begin(), longer.end());
  }
  return chosen;
}

struct Column {
  std::vector<double> losses;  // of each tuple

  double mean() const {
    double sum = 0;
    for (const double loss : losses) sum += loss;
    return sum / static_cast<double>(losses.size());
  }
  /// Over all tuples, or estimated from a sample: both with the divisor N.
  double deviation() const {
    double sum = 0;
    for (const double loss : losses) sum += (loss - mean()) * (loss - mean());
    return std::sqrt(sum / static_cast<double>(losses.size()));
  }
};

struct MethodResult {
  std::string name;
  std::array<Index, 3> parameters = {};
  double error = 0;                 // mean relative error of q, k and v where one layer is replaced
  std::map<Index, Column> columns;  // by the number of layers replaced
};

/// The output projection that gives from the new outputs of the heads what the old one gave from the old:
/// least squares, held to the old weights where the new outputs say nothing.
void retrain_output(Llama& model, Index l, const Matrix<float>& wanted, const Calibration& calibration) {
  const Matrix<float> x = calibration.training.inputs(model, l, Projection::o);
  const Matrix<double> weight = model.weight(Projection::o, l).cast<double>();
  Matrix<double> gram = (x * x.transpose()).cast<double>();
  const double ridge = 1e-3 * gram.trace() / static_cast<double>(gram.rows());
  const Matrix<double> cross = weight * (wanted * x.transpose()).cast<double>() + ridge * weight;
  gram.diagonal().array() += ridge;
  const Matrix<float> trained = gram.ldlt().solve(cross.transpose()).transpose().cast<float>();
  model.replace(l, Projection::o, [trained](const ConstMatrixRef<float>& in, MatrixRef<float> out) {
    out.noalias() = trained * in;
  });
}

struct LayerFit {
  std::array<Index, 3> parameters;
  std::array<double, 3> errors;  // relative, on the validation samples
};

/// Fits q, k and v of a layer where it stands, in front of it the activations of `calibration`.
LayerFit replace_layer(Llama& model, Index l, const Calibration& calibration, const Method& method,
                       FitBudget budget, bool retrain) {
  LayerFit result{};
  const Samples samples = calibration.samples(model, l, Projection::q);  // k and v read the same
  Matrix<float> wanted;
  if (retrain) wanted = calibration.training.inputs(model, l, Projection::o);
  const std::uint64_t seed = budget.seed * 1000 + static_cast<std::uint64_t>(l) * 10;
  for (std::size_t i = 0; i < replaced_projections.size(); ++i) {
    const Projection p = replaced_projections[i];
    const Matrix<float>& weight = model.weight(p, l);
    budget.seed = seed + i;
    const Replacement fitted = method.fit(samples, weight, budget);
    result.parameters[i] = fitted.parameters;
    result.errors[i] = relative_error(fitted.map, weight, samples.x_validation);
    model.replace(l, p, fitted.map);
  }
  if (retrain) retrain_output(model, l, wanted, calibration);
  return result;
}

/// Walks through the layers once and branches wherever one is replaced, so that what tuples have in common is
/// computed once: activations up to the last replaced layer, and the fits there.
class Walk {
 public:
  Walk(const Setup& setup, const ReplacementOptions& options, const std::set<Tuple>& tuples,
       const Method& method)
      : setup_(setup),
        options_(options),
        tuples_(tuples),
        method_(method),
        model_(setup.model),
        progress_(format("%-13s", method.name.c_str())) {
    for (const Tuple& tuple : tuples) {
      for (auto end = tuple.begin(); end != tuple.end();) prefixes_.insert(Tuple(tuple.begin(), ++end));
    }
    result_.name = method.name;
  }

  MethodResult run() {
    Calibration calibration(setup_);
    const Windows windows(model_, setup_.evaluation, setup_.windows);
    Stream evaluation(model_, setup_.evaluation, setup_.windows);
    explore({}, 0, calibration, evaluation, windows);
    result_.error /= static_cast<double>(errors_);
    std::string note;
    for (const auto& [layers, column] : result_.columns) note += format("  %.3f", column.mean());
    progress_.finish("log-perplexity" + note + " ");
    return std::move(result_);
  }

 private:
  /// The tuples that begin with `tuple`; the activations are those in front of layer `next`.
  void explore(const Tuple& tuple, Index next, Calibration calibration, Stream evaluation,
               const Windows& windows) {
    const Index layers = model_.config().layers;
    for (Index l = next; l < layers; ++l) {
      Tuple longer = tuple;
      longer.push_back(l);
      if (prefixes_.contains(longer)) {
        replace(longer, calibration);
        Calibration replaced_calibration = calibration;
        Stream replaced_evaluation = evaluation;
        if (branches_behind(longer, l)) replaced_calibration.advance(model_, l);
        replaced_evaluation.advance(model_, l);
        explore(longer, l + 1, std::move(replaced_calibration), std::move(replaced_evaluation), windows);
        restore(l);
      }
      if (branches_behind(tuple, l)) calibration.advance(model_, l);
      evaluation.advance(model_, l);
    }
    if (!tuples_.contains(tuple)) return;
    double sum = 0;
    for (Index j = 0; j < windows.count(); ++j)
      sum += negative_log_likelihood(model_.classify(evaluation.window(j)), windows.targets(j));
    const double loss = sum / static_cast<double>(windows.predictions());
    result_.columns[static_cast<Index>(tuple.size())].losses.push_back(loss);
  }

  /// Whether the tuple is prolonged by a layer behind l, where samples are needed then.
  bool branches_behind(Tuple tuple, Index l) const {
    tuple.push_back(l);
    while (++tuple.back() < model_.config().layers) {
      if (prefixes_.contains(tuple)) return true;
    }
    return false;
  }

  /// Fits the projections of the tuple's last layer.
  void replace(const Tuple& tuple, const Calibration& calibration) {
    const LayerFit fitted =
        replace_layer(model_, tuple.back(), calibration, method_, setup_.budget, options_.retrain_output);
    result_.parameters = fitted.parameters;
    if (tuple.size() == 1) {
      for (const double error : fitted.errors) result_.error += error;
      errors_ += fitted.errors.size();
    }
    ++done_;
    progress_.update(static_cast<double>(done_) / static_cast<double>(prefixes_.size()),
                     format("%zu of %zu sets of layers", done_, prefixes_.size()));
  }

  void restore(Index l) {
    for (const Projection p : replaced_projections) model_.restore(l, p);
    model_.restore(l, Projection::o);
  }

  const Setup& setup_;
  const ReplacementOptions& options_;
  const std::set<Tuple>& tuples_;
  const Method& method_;
  Llama model_;
  Progress progress_;
  std::set<Tuple> prefixes_;
  MethodResult result_;
  std::size_t done_ = 0, errors_ = 0;
};

double compression(const MethodResult& dense, const MethodResult& r) {
  const auto sum = [](const std::array<Index, 3>& p) { return static_cast<double>(p[0] + p[1] + p[2]); };
  return sum(dense.parameters) / sum(r.parameters);
}

Table table_of(const std::vector<MethodResult>& results, Index most) {
  std::vector<Table::Column> columns = {{"method", "", true}, {"params\nq", ""},    {"\nk", ""},
                                        {"\nv", ""},          {"times\nfewer", ""}, {"relative\nerror", ""}};
  for (Index n = 1; n <= most; ++n)
    columns.push_back({format("log-ppl\n%ld layer%s", static_cast<long>(n), n > 1 ? "s" : ""), ""});
  Table table(columns);
  for (const MethodResult& r : results) {
    const bool original = &r == &results.front();
    std::vector<Table::Cell> row = {r.name};
    for (const Index count : r.parameters) row.push_back(with_commas(count));
    row.push_back(format("%.0f×", compression(results.front(), r)));
    row.push_back(original ? std::string("0") : format("%.3f", r.error));
    for (Index n = 1; n <= most; ++n) {
      row.push_back(original ? format("%.3f        ", r.columns.at(0).mean())
                             : format("%.3f ± %.3f", r.columns.at(n).mean(), r.columns.at(n).deviation()));
    }
    table.add_row(row);
  }
  return table;
}

std::string csv_of(const std::string& model, const std::vector<MethodResult>& results) {
  Table table({{"", "model"},
               {"", "method"},
               {"", "layers_replaced"},
               {"", "tuples"},
               {"", "log_ppl_mean"},
               {"", "log_ppl_std"},
               {"", "parameters_q"},
               {"", "parameters_k"},
               {"", "parameters_v"}});
  for (const MethodResult& r : results) {
    for (const auto& [layers, column] : r.columns) {
      table.add_row({model, r.name, std::to_string(layers), std::to_string(column.losses.size()),
                     format("%.6f", column.mean()), format("%.6f", column.deviation()),
                     std::to_string(r.parameters[0]), std::to_string(r.parameters[1]),
                     std::to_string(r.parameters[2])});
    }
  }
  return table.csv();
}

SvgPlot plot_of(const std::string& model, const std::vector<MethodResult>& results) {
  SvgPlot plot(
      "Query, key and value projections replaced in " + model,
      "Log-perplexity on held-out text, mean and standard deviation over sets of layers. Lower is better.");
  plot.x_axis("layers replaced").whole_x().y_axis("log-perplexity (nats)");
  const auto most = static_cast<double>(results.back().columns.rbegin()->first);
  plot.x_range(0.7, most + 0.3);
  plot.reference(results.front().columns.at(0).mean(), "original");
  for (std::size_t i = 1; i < results.size(); ++i) {
    const MethodResult& r = results[i];
    PlotSeries series{.name =
                          format("%s (%s)", r.name.c_str(),
                                 with_commas(r.parameters[0] + r.parameters[1] + r.parameters[2]).c_str())};
    const double middle = static_cast<double>(results.size()) / 2;
    for (const auto& [layers, column] : r.columns) {
      series.x.push_back(static_cast<double>(layers) + 0.04 * (static_cast<double>(i) - middle));
      series.y.push_back(column.mean());
      series.y_error.push_back(column.deviation());
    }
    plot.series(series);
  }
  return plot;
}

/// What the model writes with the projections of up to three layers replaced, evenly spread.
void print_texts(const Setup& setup, const ReplacementOptions& options, const std::vector<Method>& methods) {
  const Index layers = setup.model.config().layers, replaced = std::min(options.most_layers, layers);
  Tuple tuple;
  std::string names;
  for (Index i = 0; i < replaced; ++i) {
    tuple.push_back((2 * i + 1) * layers / (2 * replaced));
    names += (i > 0 ? ", " : "") + std::to_string(tuple.back());
  }
  const auto print = [&](const std::string& method, const Llama& model) {
    std::printf("\n%s: %s\n", method.c_str(),
                generate(model, setup.tokenizer, options.prompt, 100, 0, setup.budget.seed).c_str());
  };
  std::printf("\nTexts with the projections of layers %s (from 0) replaced, the likeliest token each time\n",
              names.c_str());
  print("original", setup.model);
  for (const Method& each : methods) {
    Llama model = setup.model;
    Calibration calibration(setup);
    for (Index l = 0; l <= tuple.back(); ++l) {
      if (std::find(tuple.begin(), tuple.end(), l) != tuple.end())
        replace_layer(model, l, calibration, each, setup.budget, options.retrain_output);
      calibration.advance(model, l);
    }
    print(each.name, model);
  }
}

}  // namespace

void replace_projections(const Setup& setup, const ReplacementOptions& options) {
  const auto& config = setup.model.config();
  const Index most = std::min(options.most_layers, config.layers);
  std::vector<Method> methods;
  for (const std::string& name : options.methods) {
    methods.push_back(method(name));
    if (methods.back().rank <= config.dim) continue;
    rotorlin::detail::throw_invalid("--methods: ", name, " is a rank of ", methods.back().rank,
                                    ", expected at most ", config.dim, ", the features of ", setup.name);
  }
  const std::set<Tuple> tuples = choose_tuples(config.layers, most, options.tuples, setup.budget.seed);
  std::vector<MethodResult> results(1);
  results[0].name = "original";
  for (std::size_t i = 0; i < 3; ++i)
    results[0].parameters[i] = setup.model.weight(replaced_projections[i], 0).size();
  results[0].columns[0].losses = {cross_entropy(setup.model, setup.evaluation, setup.windows)};
  std::printf("original       log-perplexity  %.6f\n", results[0].columns[0].mean());
  for (const Method& each : methods) results.push_back(Walk(setup, options, tuples, each).run());
  std::printf("\n%s\n", table_of(results, most).text().c_str());
  std::printf("params: parameters of the layers that stand in for q, k and v\n");
  std::printf("log-ppl: log-perplexity, nats a token, mean ± standard deviation over");
  for (const auto& [layers, column] : results.back().columns)
    std::printf("%s %zu", layers == 1 ? "" : ",", column.losses.size());
  std::printf(" sets of layers%s\n", options.retrain_output ? "; output projections retrained" : "");
  std::printf(
      "relative error: |f(x) - W x| / |W x| on calibration tokens that were not fitted to, mean of q, k, "
      "v\n");
  const auto csv = setup.out / "projections.csv", svg = setup.out / "projections.svg";
  write_file(csv, csv_of(setup.name, results));
  plot_of(setup.name, results).write(svg);
  print_texts(setup, options, methods);
  std::printf("\nWritten: %s, %s\n", csv.c_str(), svg.c_str());
}

}  // namespace examples
