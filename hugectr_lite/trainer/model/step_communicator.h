// StepCommunicator: the communicator of one step of a plan, and what the step has sent.
#pragma once

#include <memory>

#include "hugectr_lite/comm/rank_context.h"

namespace hlite::trainer {

// Traffic of `runs` runs of a step, from what its `calls` calls counted. On GPUs a captured call is
// launched many times, which its communicator does not see; all launches are alike.
inline comm::TrafficTotals traffic_of_runs(const comm::RankContext& ranks,
                                           const comm::TrafficTotals& of_calls, int64_t runs,
                                           int64_t calls) {
  return ranks.devices && calls > 0 ? comm::scaled(of_calls, runs, calls) : of_calls;
}

class StepCommunicator {
 public:
  // Collective.
  StepCommunicator(const comm::RankContext& ranks, comm::Route route)
      : ranks_(ranks), communicator_(ranks.make_communicator(route)) {}

  // The communicator, for the one call of a run.
  comm::Communicator& call() {
    ++calls_;
    return *communicator_;
  }
  [[nodiscard]] comm::TrafficTotals traffic(int64_t runs) const {
    return traffic_of_runs(ranks_, communicator_->traffic(), runs, calls_);
  }

 private:
  const comm::RankContext ranks_;
  const std::unique_ptr<comm::Communicator> communicator_;
  int64_t calls_ = 0;
};

}  // namespace hlite::trainer
