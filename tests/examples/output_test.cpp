// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

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
    CHECK_THROWS_WITH(widths(wrong), Contains("is not a whole number from 1 to 64") && !Contains("usage"));
}

TEST_CASE("arguments are numbers within a range") {
  const auto ratio = [](std::string value) {
    char program[] = "program", name[] = "--ratio";
    char* values[] = {program, name, value.data()};
    Arguments arguments(3, values, "usage");
    arguments.next();
    return arguments.real(0, 100);
  };
  CHECK(ratio("0.25") == 0.25);
  CHECK(ratio("1e1") == 10);
  CHECK(ratio("+.5") == 0.5);
  for (const char* wrong : {"", " 1", "1 ", "x", "1x", "0x1", "nan", "inf", "-1", "101", "1e999", "1,5"})
    CHECK_THROWS_WITH(ratio(wrong), Contains("is not a number from 0 to 100"));
}

TEST_CASE("what fails in a program is one line and an exit status") {
  const test::TemporaryFolder folder;
  const auto lines_of = [&](const auto& body, int expected) {
    std::fflush(stderr);
    const int saved = ::dup(STDERR_FILENO),
              file = ::open((folder / "err").c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600);
    ::dup2(file, STDERR_FILENO);
    const int status = guarded(body);
    std::fflush(stderr);
    ::dup2(saved, STDERR_FILENO);
    ::close(saved);
    ::close(file);
    CHECK(status == expected);
    return test::read_bytes(folder / "err");
  };
  CHECK(lines_of([] {}, 0).empty());
  CHECK(lines_of([] { throw std::runtime_error("a\nb\tc\x01"); }, 1) == "error: a\\x0ab\\x09c\\x01\n");
  CHECK(lines_of([] { throw std::bad_alloc(); }, 1) == "error: not enough memory\n");
  char program[] = "program", name[] = "--what";
  char* values[] = {program, name};
  CHECK(lines_of(
            [&] {
              Arguments arguments(2, values, "usage");
              arguments.next();
              arguments.unknown();
            },
            2) == "error: unknown argument --what (--help lists the arguments)\n");
}

TEST_CASE("an output that can't be written is an error, at its end at the latest") {
  std::FILE* full = std::fopen("/dev/full", "w");
  if (full == nullptr) return;  // not on Linux
  finish_output(full, "standard output");
  std::fputs("text", full);
  CHECK_THROWS_WITH(finish_output(full, "standard output"),
                    Contains("standard output can't be written") && Contains("No space left"));
  CHECK_THROWS_WITH(finish_output(full, "standard output"), Contains("standard output can't be written"));
  std::fclose(full);
}

TEST_CASE("outputs are no inputs, under whatever name, and replace only regular files") {
  namespace fs = std::filesystem;
  const test::TemporaryFolder folder;
  const fs::path input = folder / "in";
  test::write_bytes(input, "data");
  fs::create_directory(folder / "d");
  fs::create_symlink("in", folder / "link");
  fs::create_symlink("../in", folder / "d/link");
  fs::create_symlink(folder.path(), folder / "dir_link");
  fs::create_hard_link(input, folder / "hard");
  const std::vector<fs::path> inputs = {"", folder / "absent", input};
  for (const char* name : {"in", "link", "d/link", "d/../in", "dir_link/in", "hard", ".//in"}) {
    CAPTURE(name);
    CHECK_THROWS_WITH(output_file(folder / name, inputs), Contains("would be overwritten, and is read"));
  }
  CHECK(output_file(folder / "new", inputs) == folder / "new");
  CHECK(output_file(folder / "link") == folder / "in");
  test::write_bytes(folder / "other", "data");
  CHECK(output_file(folder / "other", inputs) == folder / "other");
  fs::create_symlink("new", folder / "dangling");
  CHECK(output_file(folder / "dangling", inputs) == folder / "new");
  fs::create_symlink("circle", folder / "circle");
  CHECK_THROWS_WITH(output_file(folder / "circle"), Contains("circle"));
  ::mkfifo((folder / "pipe").c_str(), 0600);
  fs::create_symlink("pipe", folder / "to_pipe");
  for (const fs::path& path :
       {folder / "pipe", folder / "to_pipe", fs::path("/dev/null"), fs::path("/dev/full")})
    CHECK_THROWS_WITH(output_file(path), Contains("only regular files"));
  for (const fs::path& path : {fs::path("/dev/stdout"), fs::path("/proc/self/fd/1"), fs::path("/dev/fd/1")})
    CHECK_THROWS_WITH(output_file(path), Contains("open file"));
  for (const fs::path& path : {folder / "d", folder / "dir_link", fs::path("."), fs::path("..")})
    CHECK_THROWS_WITH(output_file(path), Contains("is a folder"));
  for (const fs::path& path : {folder / "new/", fs::path("")})
    CHECK_THROWS_WITH(output_file(path), Contains("names no file"));
  CHECK_THROWS_WITH(output_file(input / "x"), Contains("in/x can't be written") && Contains("no folder"));

  // a file is replaced where a link leads, and nothing else is
  write_file(folder / "dangling", "text");
  CHECK(test::read_bytes(folder / "new") == "text");
  CHECK(fs::is_symlink(folder / "dangling"));
  CHECK_THROWS_WITH(write_file(folder / "pipe", "x"), Contains("pipe"));
  CHECK(fs::is_fifo(folder / "pipe"));

  // tables and plots
  prepare_folder(folder / "d", inputs);
  fs::create_hard_link(input, folder / "d/table.csv");
  CHECK_THROWS_WITH(prepare_folder(folder / "d", inputs), Contains("table.csv would be overwritten"));
  fs::remove(folder / "d/table.csv");
  ::mkfifo((folder / "d/plot.svg").c_str(), 0600);
  CHECK_THROWS_WITH(prepare_folder(folder / "d"), Contains("plot.svg is a device"));
  test::write_bytes(folder / "rotorlin_probe", "mine");
  prepare_folder(folder.path());
  CHECK(test::read_bytes(folder / "rotorlin_probe") == "mine");
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
