// SPDX-License-Identifier: MIT
#include <cmath>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "parts.hpp"

namespace examples {

using rotorlin::CompressionMethod;
using rotorlin::HalfStep;
using rotorlin::Pairing;

namespace {

/// What the sweeps begin with.
Recipe wide_groups(const Study& study, double ratio) {
  return recipe(study.setup(), "geopair_groups", ratio);
}

std::string at(double ratio) { return format(", wide groups, %.0f %% removed", 100 * ratio); }

}  // namespace

void sweep_ks(Study& study, double ratio) {
  const std::vector<double> values = {1.25, 1.5, 2, 2.5, 3, 4, 6};
  Rows rows(study, values.size());
  for (const double value : values) {
    Recipe next = wide_groups(study, ratio);
    next.options.ks_ratio = value;
    rows.add(format("%g", value), value, next);
  }
  rows.finish("ks", "atoms for each nonzero" + at(ratio), "ks");
  rows.plot("ks", "Atoms for each nonzero", "rank / nonzeros a column", false);
}

void sweep_eta(Study& study, double ratio) {
  const std::vector<double> values = {1e-9, 1e-5, 1e-3, 1e-2, 1e-1, 1};
  Rows rows(study, values.size());
  for (const double value : values) {
    Recipe next = wide_groups(study, ratio);
    next.options.eta = value;
    rows.add(format("%g", value), value, next);
  }
  rows.finish("eta", "relative ridge" + at(ratio), "eta");
  rows.plot("eta", "Ridge of the Gram matrices", "ridge relative to the mean diagonal", true);
}

void sweep_tokens(Study& study, double ratio) {
  const std::vector<Index> values = {256, 1024, 4096, 16384, 65536, 262144};
  Rows rows(study, values.size());
  for (const Index value : values) {
    Recipe next = wide_groups(study, ratio);
    next.samples = value;
    rows.add(with_commas(value), static_cast<double>(value), next);
  }
  rows.finish("tokens", "calibration tokens" + at(ratio), "tokens");
  rows.plot("tokens", "Calibration tokens", "tokens", true);
}

void sweep_iterations(Study& study, double ratio) {
  const std::vector<int> values = {5, 15, 30, 60, 120};
  Rows rows(study, values.size());
  for (const int value : values) {
    Recipe next = wide_groups(study, ratio);
    next.options.iterations = value;
    rows.add(std::to_string(value), value, next);
  }
  rows.finish("iterations", "iterations" + at(ratio), "iterations");
  rows.plot("iterations", "Iterations", "iterations", true);
}

void sweep_group_size(Study& study, double ratio) {
  const std::vector<Index> values = {1, 2, 3, 5};
  Rows rows(study, values.size() + 2);
  for (const Index value : values) {
    Recipe next = wide_groups(study, ratio);
    next.output_side = false;
    next.options.pairing = Pairing::adjacent;
    next.options.group_size = value;
    rows.add(std::to_string(value) + " of a type", static_cast<double>(value), next);
  }
  rows.add("all with as many inputs", std::nan(""), recipe(study.setup(), "geopair_groups_inputs", ratio));
  rows.add("the same, w2 by its outputs", std::nan(""), wide_groups(study, ratio));
  rows.finish("group_size", format("layers in a group, %.0f %% removed", 100 * ratio), "layers");
}

void show_convergence(Study& study, double ratio) {
  struct Way {
    const char* name;
    Recipe recipe;
  };
  std::vector<Way> ways;
  Recipe dense = recipe(study.setup(), "geopair_dense", ratio);
  dense.options.iterations = study.setup().iterations;
  const Recipe cold = recipe(study.setup(), "geopair_groups_inputs", ratio);
  Recipe monotone = cold;
  monotone.options.monotone = true;
  Recipe published = monotone;
  published.options.ksvd = false;
  ways.push_back({"dense pairs", dense});
  ways.push_back({"sparse, wide, monotone", published});
  ways.push_back({"the same with K-SVD", monotone});
  ways.push_back({"coded from nothing at first", cold});
  Rows rows(study, ways.size());
  SvgPlot plot("The objective while it falls",
               format("%s, %.0f %% removed, all groups, relative to no weights at all",
                      study.setup().name.c_str(), 100 * ratio));
  plot.x_axis("iteration").y_axis("objective / energy").log_y();
  std::string csv = "way,iteration,objective\n";
  for (const Way& way : ways) {
    const Outcome& outcome = rows.add(way.name, std::nan(""), way.recipe);
    PlotSeries series{.name = way.name, .marker = Marker::none};
    double energy = 0;
    for (const rotorlin::GroupReport& group : outcome.groups) {
      energy += group.energy;
      double last = 0;
      std::size_t iteration = 0;
      const auto reached = [&](double value) {
        if (series.y.size() <= iteration) series.y.push_back(0);
        series.y[iteration++] += value;
      };
      for (const rotorlin::TracePoint& point : group.trace) {
        last = point.objective;
        if (point.step == HalfStep::coefficients) reached(last);
      }
      while (iteration <= static_cast<std::size_t>(way.recipe.options.iterations)) reached(last);
    }
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      series.x.push_back(static_cast<double>(i));
      series.y[i] /= energy;
      csv += format("%s,%zu,%.8f\n", way.name, i, series.y[i]);
    }
    plot.series(series);
  }
  rows.finish("convergence", "ways to alternate", "way");
  write_file(study.setup().out / (study.setup().name + "_convergence_trace.csv"), csv);
  plot.write(study.setup().out / (study.setup().name + "_convergence.svg"));
}

