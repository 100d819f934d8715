// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "common/arguments.hpp"
#include "common/progress.hpp"
#include "common/svg_plot.hpp"
#include "common/table.hpp"
#include "support/temporary_folder.hpp"

using namespace examples;
using Catch::Contains;

TEST_CASE("numbers and durations as text") {
  CHECK(with_commas(0) == "0");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(262144) == "262,144");
  CHECK(with_commas(-123456) == "-123,456");
  CHECK(with_commas(-1234567) == "-1,234,567");
  CHECK(duration(4.25) == "4.2 s");
  CHECK(duration(59.6) == "1 min 00 s");
  CHECK(duration(200) == "3 min 20 s");
}

TEST_CASE("a table aligns its columns and quotes its CSV") {
  Table table({{"layer", "layer", true}, {"relative\nerror", "error"}});
  table.add_row({"rank 1", {"0.5", "0.51234"}});
  table.add_row({"wide, \"rotor\"", "0.25"});
  CHECK(table.text() ==
        "               relative\n"
        "layer             error\n"
        "─────────────  ────────\n"
        "rank 1              0.5\n"
        "wide, \"rotor\"      0.25\n");
  CHECK(table.csv() == "layer,error\nrank 1,0.51234\n\"wide, \"\"rotor\"\"\",0.25\n");
  CHECK_THROWS_AS(table.add_row({"too few"}), std::invalid_argument);
}

TEST_CASE("files are written whole or not at all") {
  const test::TemporaryFolder folder;
  write_file(folder / "a" / "b.csv", "1,2\n");
  CHECK(test::read_bytes(folder / "a" / "b.csv") == "1,2\n");
  prepare_folder(folder / "a");
  CHECK_THROWS_WITH(write_file(folder / "a", "x"), Contains("can't write") && Contains("name a folder"));
  CHECK_THROWS_WITH(prepare_folder(folder / "a" / "b.csv"), Contains("b.csv") && Contains("Not a directory"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    CHECK((entry.is_directory() || entry.path().filename() == "b.csv"));
}

TEST_CASE("arguments are whole numbers, and lists of them, within a range") {
  const auto widths = [](std::string value) {
    char program[] = "program", name[] = "--widths";
    char* values[] = {program, name, value.data()};
    Arguments arguments(3, values, "usage");
    arguments.next();
    return arguments.numbers(1, 64);
  };
  CHECK(widths("1,4,64") == std::vector<long>{1, 4, 64});
  for (const char* wrong : {"", "1,", "0", "65", "-1", "1x", " 1", "99999999999999999999"})
    CHECK_THROWS_WITH(widths(wrong), Contains("is not a whole number from 1 to 64") && Contains("usage"));
}

TEST_CASE("a plot draws every finite point, and only those") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  SvgPlot plot("a < b & c", "subtitle");
  plot.x_axis("parameters").log_x().y_axis("error").reference(0.9, "nothing");
  plot.series(
      {.name = "points", .x = {0, 10, 100, 1000}, .y = {0.5, 0.4, nan, 0.2}, .marker = Marker::circle});
  const std::string svg = plot.svg();
  CHECK_THAT(svg, Contains("a &lt; b &amp; c") && Contains(">100<") && Contains(">nothing<"));
  CHECK_THAT(svg, !Contains("nan") && !Contains("inf"));
  std::size_t circles = 0;
  for (auto at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++circles;
  CHECK(circles == 3);  // two points and the legend
  CHECK_THROWS_WITH(plot.series("s", {1, 2}, {1}), Contains("2 x values, 1 y values"));
}

TEST_CASE("a band is one closed shape, and must have both ends for every point") {
  SvgPlot plot("bands");
  plot.log_y().series(
      {.name = "b", .x = {1, 2, 3}, .y = {2, 3, 4}, .band_low = {1, 0, 2}, .band_high = {3, 4, 9}});
  const std::string svg = plot.svg();
  const auto shape = svg.substr(0, svg.find("fill-opacity")).rfind("<path");
  REQUIRE(shape != std::string::npos);
  const std::string path = svg.substr(shape, svg.find("/>", shape) - shape);
  CHECK(std::count(path.begin(), path.end(), 'L') == 3);  // the point at 0 is on no logarithmic axis
  CHECK_THAT(path, Contains("Z"));
  CHECK_THROWS_WITH(plot.series({.name = "s", .x = {1}, .y = {1}, .band_low = {1}}),
                    Contains("bands of 1 and 0"));
}

TEST_CASE("plots without data, of one point, of equal points") {
  CHECK_THAT(SvgPlot("empty").svg(), !Contains("nan"));
  CHECK_THAT(SvgPlot("one").series("p", {1}, {0}).svg(), !Contains("nan"));
  CHECK_THAT(SvgPlot("logs").log_x().log_y().series("p", {3, 3}, {2, 2}).svg(), !Contains("nan"));
}
