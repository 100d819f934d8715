// SPDX-License-Identifier: MIT
#include <cmath>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "parts.hpp"

namespace examples {

const Outcome& Rows::add(const std::string& label, double x, const Recipe& recipe) {
  std::string left;
  if (!rows_.empty()) {
    const double remaining = static_cast<double>(count_ - rows_.size()) / static_cast<double>(rows_.size());
    left = ", about " + duration(seconds_ * remaining) + " for the rest";
  }
  Progress progress(format("%2zu/%zu %-44s", rows_.size() + 1, count_, label.c_str()));
  study_.progress = [&](double fraction, const std::string& note) { progress.update(fraction, note + left); };
  rows_.push_back({label, x, recipe, study_.run(recipe)});
  study_.progress = {};
  const Outcome& outcome = rows_.back().outcome;
  progress.finish(format("%.4f nats", outcome.cross_entropy));
  seconds_ += progress.seconds();
  return outcome;
}

void Rows::finish(const std::string& name, const std::string& title, const std::string& first) const {
  Table table({{first, first, true},
               {"validation\nnats", "validation"},
               {"evaluation\nnats", "cross_entropy"},
               {"kept\n%", "kept_bytes_fraction"},
               {"relative\nerror", "relative_error"},
               {"groups", "groups"},
               {"seconds", "seconds"}});
  for (const Row& row : rows_) {
    const Outcome& o = row.outcome;
    table.add_row({row.label,
                   format("%.4f", o.validation),
                   format("%.4f", o.cross_entropy),
                   {format("%.2f", 100 * o.kept), format("%.6f", o.kept)},
                   format("%.4f", o.relative_error),
                   std::to_string(o.groups.size()),
                   format("%.1f", o.seconds)});
  }
  const Setup& setup = study_.setup();
  std::printf("\n%s, %s (uncompressed: %.4f validation, %.4f evaluation)\n\n%s\n", setup.name.c_str(),
              title.c_str(), study_.uncompressed_validation(), study_.uncompressed(), table.text().c_str());
  std::fflush(stdout);
  write_file(setup.out / (setup.name + "_" + name + ".csv"), table.csv());
}

void Rows::plot(const std::string& name, const std::string& title, const std::string& x_label,
                bool logarithmic) const {
  PlotSeries evaluation{.name = "evaluation"}, validation{.name = "validation", .dashed = true};
  for (const Row& row : rows_) {
    evaluation.x.push_back(row.x);
    evaluation.y.push_back(row.outcome.cross_entropy);
    validation.x.push_back(row.x);
    validation.y.push_back(row.outcome.validation);
  }
  const Setup& setup = study_.setup();
  SvgPlot plot(title, setup.name);
  plot.x_axis(x_label).y_axis("cross-entropy, nats");
  if (logarithmic) plot.log_x();
  plot.series(evaluation).series(validation).reference(study_.uncompressed(), "uncompressed, evaluation");
  plot.write(setup.out / (setup.name + "_" + name + ".svg"));
}

}  // namespace examples
