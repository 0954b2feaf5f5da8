#include "hugectr_lite/trainer/report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace hlite::trainer {
namespace {

constexpr double kWidth = 560, kHeight = 260, kLeft = 62, kRight = 14, kTop = 14, kBottom = 42;
constexpr size_t kMaxPoints = 1000;  // of a line: more than there are pixels

struct AxisRange {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void take(double x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
};

// The largest of 1, 2, 5 times a power of ten that cuts `span` into at least `parts`.
double nice_step(double span, int parts) {
  const double rough = span / parts, power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {5.0, 2.0})
    if (factor * power <= rough) return factor * power;
  return power;
}

class Axes {
 public:
  explicit Axes(const LineChart& chart) {
    for (const ChartLine& line : chart.lines)
      for (const auto& [px, py] : line.points)
        if (std::isfinite(px) && std::isfinite(py)) {
          x_.take(px);
          y_.take(py);
        }
    empty_ = x_.low > x_.high;
    if (empty_) return;
    if (chart.from_zero) y_.take(0);
    const double margin = std::max((y_.high - y_.low) * 0.06, std::abs(y_.high) * 1e-3 + 1e-12);
    y_.high += margin;
    if (!chart.from_zero || y_.low < 0) y_.low -= margin;
    if (x_.low == x_.high) x_.low -= 1, x_.high += 1;
  }
  [[nodiscard]] bool empty() const { return empty_; }
  [[nodiscard]] double x(double v) const {
    return kLeft + (v - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double v) const {
    return kHeight - kBottom - (v - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }
  [[nodiscard]] std::string grid() const {
    std::string svg;
    const double dy = nice_step(y_.high - y_.low, 4), dx = nice_step(x_.high - x_.low, 4);
    for (double v = std::ceil(y_.low / dy) * dy; v <= y_.high; v += dy)
      svg += fmt::format(
          R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text class="tick" text-anchor="end" x="{}" y="{:.1f}">{}</text>)",
          kLeft, kWidth - kRight, y(v), y(v), kLeft - 7, y(v) + 4,
          short_number(std::abs(v) < dy * 1e-6 ? 0 : v));
    for (double v = std::ceil(x_.low / dx) * dx; v <= x_.high; v += dx)
      svg += fmt::format(R"(<text class="tick" text-anchor="middle" x="{:.1f}" y="{}">{}</text>)",
                         x(v), kHeight - kBottom + 18, short_number(v));
    return svg;
  }

 private:
  AxisRange x_, y_;
  bool empty_ = true;
};

std::string line_svg(const ChartLine& line, size_t index, const Axes& axes) {
  // A piece of many points shows its lowest and highest: spikes stay.
  const size_t piece = std::max<size_t>(1, (2 * line.points.size() + kMaxPoints - 1) / kMaxPoints);
  std::vector<std::pair<double, double>> shown;
  for (size_t begin = 0; begin < line.points.size(); begin += piece) {
    const auto first = line.points.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = line.points.begin() +
                      static_cast<std::ptrdiff_t>(std::min(begin + piece, line.points.size()));
    auto [low, high] = std::minmax_element(
        first, last, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (high < low) std::swap(low, high);
    shown.push_back(*low);
    if (high != low) shown.push_back(*high);
  }
  std::string path, marks;
  bool pen_down = false;
  for (const auto& [px, py] : shown) {
    const bool finite = std::isfinite(px) && std::isfinite(py);
    if (finite)
      path += fmt::format("{}{:.1f},{:.1f}", pen_down ? 'L' : 'M', axes.x(px), axes.y(py));
    pen_down = finite;
    if (finite && line.marks)
      marks += fmt::format(
          R"(<circle class="s{}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}: {:.6g} at {}</title></circle>)",
          index, axes.x(px), axes.y(py), html_escaped(line.name), py, short_number(px));
  }
  return fmt::format(R"(<path class="s{}" d="{}"/>)", index, path) + marks;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string short_number(double x) {
  const double size = std::abs(x);
  if (size >= 1e9) return fmt::format("{:.4g}G", x * 1e-9);
  if (size >= 1e6) return fmt::format("{:.4g}M", x * 1e-6);
  if (size >= 1e4) return fmt::format("{:.4g}k", x * 1e-3);
  return fmt::format("{:.4g}", x);
}

std::string svg_of(const LineChart& chart) {
  const Axes axes(chart);
  std::string legend;
  for (size_t i = 0; i < chart.lines.size() && chart.lines.size() > 1; ++i)
    legend +=
        fmt::format(R"(<span class="key s{}">{}</span>)", i, html_escaped(chart.lines[i].name));
  std::string body;
  if (axes.empty()) {
    body =
        fmt::format(R"(<text class="tick" text-anchor="middle" x="{}" y="{}">nothing yet</text>)",
                    kWidth / 2, kHeight / 2);
  } else {
    body =
        axes.grid() + fmt::format(R"(<text class="tick" text-anchor="end" x="{}" y="{}">{}</text>)",
                                  kWidth - kRight, kHeight - 6, html_escaped(chart.x_name));
    for (size_t i = 0; i < chart.lines.size(); ++i) body += line_svg(chart.lines[i], i, axes);
  }
  return fmt::format(
      "<figure><figcaption>{0}{1}</figcaption><svg viewBox=\"0 0 {2} {3}\" role=\"img\" "
      "aria-label=\"{0}\">{4}</svg></figure>\n",
      html_escaped(chart.title), legend, kWidth, kHeight, body);
}

}  // namespace hlite::trainer
