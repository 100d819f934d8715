// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "parts.hpp"
#include "rotorlin/geopair/recipes.hpp"

namespace examples {

using rotorlin::BudgetAllocation;
using rotorlin::CompressionMethod;
using rotorlin::LayerWeighting;
using rotorlin::Pairing;

namespace {

constexpr const char* csv_file = "geopair.csv";
constexpr const char* csv_header =
    "model,method,ratio,groups,cross_entropy,kept_bytes_fraction,relative_error,seconds";

/// The lines of a CSV file whose first three cells are not (model, method, ratio).
std::vector<std::string> other_rows(const std::filesystem::path& file,
                                    const std::vector<std::string>& replaced) {
  std::vector<std::string> lines;
  if (!std::filesystem::exists(file)) return lines;
  std::istringstream text(read_file(file));
  std::string line;
  std::getline(text, line);
  if (line != csv_header) return lines;
  while (std::getline(text, line)) {
    const bool mine = std::any_of(replaced.begin(), replaced.end(),
                                  [&](const std::string& start) { return line.starts_with(start); });
    if (!mine) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> result(1);
  for (const char c : line) {
    if (c == ',') {
      result.emplace_back();
    } else {
      result.back() += c;
    }
  }
  return result;
}

/// All that the CSV file knows of this model, from earlier runs too.
void plot_methods(const Setup& setup, double uncompressed) {
  SvgPlot plot("Cross-entropy against what is removed",
               setup.name + ", bytes of all projections, masks included");
  plot.x_axis("removed, %").y_axis("cross-entropy, nats").reference(uncompressed, "uncompressed");
  for (const std::string& method : method_names()) {
    std::vector<std::pair<double, double>> points;
    for (const std::string& line : other_rows(setup.out / csv_file, {})) {
      const std::vector<std::string> row = cells(line);
      if (row.size() == 8 && row[0] == setup.name && row[1] == method)
        points.emplace_back(100 * std::atof(row[2].c_str()), std::atof(row[4].c_str()));
    }
    if (points.empty()) continue;
    std::sort(points.begin(), points.end());
    PlotSeries series{.name = method, .dashed = !method.starts_with("geopair")};
    if (method == "geopair_groups") series.marker = Marker::triangle;  // its colour comes round again
    for (const auto& [removed, nats] : points) {
      series.x.push_back(removed);
      series.y.push_back(nats);
    }
    plot.series(series);
  }
  plot.write(setup.out / (setup.name + "_methods.svg"));
}

}  // namespace

std::vector<std::string> method_names() { return rotorlin::recipe_names(); }

Recipe recipe(const Setup& setup, const std::string& method, double ratio) {
  const rotorlin::Recipe named = rotorlin::recipe(method, ratio);
  Recipe result{.method = method, .options = named.options};
  result.output_side = named.share_outputs;
  result.refit = method == "geopair_dense_identity";
  const bool dense_pairs = named.options.method == CompressionMethod::geopair_dense;
  result.options.iterations = dense_pairs ? 30 : setup.iterations;
  return result;
}

void compare_methods(Study& study, const std::vector<std::string>& methods,
                     const std::vector<double>& ratios) {
  const Setup& setup = study.setup();
  Rows rows(study, methods.size() * ratios.size());
  std::string fresh;
  std::vector<std::string> replaced;
  for (const double ratio : ratios) {
    for (const std::string& method : methods) {
      const Outcome& o = rows.add(format("%.0f %% %s", 100 * ratio, method.c_str()), 100 * ratio,
                                  recipe(setup, method, ratio));
      replaced.push_back(setup.name + "," + method + format(",%g,", ratio));
      fresh += replaced.back() + format("%zu,%.6f,%.6f,%.6f,%.2f\n", o.groups.size(), o.cross_entropy, o.kept,
                                        o.relative_error, o.seconds);
      // after every row, lest a long run that is interrupted leaves nothing
      const std::filesystem::path file = setup.out / csv_file;
      std::string text = std::string(csv_header) + "\n";
      for (const std::string& line : other_rows(file, replaced)) text += line + "\n";
      write_file(file, text + fresh);
    }
  }
  rows.finish("methods", "methods", "method");
  plot_methods(setup, study.uncompressed());
}

void ablate(Study& study, double ratio) {
  const Setup& setup = study.setup();
  struct Step {
    const char* label;
    Recipe recipe;
  };
  std::vector<Step> steps;
  const auto add = [&](const char* label, auto&& change) {
    Recipe next = steps.empty() ? recipe(setup, "basis_sharing", ratio) : steps.back().recipe;
    change(next);
    steps.push_back({label, std::move(next)});
  };
  add("one whitening for a pair of neighbours", [](Recipe& r) { r.options.group_size = 2; });
  add("a whitening for each layer, plain weights", [](Recipe& r) {
    r.options.method = CompressionMethod::geopair_dense;
    r.options.pairing = Pairing::adjacent;
    r.options.weighting = LayerWeighting::plain;
    r.options.iterations = 30;
  });
  add("pairs within types matched by distance", [](Recipe& r) { r.options.pairing = Pairing::distance; });
  add("pairs within types matched by gain", [](Recipe& r) { r.options.pairing = Pairing::gain; });
  add("pairs across types, relative weights", [](Recipe& r) {
    r.options.across_types = true;
    r.options.weighting = LayerWeighting::relative;
  });
  const Recipe dense = steps.back().recipe;
  add("the same with the identity gauge", [](Recipe& r) { r.options.identity_gauge = true; });
  add("the same, coefficients fitted again", [](Recipe& r) { r.refit = true; });
  add("the same with a ridge of 0.1", [](Recipe& r) { r.options.eta = 0.1; });
  add("sparse instead, monotone as published", [&](Recipe& r) {
    r = dense;
    r.options.method = CompressionMethod::geopair_sparse;
    r.options.monotone = true;
    r.options.ksvd = false;
    r.options.iterations = setup.iterations;
  });
  add("coded from nothing at first, and K-SVD", [](Recipe& r) {
    r.options.monotone = false;
    r.options.ksvd = true;
  });
  add("wide groups", [](Recipe& r) {
    r.options.pairing = Pairing::automatic;
    r.options.group_size = 0;
  });
  add("w2 shares its outputs", [](Recipe& r) { r.output_side = true; });
  add("one budget for all groups", [](Recipe& r) { r.options.budget = BudgetAllocation::global; });
  add("errors weighted by their damage", [](Recipe& r) { r.damage = true; });

  Rows rows(study, steps.size());
  for (const Step& step : steps) rows.add(step.label, std::nan(""), step.recipe);
  rows.finish("ablation", format("%.0f %% removed, one change after another", 100 * ratio), "change");
}

}  // namespace examples
