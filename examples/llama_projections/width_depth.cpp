// SPDX-License-Identifier: MIT
#include <bit>
#include <cstdio>

#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "experiments.hpp"

namespace examples {

void compare_width_and_depth(const Setup& setup, Index layer, Projection projection) {
  const Llama& model = setup.model;
  const Matrix<float>& weight = model.weight(projection, layer);
  Calibration calibration(setup);
  Stream evaluation(model, setup.evaluation, setup.windows);
  for (Index l = 0; l < layer; ++l) {
    calibration.advance(model, l);
    evaluation.advance(model, l);
  }
  const Samples samples = calibration.samples(model, layer, projection);
  const Matrix<float> x = evaluation.inputs(model, layer, projection);

  Table table({{"method", "method", true},
               {"depth", "depth"},
               {"width", "width"},
               {"parameters", "parameters"},
               {"relative error\ncalibration", "error_validation"},
               {"\nevaluation", "error"},
               {"fit", "seconds"}});
  SvgPlot plot(format("Projection %s of layer %ld (from 0) of %s", name(projection), static_cast<long>(layer),
                      setup.name.c_str()),
               "Relative error of the output on held-out text. Lower and further left is better.");
  plot.x_axis(format("parameters (the matrix has %s)", with_commas(weight.size()).c_str())).log_x();
  plot.y_axis("relative error");
  const auto add = [&](PlotSeries& series, const std::string& method, Index depth, Index width,
                       const Replacement& fitted) {
    const double error = relative_error(fitted.map, weight, x);
    series.x.push_back(static_cast<double>(fitted.parameters));
    series.y.push_back(error);
    series.labels.push_back(width > 0 ? std::to_string(width) : "");
    table.add_row({method,
                   {depth < 0 ? "-" : std::to_string(depth), depth < 0 ? "NA" : std::to_string(depth)},
                   std::to_string(width),
                   {with_commas(fitted.parameters), std::to_string(fitted.parameters)},
                   format("%.4f", relative_error(fitted.map, weight, samples.x_validation)),
                   format("%.4f", error),
                   {duration(fitted.seconds), format("%.3f", fitted.seconds)}});
  };

  constexpr Index widths = 8, depths = 4;
  Progress progress("rotor networks");
  const Index hidden = static_cast<Index>(std::bit_floor(static_cast<std::size_t>(weight.cols())));
  double done = 0, all = 0;  // branches
  for (Index depth = 0; depth < depths; ++depth) {
    for (Index width = 1; width <= widths; ++width)
      all += static_cast<double>(2 + std::max<Index>(1, depth) * width);
  }
  for (Index depth = 0; depth < depths; ++depth) {
    PlotSeries series{.name = format("RotorNetwork, depth %ld", static_cast<long>(depth))};
    for (Index width = 1; width <= widths; ++width) {
      add(series, "RotorNetwork", depth, width,
          fit_network(samples, weight, {hidden, depth, width}, setup.budget));
      done += static_cast<double>(2 + std::max<Index>(1, depth) * width);
      progress.update(done / all, format("depth %ld width %ld: error %.3f", static_cast<long>(depth),
                                         static_cast<long>(width), series.y.back()));
    }
    plot.series(series);
  }
  progress.finish("");
  PlotSeries low_rank{.name = "low rank 1 to 8", .dashed = true}, blocks{.name = "blocks", .dashed = true};
  for (Index rank = 1; rank <= std::min<Index>(8, weight.rows()); ++rank)
    add(low_rank, format("LR%ld", static_cast<long>(rank)), -1, rank, fit_low_rank(samples, weight, rank));
  const Index paper = block_width(weight.cols(), weight.rows());
  add(blocks, "BH1", -1, paper, fit_blocks(samples, weight, paper));
  blocks.name = format("BH1, blocks of %ld", static_cast<long>(paper));
  plot.series(low_rank).series(blocks);

  std::printf("\n%s\n", table.text().c_str());
  std::printf(
      "relative error: |f(x) - W x| / |W x|; width: parallel branches, rank, or inputs of a block.\n"
      "At depth 0 the output rotors are the parallel ones.\n");
  const auto csv = setup.out / "width_depth.csv", svg = setup.out / "width_depth.svg";
  write_file(csv, table.csv());
  plot.write(svg);
  std::printf("Written: %s, %s\n", csv.c_str(), svg.c_str());
}

}  // namespace examples
