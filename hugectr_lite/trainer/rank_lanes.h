// Runs a rank's plans with a thread for each lane, so that exchanges between ranks overlap with
// computing.
#pragma once

#include <exception>
#include <string>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/plan/lane_executor.h"

namespace hlite::trainer {

class RankLanes {
 public:
  // `compute`: where the compute lane runs; the embedding lane gets as many threads of its own.
  RankLanes(const Exec& compute, int threads, const comm::RankContext& ranks)
      : embedding_(threads),
        comm_(1),
        weights_(1),
        copy_(1),
        executor_({compute, on(embedding_), on(comm_), on(weights_), on(copy_)},
                  [ranks] { end_exchanges(ranks); }) {}

  void run(const plan::Plan& plan, const plan::StepContext& context) {
    executor_.run(plan, context);
  }

 private:
  static Exec on(ThreadPool& pool) { return {.device = Device::kCpu, .pool = &pool}; }
  // Another lane of this rank may be waiting for others, who will never come.
  static void end_exchanges(const comm::RankContext& ranks) {
    try {
      throw;
    } catch (const std::exception& e) {
      ranks.world->abort(fmt::format("rank {}: {}", ranks.rank, e.what()));
    }
  }

  ThreadPool embedding_, comm_, weights_, copy_;
  plan::LaneExecutor executor_;
};

}  // namespace hlite::trainer
