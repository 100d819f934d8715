// SPDX-License-Identifier: MIT
/// \file
/// Line and scatter plots as SVG: linear and logarithmic axes with round ticks, error bars, horizontal
/// reference lines, a legend beside the plot. Colours are Okabe and Ito's, which colour-blind readers can
/// tell apart.
///
///     SvgPlot plot("Error against parameters");
///     plot.x_axis("parameters").log_x();
///     plot.y_axis("relative error");
///     plot.series("rotor layer", x, y);
///     plot.write("error.svg");
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/table.hpp"

namespace examples {

enum class Marker { circle, square, diamond, triangle, none };

/// One curve or cloud of points.
struct PlotSeries {
  std::string name;
  std::vector<double> x = {}, y = {};
  std::vector<double> y_error = {};                   ///< half lengths of error bars; empty: none
  std::vector<std::string> labels = {};               ///< a text beside each point; empty: none
  bool line = true;                                   ///< joins the points
  bool dashed = false;                                ///< the joining line
  std::optional<Marker> marker = {};                  ///< default: by the order of the series
  std::vector<double> band_low = {}, band_high = {};  ///< ends of a shaded band around the line; empty: none
};

class SvgPlot {
 public:
  explicit SvgPlot(std::string title, std::string subtitle = "")
      : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

  SvgPlot& x_axis(std::string label) { return x_.label = std::move(label), *this; }
  SvgPlot& y_axis(std::string label) { return y_.label = std::move(label), *this; }
  SvgPlot& whole_x() { return x_.only_whole = true, *this; }  ///< ticks at whole numbers
  SvgPlot& log_x() { return x_.logarithmic = true, *this; }
  SvgPlot& log_y() { return y_.logarithmic = true, *this; }
  /// Ranges that must be visible; without them the data decide.
  SvgPlot& x_range(double low, double high) { return x_.low = low, x_.high = high, *this; }
  SvgPlot& y_range(double low, double high) { return y_.low = low, y_.high = high, *this; }
  /// A dashed grey line across the plot, with its name above its right end.
  SvgPlot& reference(double y, std::string name) {
    return references_.push_back({y, std::move(name)}), *this;
  }

  SvgPlot& series(PlotSeries s) {
    if (s.x.size() != s.y.size() || (!s.y_error.empty() && s.y_error.size() != s.x.size()) ||
        (!s.labels.empty() && s.labels.size() != s.x.size()) || s.band_low.size() != s.band_high.size() ||
        (!s.band_low.empty() && s.band_low.size() != s.x.size())) {
      throw std::invalid_argument(
          "SvgPlot::series: '" + s.name + "' has " + std::to_string(s.x.size()) + " x values, " +
          std::to_string(s.y.size()) + " y values, " + std::to_string(s.y_error.size()) + " errors, " +
          std::to_string(s.labels.size()) + " labels and bands of " + std::to_string(s.band_low.size()) +
          " and " + std::to_string(s.band_high.size()));
    }
    series_.push_back(std::move(s));
    return *this;
  }
  SvgPlot& series(std::string name, std::vector<double> x, std::vector<double> y) {
    return series({.name = std::move(name), .x = std::move(x), .y = std::move(y)});
  }

  /// The whole SVG document. Points that are not finite, or not positive on a logarithmic axis, are left out.
  std::string svg() const {
    const std::size_t longest = [&] {
      std::size_t width = 0;
      for (const auto& s : series_) width = std::max(width, display_width(s.name));
      return width;
    }();
    const bool legend =
        std::any_of(series_.begin(), series_.end(), [](const auto& s) { return !s.name.empty(); });
    const double right = legend ? 60 + 7.2 * static_cast<double>(longest) : 30;
    const double top = subtitle_.empty() ? 56 : 76, bottom = 64, left = 78;
    const Frame frame{left, top, plot_width, plot_height};
    const double width = left + plot_width + right, height = top + plot_height + bottom;

    Axis x = x_, y = y_;
    fit_axis(x, [](const PlotSeries& s, std::size_t i) { return std::pair(s.x[i], s.x[i]); }, {});
    fit_axis(
        y,
        [](const PlotSeries& s, std::size_t i) {
          const double e = s.y_error.empty() ? 0 : s.y_error[i];
          return s.band_low.empty() ? std::pair(s.y[i] - e, s.y[i] + e)
                                    : std::pair(s.band_low[i], s.band_high[i]);
        },
        references_);
    const auto px = [&](double v) { return frame.left + frame.width * x.position(v); };
    const auto py = [&](double v) { return frame.top + frame.height * (1 - y.position(v)); };

    std::string o = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
        "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"13\" fill=\"#222\">\n",
        width, height, width, height);
    o += "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    o += text(left, 30, title_, "font-size=\"17\" font-weight=\"bold\"");
    if (!subtitle_.empty()) o += text(left, 52, subtitle_, "fill=\"#555\"");