void show_pairs(Study& study, double ratio) {
  struct Way {
    const char* name;
    Pairing pairing;
    bool across;
  };
  const std::vector<Way> ways = {{"neighbours of a type", Pairing::adjacent, false},
                                 {"distance within types", Pairing::distance, false},
                                 {"gain within types", Pairing::gain, false},
                                 {"distance across types", Pairing::distance, true},
                                 {"gain across types", Pairing::gain, true}};
  Rows rows(study, ways.size());
  std::string text;
  for (const Way& way : ways) {
    Recipe next = recipe(study.setup(), "geopair_dense", ratio);
    next.options.pairing = way.pairing;
    next.options.across_types = way.across;
    const Outcome& outcome = rows.add(way.name, std::nan(""), next);
    text += std::string(way.name) + ":";
    for (const rotorlin::GroupReport& group : outcome.groups) {
      std::string members;
      for (const std::string& member : group.members) {
        // layers.3.attention.wq -> 3q, layers.3.feed_forward.w1 -> 3w1
        const std::size_t dot = member.find('.', 7), last = member.rfind('.');
        std::string own = member.substr(last + 1);
        if (own.size() == 2 && own[1] > '9') own = own.substr(1);
        members += (members.empty() ? " " : "-") + member.substr(7, dot - 7) + own;
      }
      text += members;
    }
    text += "\n";
  }
  rows.finish("pairs", format("dense pairs, %.0f %% removed", 100 * ratio), "pairing");
  std::printf("%s\n", text.c_str());
  write_file(study.setup().out / (study.setup().name + "_pairs.txt"), text);
}

void show_damages(Study& study) {
  Progress progress("damages");
  study.progress = [&](double fraction, const std::string& note) { progress.update(fraction, note); };
  const std::vector<double> damages = study.damages();
  study.progress = {};
  progress.finish("");
  std::vector<Table::Column> columns = {{"layer", "layer"}};
  for (const Projection p : all_projections) columns.push_back({name(p), name(p)});
  Table table(columns);
  for (std::size_t l = 0; l < damages.size() / all_projections.size(); ++l) {
    std::vector<Table::Cell> row = {std::to_string(l)};
    for (std::size_t p = 0; p < all_projections.size(); ++p)
      row.push_back(format("%.3f", damages[l * all_projections.size() + p]));
    table.add_row(row);
  }
  std::printf("\n%s, nats for a squared relative error of 1, on the validation stream\n\n%s\n",
              study.setup().name.c_str(), table.text().c_str());
  write_file(study.setup().out / (study.setup().name + "_damages.csv"), table.csv());
}

}  // namespace examples
