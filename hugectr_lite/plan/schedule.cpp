#include "hugectr_lite/plan/schedule.h"

#include <algorithm>
#include <array>

#include "hugectr_lite/core/error.h"

namespace hlite::plan {
namespace {

// Until when something is taken, and by which step.
struct Taken {
  double until = 0;
  int by = -1;
};

}  // namespace

Schedule schedule(const Plan& plan, std::span<const StepCost> costs, bool lanes) {
  const auto steps = plan.steps();
  HLITE_CHECK(costs.size() == steps.size(), "{} costs for {} steps", costs.size(), steps.size());
  Schedule result;
  result.steps.resize(steps.size());
  std::array<Taken, kLanes> lane;
  Taken device;
  std::vector<bool> placed(steps.size(), false);
  const auto ready = [&](size_t i) {
    const Taken& own = lane[lanes ? static_cast<size_t>(steps[i].lane) : 0];
    Taken from = own;
    for (const int before : steps[i].after)
      if (const double end = result.steps[static_cast<size_t>(before)].end; end > from.until)
        from = {end, before};
    return from;
  };
  const auto after_placed = [&](size_t i) {
    return std::all_of(steps[i].after.begin(), steps[i].after.end(),
                       [&](int before) { return placed[static_cast<size_t>(before)]; });
  };
  // The first step left in a lane that comes to the device first is placed next.
  for (size_t done = 0; done < steps.size(); ++done) {
    std::array<bool, kLanes> seen{};
    int next = -1;
    Taken next_from;
    for (size_t i = 0; i < steps.size(); ++i) {
      bool& of_lane = seen[lanes ? static_cast<size_t>(steps[i].lane) : 0];
      if (placed[i] || of_lane) continue;
      of_lane = true;
      if (!after_placed(i)) continue;
      const Taken from = ready(i);
      if (next < 0 ||
          from.until + costs[i].wait < next_from.until + costs[static_cast<size_t>(next)].wait) {
        next = static_cast<int>(i);
        next_from = from;
      }
    }
    const auto i = static_cast<size_t>(next);
    auto& times = result.steps[i];
    const StepCost& cost = costs[i];
    times.begin = next_from.until;
    times.held_up_by = next_from.by;
    double at_work = times.begin + cost.wait;
    if (cost.device > 0) {
      if (device.until > at_work) {
        at_work = device.until;
        times.held_up_by = device.by;
      }
      device = {at_work + cost.device, next};
    }
    times.end = at_work + cost.device;
    lane[lanes ? static_cast<size_t>(steps[i].lane) : 0] = {times.end, next};
    result.seconds = std::max(result.seconds, times.end);
    placed[i] = true;
  }
  return result;
}

std::vector<int> Schedule::critical_path() const {
  const auto last = std::max_element(steps.begin(), steps.end(),
                                     [](const auto& a, const auto& b) { return a.end < b.end; });
  std::vector<int> path;
  for (auto i = steps.empty() ? -1 : static_cast<int>(last - steps.begin()); i >= 0;
       i = steps[static_cast<size_t>(i)].held_up_by)
    path.insert(path.begin(), i);
  return path;
}

}  // namespace hlite::plan