    // Grid, ticks and their numbers.
    for (const Tick& tick : x.ticks()) {
      const double at = px(tick.value);
      o += line(at, frame.top, at, frame.top + frame.height, tick.major ? "#dedede" : "#f1f1f1", 1);
      if (!tick.label.empty()) {
        o += line(at, frame.top + frame.height, at, frame.top + frame.height + 5, "#222", 1);
        o += text(at, frame.top + frame.height + 20, tick.label, "text-anchor=\"middle\"");
      }
    }
    for (const Tick& tick : y.ticks()) {
      const double at = py(tick.value);
      o += line(frame.left, at, frame.left + frame.width, at, tick.major ? "#dedede" : "#f1f1f1", 1);
      if (!tick.label.empty()) {
        o += line(frame.left - 5, at, frame.left, at, "#222", 1);
        o += text(frame.left - 9, at + 4.5, tick.label, "text-anchor=\"end\"");
      }
    }
    o += line(frame.left, frame.top + frame.height, frame.left + frame.width, frame.top + frame.height,
              "#222", 1.2);
    o += line(frame.left, frame.top, frame.left, frame.top + frame.height, "#222", 1.2);
    o += text(frame.left + frame.width / 2, height - 18, x_.label, "text-anchor=\"middle\" font-size=\"14\"");
    o += format("<g transform=\"translate(22 %.1f) rotate(-90)\">", frame.top + frame.height / 2) +
         text(0, 0, y_.label, "text-anchor=\"middle\" font-size=\"14\"") + "</g>\n";

    for (const Reference& r : references_) {
      if (!y.contains(r.y)) continue;
      o += line(frame.left, py(r.y), frame.left + frame.width, py(r.y), "#777", 1.3, "6 4");
      o += text(frame.left + frame.width - 6, py(r.y) - 6, r.name,
                "text-anchor=\"end\" fill=\"#555\" font-size=\"12\"");
    }

    // The data, lines below markers, nothing outside of the frame.
    o += format(
        "<clipPath id=\"frame\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n",
        frame.left - 8, frame.top - 8, frame.width + 16, frame.height + 16);
    o += "<g clip-path=\"url(#frame)\">\n";
    for (std::size_t k = 0; k < series_.size(); ++k) {
      const PlotSeries& s = series_[k];
      std::string there, back;
      for (std::size_t i = 0; i < s.band_low.size(); ++i) {
        if (!x.contains(s.x[i]) || !y.contains(s.band_low[i]) || !y.contains(s.band_high[i])) continue;
        there += format("%s%.2f %.2f", there.empty() ? "M" : "L", px(s.x[i]), py(s.band_high[i]));
        back = format("L%.2f %.2f", px(s.x[i]), py(s.band_low[i])) + back;
      }
      if (there.empty()) continue;
      o += "<path d=\"" + there + back + "Z\" fill=\"" + colours[k % colours.size()] +
           "\" fill-opacity=\"0.16\"/>\n";
    }
    for (std::size_t k = 0; k < series_.size(); ++k) {
      const PlotSeries& s = series_[k];
      const std::string colour = colours[k % colours.size()];
      const Marker marker = s.marker.value_or(static_cast<Marker>(k % 4));
      std::string path, marks;
      bool pen_down = false;
      for (std::size_t i = 0; i < s.x.size(); ++i) {
        if (!x.contains(s.x[i]) || !y.contains(s.y[i])) {
          pen_down = false;
          continue;
        }
        const double cx = px(s.x[i]), cy = py(s.y[i]);
        path += format("%s%.2f %.2f", pen_down ? "L" : "M", cx, cy);
        pen_down = true;
        if (!s.y_error.empty() && s.y_error[i] > 0) {
          const double low = y.logarithmic && s.y[i] - s.y_error[i] <= 0 ? y.low : s.y[i] - s.y_error[i];
          const double a = py(low), b = py(s.y[i] + s.y_error[i]);
          marks += line(cx, a, cx, b, colour, 1.3) + line(cx - 4, a, cx + 4, a, colour, 1.3) +
                   line(cx - 4, b, cx + 4, b, colour, 1.3);
        }
        marks += mark(marker, cx, cy, colour);
        if (!s.labels.empty() && !s.labels[i].empty()) {
          marks += text(cx + 8, cy - 7, s.labels[i], "font-size=\"11.5\" fill=\"" + colour + "\"");
        }
      }
      if (s.line && !path.empty()) {
        o += "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + colour +
             "\" stroke-width=\"2\" stroke-linejoin=\"round\"" +
             (s.dashed ? " stroke-dasharray=\"7 4\"" : "") + "/>\n";
      }
      o += marks;
    }
    o += "</g>\n";

