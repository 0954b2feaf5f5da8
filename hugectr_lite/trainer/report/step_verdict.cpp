#include "hugectr_lite/trainer/report/step_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hlite::trainer {
namespace {

constexpr double kMuchWaiting = 0.1;           // of the time: the reader is what bounds the run
constexpr double kSmall = 0.01;                // of an iteration: not worth a word
constexpr double kNear = 0.6, kHalfWay = 0.3;  // lower bound / time

const char* name_of(StepBound bound) {
  switch (bound) {
    case StepBound::kProducts:
      return "matrix products";
    case StepBound::kMemory:
      return "memory";
    case StepBound::kExchange:
      return "exchanges between ranks";
    case StepBound::kNothing:
      break;
  }
  return "small steps";
}

const char* advice_for(StepBound bound) {
  switch (bound) {
    case StepBound::kProducts:
      return "\"precision\": \"bf16\" where the processor multiplies it faster (train --check says "
             "so), more threads, or narrower layers";
    case StepBound::kMemory:
      return "bf16 activations, fewer or narrower embedding vectors, or memory on more channels; "
             "more threads help little";
    case StepBound::kExchange:
      return "\"enable_overlap\": true, a larger batch, or a sharding that sends less "
             "(train --traffic, train --estimate)";
    case StepBound::kNothing:
      break;
  }
  return "a larger batch: its steps are too small for the machine";
}

}  // namespace

StepVerdict verdict_of(const StepTime& step, const MachineRates& rates, double iteration) {
  StepVerdict v;
  const double share = iteration > 0 ? step.seconds / iteration : 0;
  if (step.exchange) {
    v.bound = StepBound::kExchange;
    v.words = step.sent > 0 && step.seconds > 0
                  ? fmt::format("sends {:.2f} MB: {:.1f} MB/s with waiting for others",
                                step.sent * 1e-6, step.sent / step.seconds * 1e-6)
                  : "waits for other ranks";
    return v;
  }
  const double products = rates.flops > 0 ? step.flops / rates.flops : 0,
               memory = rates.bytes > 0 ? step.bytes / rates.bytes : 0;
  v.lower_bound_seconds = std::max(products, memory);
  v.bound = v.lower_bound_seconds == 0 ? StepBound::kNothing
            : products > memory        ? StepBound::kProducts
                                       : StepBound::kMemory;
  const double reached = step.seconds > 0 ? v.lower_bound_seconds / step.seconds : 0;
  if (share < kSmall)
    v.words = "small";
  else if (reached > 1)
    v.words = "its data stay in caches";
  else if (reached >= kNear)
    v.words = fmt::format("close to what {} give{}", name_of(v.bound),
                          v.bound == StepBound::kMemory ? "s" : "");
  else if (reached >= kHalfWay)
    v.words = fmt::format("half-way to its lower bound ({})", name_of(v.bound));
  else
    v.words = "far from its lower bound: random rows, or too little work for the threads";
  return v;
}

RunVerdict verdict_of(const std::vector<StepTime>& steps, const MachineRates& rates,
                      double wait_share) {
  if (wait_share > kMuchWaiting)
    return {
        fmt::format("the data: {:.0f} % of the time went by waiting for batches", 100 * wait_share),
        "more reader threads (async_param.num_threads), a faster disk, or data in memory"};
  std::array<double, 4> seconds = {};
  double all = 0;
  for (const StepTime& step : steps) all += step.seconds;
  if (all == 0) return {"nothing that was timed", "time the steps with train_bench"};
  for (const StepTime& step : steps)
    seconds[static_cast<size_t>(verdict_of(step, rates, all).bound)] += step.seconds;
  const auto most = std::max_element(seconds.begin(), seconds.end());
  const auto bound = static_cast<StepBound>(most - seconds.begin());
  return {fmt::format("{}: {:.0f} % of the steps' time", name_of(bound), 100 * *most / all),
          advice_for(bound)};
}

}  // namespace hlite::trainer
