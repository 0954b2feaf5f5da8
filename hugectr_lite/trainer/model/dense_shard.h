// DenseShard: what a sharded optimizer (solver.shard_optimizer) exchanges. Each rank gets the
// summed gradients of its part of the dense parameters, updates these alone, with states of no
// others, and all gather the parameters, in float whatever gradients travel in; working copies in
// 16 bits are then rounded by every rank.
#pragma once

#include "hugectr_lite/comm/sharded_sum.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/tensor_ref.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::trainer {

class DenseShard {
 public:
  // `wire`: what gradients travel in.
  DenseShard(const comm::RankContext& ranks, comm::Route route, FloatType wire);

  // Declares buffers for `count` parameters, whose gradients steps write to `gradients`.
  void declare(plan::Buffers& buffers, plan::BufferId gradients, int64_t count);
  // Adds the step "reduce_scatter". Collective.
  void emit_sum(plan::Plan& plan);
  // Adds the step "gather_weights": the parts of `weights`.
  void emit_gather(plan::Plan& plan, plan::BufferId weights);

  // Returns this rank's part of the parameters, as of all buffers of that layout.
  [[nodiscard]] comm::Slice own() const { return part_of(ranks_.rank); }
  // Their gradients, summed: float [own().size()].
  [[nodiscard]] plan::BufferId gradients() const { return summed_; }
  // A tensor for files, whose elements are those of the parameters from `first` on, of a buffer
  // that has them for this rank's part. Reading it is collective, as for tables on several ranks.
  [[nodiscard]] TensorRef tensor(TensorRef ref, plan::BufferId id, int64_t first) const;
  // "dense_reduce_scatter" and "dense_all_gather", after so many training runs.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic(int64_t runs) const;

 private:
  [[nodiscard]] comm::Slice part_of(int rank) const;
  void sum(const Exec& exec) const;

  const comm::RankContext ranks_;
  const size_t unit_;  // floats that stay together: in bf16 a word
  const std::unique_ptr<comm::ShardedSum> exchange_;
  const plan::Buffers* buffers_ = nullptr;
  size_t count_ = 0;
  plan::BufferId all_ = plan::kNoBuffer, summed_ = plan::kNoBuffer;
  plan::BufferId narrow_all_ = plan::kNoBuffer, narrow_summed_ = plan::kNoBuffer;  // in bf16
  mutable int64_t calls_ = 0;                                                      // calls of sum()
};

}  // namespace hlite::trainer