    double row = frame.top + 8;
    for (std::size_t k = 0; k < series_.size(); ++k) {
      const PlotSeries& s = series_[k];
      if (s.name.empty()) continue;
      const double at = frame.left + frame.width + 16;
      const std::string colour = colours[k % colours.size()];
      if (s.line) o += line(at, row, at + 24, row, colour, 2, s.dashed ? "7 4" : "");
      o += mark(s.marker.value_or(static_cast<Marker>(k % 4)), at + 12, row, colour);
      o += text(at + 32, row + 4.5, s.name, "");
      row += 22;
    }
    return o + "</svg>\n";
  }

  void write(const std::filesystem::path& path) const { write_file(path, svg()); }

 private:
  static constexpr double plot_width = 560, plot_height = 360;
  static constexpr std::array<const char*, 8> colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                         "#e69f00", "#56b4e9", "#000000", "#8c6d31"};

  struct Frame {
    double left, top, width, height;
  };
  struct Reference {
    double y;
    std::string name;
  };
  struct Tick {
    double value;
    bool major;
    std::string label;  ///< empty: a grid line only
  };

  struct Axis {
    std::string label;
    bool logarithmic = false;
    bool only_whole = false;  ///< ticks at whole numbers, whatever the values are
    bool whole = false;       ///< the same since all values are whole numbers
    double low = std::numeric_limits<double>::quiet_NaN(), high = low;

    bool contains(double v) const { return std::isfinite(v) && (!logarithmic || v > 0); }
    double scale(double v) const { return logarithmic ? std::log10(v) : v; }
    /// 0 at the low end, 1 at the high.
    double position(double v) const { return (scale(v) - scale(low)) / (scale(high) - scale(low)); }

    std::vector<Tick> ticks() const { return logarithmic ? logarithmic_ticks() : linear_ticks(); }

   private:
    std::vector<Tick> linear_ticks() const {
      const double rough = (high - low) / 6;
      const double power = std::pow(10, std::floor(std::log10(rough)));
      const double factor = rough / power;
      double step = power * (factor < 1.5 ? 1 : factor < 3.5 ? 2 : factor < 7.5 ? 5 : 10);
      if (whole || only_whole) step = std::max(step, 1.0);
      std::vector<Tick> result;
      for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
        result.push_back({i * step, true, number(i * step, step)});
      }
      return result;
    }

    std::vector<Tick> logarithmic_ticks() const {
      const int first = static_cast<int>(std::floor(std::log10(low) + 1e-9));
      const int last = static_cast<int>(std::ceil(std::log10(high) - 1e-9));
      const bool few = std::log10(high / low) < 2.2;  // then 2 and 5 get numbers as well
      std::vector<Tick> result;
      for (int e = first; e <= last; ++e) {
        for (int digit = 1; digit <= 9; ++digit) {
          const double value = digit * std::pow(10, e);
          if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
          const bool numbered = digit == 1 || (few && (digit == 2 || digit == 5));
          result.push_back({value, digit == 1, numbered ? number(value, value) : ""});
        }
      }
      return result;
    }

    /// A number with as many decimals as the step needs; thousands separated, powers of ten where huge or
    /// tiny.
    static std::string number(double value, double step) {
      const double size = std::abs(value);
      if (size != 0 && (size >= 1e7 || size < 1e-4)) return format("%.3g", value);
      if (size >= 1000 && std::abs(value - std::round(value)) < 1e-6) return with_commas(std::llround(value));
      const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
      return format("%.*f", decimals, size < step * 1e-6 ? 0.0 : value);
    }
  };

  /// Sets the ends of an axis from the data where the caller left them open, with a margin.
  template <class Values>
  void fit_axis(Axis& axis, const Values& values, const std::vector<Reference>& references) const {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    axis.whole = true;
    const auto include = [&](double v) {
      if (!axis.contains(v)) return;
      low = std::min(low, v);
      high = std::max(high, v);
      axis.whole = axis.whole && v == std::round(v);
    };
    for (const auto& s : series_) {
      for (std::size_t i = 0; i < s.x.size(); ++i) {
        if (!x_.contains(s.x[i]) || !y_.contains(s.y[i])) continue;
        const auto [a, b] = values(s, i);
        include(a);
        include(b);
      }
    }
    for (const auto& r : references) include(r.y);
    if (low > high) low = high = 1;
    if (axis.logarithmic) {
      const double margin = std::max(std::pow(high / low, 0.06), 1.1);
      low /= margin;
      high *= margin;
    } else {
      const double margin = high > low ? 0.06 * (high - low) : std::max(0.5, 0.1 * std::abs(high));
      // An axis that nearly touches zero begins there.
      low = low >= 0 && low < 0.35 * high ? 0 : low - margin;
      high += margin;
    }
    if (std::isnan(axis.low)) axis.low = low;
    if (std::isnan(axis.high)) axis.high = high;
  }

  static std::string escaped(const std::string& raw) {
    std::string result;
    for (char c : raw) {
      switch (c) {
        case '&':
          result += "&amp;";
          break;
        case '<':
          result += "&lt;";
          break;
        case '>':
          result += "&gt;";
          break;
        default:
          result += c;
      }
    }
    return result;
  }

  static std::string text(double x, double y, const std::string& content, const std::string& attributes) {
    return format("<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes.c_str()) + escaped(content) +
           "</text>\n";
  }

  static std::string line(double x1, double y1, double x2, double y2, const std::string& colour, double width,
                          const std::string& dashes = "") {
    return format("<path d=\"M%.2f %.2fL%.2f %.2f\" stroke=\"%s\" stroke-width=\"%.1f\"", x1, y1, x2, y2,
                  colour.c_str(), width) +
           (dashes.empty() ? "" : " stroke-dasharray=\"" + dashes + "\"") + "/>\n";
  }

  static std::string mark(Marker marker, double x, double y, const std::string& colour) {
    const std::string paint = format("fill=\"%s\" stroke=\"#fff\" stroke-width=\"1\"", colour.c_str());
    switch (marker) {
      case Marker::circle:
        return format("<circle cx=\"%.2f\" cy=\"%.2f\" r=\"5\" %s/>\n", x, y, paint.c_str());
      case Marker::square:
        return format("<rect x=\"%.2f\" y=\"%.2f\" width=\"9\" height=\"9\" %s/>\n", x - 4.5, y - 4.5,
                      paint.c_str());
      case Marker::diamond:
        return format("<path d=\"M%.2f %.2fl6 6l-6 6l-6 -6z\" %s/>\n", x, y - 6, paint.c_str());
      case Marker::triangle:
        return format("<path d=\"M%.2f %.2fl6 10h-12z\" %s/>\n", x, y - 6.5, paint.c_str());
      case Marker::none:
        break;
    }
    return "";
  }

  std::string title_, subtitle_;
  Axis x_, y_;
  std::vector<Reference> references_;
  std::vector<PlotSeries> series_;
};

}  // namespace examples
