#include "hugectr_lite/trainer/report/gpu_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

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

void add_chart(Json& charts, const std::vector<GpuEvent>& events, const char* title,
               StateMember value) {
  Json lines = Json::array();
  bool any = false;
  for (size_t g = 0; g < events.front().gpus.size(); ++g) {
    Json points = Json::array();
    for (const GpuEvent& e : events)
      if (const auto& x = e.gpus[g].*value) points.push_back({e.iter, *x});
    any = any || !points.empty();
    lines.push_back({{"name", fmt::format("GPU {}", events.front().gpus[g].device)},
                     {"points", std::move(points)}});
  }
  if (any)
    charts.push_back(
        {"chart", {{"title", title}, {"x", "iteration"}, {"zero", true}, {"lines", lines}}});
}

Json row_of_gpu(const std::vector<GpuEvent>& events, size_t g) {
  OverRun watts, clock, heat;
  std::set<std::string> slowed;
  for (const GpuEvent& e : events) {
    const GpuState& gpu = e.gpus[g];
    watts.add(gpu.watts);
    clock.add(gpu.sm_mhz);
    heat.add(gpu.celsius);
    slowed.insert(gpu.slowed_by.begin(), gpu.slowed_by.end());
  }
  return {events.front().gpus[g].device, watts.text(), clock.text(), heat.text(),
          slowed.empty() ? "nothing" : fmt::format("{}", fmt::join(slowed, ", "))};
}

}  // namespace

Json gpu_section(const std::vector<GpuEvent>& events) {
  if (events.empty()) return "";
  Json charts = {"div.charts"}, rows = Json::array();
  add_chart(charts, events, "Power, W", &GpuState::watts);
  add_chart(charts, events, "Clock, MHz", &GpuState::sm_mhz);
  add_chart(charts, events, "Temperature, C", &GpuState::celsius);
  for (size_t g = 0; g < events.front().gpus.size(); ++g) rows.push_back(row_of_gpu(events, g));
  return section("GPUs", charts,
                 Json{"p.soft", "At the moments of the lines shown: mean, and least to most."},
                 Json{"table", {"GPU", "W", "MHz", "C", "slowed by"}, rows, {4}});
}

}  // namespace hlite::trainer
