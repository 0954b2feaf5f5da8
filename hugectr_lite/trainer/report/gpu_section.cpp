#include "hugectr_lite/trainer/report/gpu_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "hugectr_lite/trainer/report/line_chart.h"

namespace hlite::trainer {
namespace {

using StateMember = std::optional<double> GpuState::*;

// Over a run, of one GPU.
struct OverRun {
  double least = 0, most = 0, sum = 0;
  int64_t count = 0;
  void add(const std::optional<double>& x) {
    if (!x) return;
    least = count > 0 ? std::min(least, *x) : *x;
    most = count > 0 ? std::max(most, *x) : *x;
    sum += *x;
    ++count;
  }
  [[nodiscard]] std::string text() const {
    if (count == 0) return "not reported";
    return fmt::format("{:.0f} ({:.0f} to {:.0f})", sum / static_cast<double>(count), least, most);
  }
};

std::string chart_of(const std::vector<GpuEvent>& events, const char* title, StateMember value) {
  std::vector<ChartLine> lines;
  bool any = false;
  for (size_t g = 0; g < events.front().gpus.size(); ++g) {
    lines.push_back({.name = fmt::format("GPU {}", events.front().gpus[g].device)});
    for (const GpuEvent& e : events)
      if (const auto& x = e.gpus[g].*value) {
        lines.back().points.emplace_back(static_cast<double>(e.iter), *x);
        any = true;
      }
  }
  return any ? svg_of({title, "iteration", std::move(lines), true}) : "";
}

std::string row_of_gpu(const std::vector<GpuEvent>& events, size_t g) {
  OverRun watts, clock, heat;
  std::set<std::string> slowed;
  for (const GpuEvent& e : events) {
    const GpuState& gpu = e.gpus[g];
    watts.add(gpu.watts);
    clock.add(gpu.sm_mhz);
    heat.add(gpu.celsius);
    slowed.insert(gpu.slowed_by.begin(), gpu.slowed_by.end());
  }
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"words\">{}</td></tr>\n",
      events.front().gpus[g].device, watts.text(), clock.text(), heat.text(),
      slowed.empty() ? "nothing" : html_escaped(fmt::format("{}", fmt::join(slowed, ", "))));
}

}  // namespace

std::string gpu_section(const std::vector<GpuEvent>& events) {
  if (events.empty()) return "";
  std::string rows;
  for (size_t g = 0; g < events.front().gpus.size(); ++g) rows += row_of_gpu(events, g);
  return "<div class=\"charts\">\n" + chart_of(events, "Power, W", &GpuState::watts) +
         chart_of(events, "Clock, MHz", &GpuState::sm_mhz) +
         chart_of(events, "Temperature, C", &GpuState::celsius) +
         "</div>\n<p class=\"soft\">At the moments of the lines shown: mean, and least to "
         "most.</p>\n"
         "<div class=\"wide\"><table>\n<tr><th>GPU</th><th>W</th><th>MHz</th><th>C</th>"
         "<th class=\"left\">slowed by</th></tr>\n" +
         rows + "</table></div>\n";
}

}  // namespace hlite::trainer
