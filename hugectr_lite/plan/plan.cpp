#include "hugectr_lite/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite::plan {

const char* lane_name(Lane lane) {
  switch (lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kEmbedding:
      return "embedding";
    case Lane::kComm:
      return "comm";
    case Lane::kWeights:
      return "weights";
    case Lane::kCopy:
      return "copy";
  }
  return "";
}

void Plan::add(Step step) { steps_.push_back(std::move(step)); }

bool Plan::conflict(const Step& earlier, const Step& later) const {
  const auto touch = [&](const std::vector<BufferId>& a, const std::vector<BufferId>& b) {
    for (const BufferId x : a)
      for (const BufferId y : b)
        if (buffers_->overlap(x, y)) return true;
    return false;
  };
  return touch(earlier.writes, later.reads) || touch(earlier.reads, later.writes) ||
         touch(earlier.writes, later.writes);
}

void Plan::finalize() {
  const size_t n = steps_.size();
  before_.assign(n, std::vector<bool>(n, false));
  for (size_t b = 0; b < n; ++b) {
    Step& step = steps_[b];
    for (const BufferId id : step.reads) {
      const BufferKind kind = buffers_->kind(id);
      if (kind != BufferKind::kActivation && kind != BufferKind::kGradient) continue;
      bool written = buffers_->bytes(id) == 0;  // then there is nothing to write
      for (size_t a = 0; a < b && !written; ++a)
        for (const BufferId w : steps_[a].writes) written |= buffers_->overlap(w, id);
      HLITE_CHECK(written, "step {} reads {}, which no earlier step writes", step.name,
                  buffers_->name(id));
    }
    // Nearest conflicts first: what they already imply is not listed again.
    step.after.clear();
    for (size_t a = b; a-- > 0;) {
      if (before_[b][a] || !conflict(steps_[a], step)) continue;
      step.after.insert(step.after.begin(), static_cast<int>(a));
      before_[b][a] = true;
      for (size_t c = 0; c < a; ++c)
        if (before_[a][c]) before_[b][c] = true;
    }
  }
}

int Plan::index_of(const std::string& name) const {
  for (size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i].name == name) return static_cast<int>(i);
  raise("the plan has no step named {}", name);
}

bool Plan::may_overlap(int a, int b) const {
  const auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);
  return x != y && !before_[x][y] && !before_[y][x] && steps_[x].lane != steps_[y].lane;
}

static std::string bytes_text(double in_run, double per_sample) {
  if (per_sample == 0) return fmt::format("{:.0f} bytes", in_run);
  return fmt::format("{:.0f} bytes + {:.1f} a sample", in_run, per_sample);
}

std::string Plan::describe() const {
  const auto names = [&](const std::vector<BufferId>& ids) {
    std::vector<std::string> unique;
    for (const BufferId id : ids)
      if (std::find(unique.begin(), unique.end(), buffers_->name(id)) == unique.end())
        unique.push_back(buffers_->name(id));
    return fmt::format("{}", fmt::join(unique, ", "));
  };
  std::string out;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    out += fmt::format("{:3}  {:9}  {}\n       reads  {}\n       writes {}\n", i, lane_name(s.lane),
                       s.name, names(s.reads), names(s.writes));
    if (s.sends.any())
      out += fmt::format("       sends  {} in the node, {} between nodes\n",
                         bytes_text(s.sends.in_node, s.sends.in_node_per_sample),
                         bytes_text(s.sends.between, s.sends.between_per_sample));
    if (!s.after.empty()) out += fmt::format("       after  {}\n", fmt::join(s.after, ", "));
  }
  return out;
}

void run_step(const Step& step, const StepContext& context) {
  try {
    step.run(context);
  } catch (const TimeoutError& error) {
    raise<TimeoutError>(
        "{} in step {} of {}", error.what(), step.name,
        context.iteration > 0 ? fmt::format("iteration {}", context.iteration) : "an evaluation");
  }
}

void run_in_order(const Plan& plan, const StepContext& context, std::span<double> seconds) {
  const auto steps = plan.steps();
  if (seconds.empty()) {
    for (const Step& step : steps) run_step(step, context);
    return;
  }
  HLITE_CHECK(seconds.size() == steps.size(), "{} times for {} steps", seconds.size(),
              steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto start = Clock::now();
    run_step(steps[i], context);
    seconds[i] += seconds_since(start);
  }
}

}  // namespace hlite::plan
