// SPDX-License-Identifier: MIT
// Cross-entropy against bytes: rounding alone, and dictionaries whose values are rounded too.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "parts.hpp"

namespace examples {

using rotorlin::DType;
using rotorlin::StorageOptions;

namespace {

struct Kind {
  const char* name;
  StorageOptions storage;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"bf16", {.dtype = DType::bf16}}, {"8 bits", {.bits = 8}},
                                        {"6 bits", {.bits = 6}},          {"5 bits", {.bits = 5}},
                                        {"4 bits", {.bits = 4}},          {"3 bits", {.bits = 3}}};
  return all;
}

struct Point {
  double kept, nats;
};

/// The rows of a table and those of an earlier run's file of which it has none.
std::string merged(const std::filesystem::path& file, const std::string& table) {
  if (!std::filesystem::exists(file)) return table;
  const auto key = [](const std::string& line) {
    return line.substr(0, line.find(',', line.find(',') + 1) + 1);
  };
  std::istringstream old(read_file(file));
  std::string line, text = table;
  for (bool first = true; std::getline(old, line); first = false) {
    if (first && !table.starts_with(line + "\n")) return table;
    if (("\n" + text).find("\n" + key(line)) == std::string::npos) text += line + "\n";
  }
  return text;
}

/// A curve for rounding alone and one for every type of values, from all that the file knows.
std::vector<PlotSeries> curves(const std::string& csv) {
  std::map<std::string, std::vector<std::pair<double, double>>> points;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::vector<std::string> cells(1);
    for (const char c : line) c == ',' ? void(cells.emplace_back()) : void(cells.back() += c);
    if (cells.size() != 7) continue;
    points[cells[0] == "-" ? "rounding alone" : cells[1]].emplace_back(100 * std::atof(cells[2].c_str()),
                                                                       std::atof(cells[5].c_str()));
  }
  std::vector<PlotSeries> result;
  for (auto& [name, of_one] : points) {
    const bool plain = name == "rounding alone";
    PlotSeries series{.name = plain ? name : "dictionaries, " + name, .dashed = plain};
    std::sort(of_one.begin(), of_one.end());
    for (const auto& [kept, nats] : of_one) {
      series.x.push_back(kept);
      series.y.push_back(nats);
    }
    result.push_back(std::move(series));
  }
  return result;
}

/// What rounding alone gives at these bytes: a straight line between its points; NaN outside of them.
double rounding_alone(const std::vector<Point>& points, double kept) {
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const Point &more = points[i], &less = points[i + 1];
    if (kept <= more.kept && kept >= less.kept)
      return less.nats + (more.nats - less.nats) * (kept - less.kept) / (more.kept - less.kept);
  }
  return std::nan("");
}

}  // namespace

void compare_storage(Study& study, const std::vector<double>& ratios) {
  const Setup& setup = study.setup();
  Table table({{"removed", "removed", true},
               {"values", "values", true},
               {"kept\n%", "kept_bytes_fraction"},
               {"bits a\nweight", "bits"},
               {"validation\nnats", "validation"},
               {"evaluation\nnats", "cross_entropy"},
               {"less than\nrounding alone", "gain"}});
  const auto add = [&](const std::string& removed, const char* values, const Outcome& o, double gain) {
    const std::string text = std::isnan(gain) ? std::string("-") : format("%+.4f", gain);
    table.add_row({removed,
                   values,
                   {format("%.2f", 100 * o.kept), format("%.6f", o.kept)},
                   format("%.2f", 32 * o.kept),
                   format("%.4f", o.validation),
                   format("%.4f", o.cross_entropy),
                   text});
  };

  const std::filesystem::path file = setup.out / (setup.name + "_storage.csv");
  std::vector<Point> plain;
  for (const Kind& kind : kinds()) {
    const Outcome o = study.round(kind.storage);
    plain.push_back({o.kept, o.cross_entropy});
    add("-", kind.name, o, std::nan(""));
  }
  for (const double ratio : ratios) {
    const std::string removed = format("%g %%", 100 * ratio);
    Progress progress(removed + " removed");
    study.progress = [&](double fraction, const std::string& note) { progress.update(fraction, note); };
    std::vector<StorageOptions> storages;
    for (const Kind& kind : kinds()) {
      if (kind.storage.bits != 3) storages.push_back(kind.storage);
    }
    const std::vector<Outcome> outcomes = study.store(recipe(setup, "geopair_groups", ratio), storages);
    study.progress = {};
    progress.finish(format("%.4f nats in bf16", outcomes[0].cross_entropy));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const Outcome& o = outcomes[i];
      add(removed, kinds()[i].name, o, rounding_alone(plain, o.kept) - o.cross_entropy);
    }
    // after every ratio, lest a long run that is interrupted leaves nothing
    write_file(file, merged(file, table.csv()));
  }
  std::printf("\n%s, values of few bits (uncompressed: %.4f validation, %.4f evaluation)\n\n%s\n",
              setup.name.c_str(), study.uncompressed_validation(), study.uncompressed(),
              table.text().c_str());
  std::fflush(stdout);

  // what is beyond two nats more has no place in a plot of what is useful
  SvgPlot plot("Cross-entropy against bytes", setup.name + ", projections, masks and scales included");
  plot.x_axis("bytes kept of those as floats, %").y_axis("cross-entropy, nats");
  plot.reference(study.uncompressed(), "uncompressed");
  for (const PlotSeries& all : curves(read_file(file))) {
    PlotSeries shown = all;
    shown.x.clear();
    shown.y.clear();
    for (std::size_t i = 0; i < all.x.size(); ++i) {
      if (!(all.y[i] < study.uncompressed() + 1.2)) continue;
      shown.x.push_back(all.x[i]);
      shown.y.push_back(all.y[i]);
    }
    if (!shown.x.empty()) plot.series(shown);
  }
  plot.write(setup.out / (setup.name + "_storage.svg"));
}

}  // namespace examples
