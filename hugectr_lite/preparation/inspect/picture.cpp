#include "hugectr_lite/preparation/inspect/picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace hlite::prep {
namespace {

// Returns, of `rows` rows, the k at `x` in [0, 1] of a logarithmic axis from 1 to `rows`.
int64_t rows_at(double x, int64_t rows) {
  return std::max<int64_t>(1, std::llround(std::pow(static_cast<double>(rows), x)));
}

std::string power_of_ten(int exponent) {
  static constexpr const char* kNames[] = {"1",  "10",  "100",  "1k", "10k", "100k",
                                           "1M", "10M", "100M", "1G", "10G", "100G"};
  return exponent < 12 ? kNames[exponent] : fmt::format("1e{}", exponent);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

}  // namespace

std::string skew_picture(const Skew& skew, int width, int height) {
  if (skew.curve.empty()) return "";
  static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (int line = height - 1; line >= 0; --line) {
    text += line == height - 1 ? "100 % |" : line == 0 ? "  0 % |" : "      |";
    for (int column = 0; column < width; ++column) {
      const double share =
          skew.share_of(rows_at(static_cast<double>(column) / (width - 1), skew.rows));
      const int eighths = static_cast<int>(std::lround(share * height * 8)) - line * 8;
      text += kBlocks[std::clamp(eighths, 0, 8)];
    }
    text += '\n';
  }
  // Marks under the powers of ten.
  std::string marks(static_cast<size_t>(width) + 12, ' ');
  const double decades = std::log10(std::max<double>(2, static_cast<double>(skew.rows)));
  size_t next = 0;
  for (int e = 0; e <= decades; ++e) {
    const auto at = static_cast<size_t>(std::lround(e / decades * (width - 1)));
    const std::string name = power_of_ten(e);
    if (at < next || at + name.size() > marks.size()) continue;
    marks.replace(at, name.size(), name);
    next = at + name.size() + 1;
  }
  marks.erase(marks.find_last_not_of(' ') + 1);
  return text + "       " + marks + "\n       most frequent rows of all tables\n";
}

std::string skew_svg(const Skew& skew, const std::string& title) {
  constexpr int kWidth = 560, kHeight = 320, kLeft = 56, kTop = 36, kRight = 16, kBottom = 48;
  constexpr int kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
  const double decades = std::log10(std::max<double>(2, static_cast<double>(skew.rows)));
  const auto x = [&](double rows) { return kLeft + std::log10(rows) / decades * kPlotWidth; };
  const auto y = [&](double share) { return kTop + (1 - share) * kPlotHeight; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"20\" font-size=\"14\">{3}</text>\n",
      kWidth, kHeight, kLeft, escaped(title));
  for (int percent = 0; percent <= 100; percent += 25) {
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5} %</text>\n",
        kLeft, kLeft + kPlotWidth, y(percent / 100.0), kLeft - 6, y(percent / 100.0) + 4, percent);
  }
  for (int e = 0; e <= decades; ++e) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        x(std::pow(10, e)), kTop, kTop + kPlotHeight, kTop + kPlotHeight + 16, power_of_ten(e));
  }
  svg += "<polyline fill=\"none\" stroke=\"#1f6fb4\" stroke-width=\"2\" points=\"";
  for (const Skew::Point& p : skew.curve)
    svg += fmt::format("{:.1f},{:.1f} ", x(static_cast<double>(p.rows)), y(p.share));
  svg += fmt::format(
      "\"/>\n<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">most frequent rows of all "
      "tables</text>\n"
      "</svg>\n",
      kLeft + kPlotWidth / 2, kHeight - 10);
  return svg;
}

}  // namespace hlite::prep
