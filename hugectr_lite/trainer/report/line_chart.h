// A line chart as inline SVG, in the colours of the page that it stands in.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hlite::trainer {

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points = {};  // x, y; what is not finite is left out
  bool marks = false;                                  // a dot on every point, with its value
};

struct LineChart {
  std::string title, x_name;
  std::vector<ChartLine> lines = {};
  bool from_zero = false;  // the y axis
};

std::string svg_of(const LineChart& chart);

// Writes &, <, >, " and ' so that they are text, in content and in quoted attributes.
std::string html_escaped(std::string_view text);
// A number for people: 12345.6 -> "12.3k", 0.000123 -> "0.000123".
std::string short_number(double x);

}  // namespace hlite::trainer
