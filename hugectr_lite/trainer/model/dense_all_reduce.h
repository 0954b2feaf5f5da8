// DenseAllReduce: sums the gradients of the dense network over ranks, with the words of RunStatus
// and, where the config groups them, the gradients of replicated rows (replicated_row_sum.h). With
// a sharded optimizer each rank gets the sums of its own parameters alone (dense_shard.h).
#pragma once

#include <memory>
#include <vector>

#include "hugectr_lite/trainer/model/dense_shard.h"
#include "hugectr_lite/trainer/model/run_status.h"
#include "hugectr_lite/trainer/model/summed_buffer.h"

namespace hlite::trainer {

class DenseAllReduce {
 public:
  // `sharded`: solver.shard_optimizer.
  DenseAllReduce(const comm::RankContext& ranks, const SumOptions& options, bool sharded);

  // Declares `bytes` of gradients, and `grouped` bytes of others that travel with them.
  void declare(plan::Buffers& buffers, int64_t bytes, int64_t grouped);
  // The network's gradients.
  [[nodiscard]] plan::BufferId gradients() const { return gradients_; }
  // RunStatus::kWords floats that travel with them.
  [[nodiscard]] plan::BufferId words() const { return reduced_.words(); }
  // The summed buffer: the others lie in it from grouped_at() on.
  [[nodiscard]] const SummedBuffer& reduced() const { return reduced_; }
  [[nodiscard]] int64_t grouped_at() const { return grouped_at_; }
  // Null where every rank updates all parameters.
  [[nodiscard]] DenseShard* shard() const { return shard_.get(); }

  // Adds the step "all_reduce", after which the loss is the sum over ranks, and "reduce_scatter" of
  // a sharded optimizer. `status` must outlive the plan. Collective.
  void emit(plan::Plan& plan, plan::BufferId loss, const RunStatus& status);
  // "dense_all_reduce" without the grouped bytes, and DenseShard::traffic().
  [[nodiscard]] std::vector<comm::StepTraffic> traffic(int64_t runs) const;

 private:
  const std::unique_ptr<DenseShard> shard_;
  SummedBuffer reduced_;
  plan::BufferId gradients_ = plan::kNoBuffer;
  int64_t grouped_at_ = 0, grouped_ = 0;
};

}  // namespace hlite::trainer
