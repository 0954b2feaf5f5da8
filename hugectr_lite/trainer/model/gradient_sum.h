// What the ranks of a run add up in an iteration: the gradients of the dense network and of the
// copied embedding rows, in one all-reduce where the config wants them grouped. The loss and a wish
// to stop travel with the gradients: every rank learns of both without a message of its own. With a
// sharded optimizer (dense_shard.h) dense gradients are summed apart, each rank's own part of them.
// Gradients travel in float or bf16 (solver.wire_precision); loss and wish always in float.
// Layers whose numbers are those of the whole batch exchange their sums by it, too.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "embedding/sharded_steps.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/dense_shard.h"
#include "hugectr_lite/trainer/model/plan_part.h"
#include "hugectr_lite/trainer/model/run_notices.h"

namespace hlite::trainer {

class GradientSum final : public PlanPart, public network::RankGather {
 public:
  // Of those layers, which must outlive it. `wants_to_stop`: whether this rank was asked to.
  // `gpu`: where the model runs; null: the CPU. Among GPUs sums are in two phases.
  GradientSum(comm::RankContext ranks, const config::TrainConfig& config, const ModelLayers& layers,
              std::function<bool()> wants_to_stop, const cuda::Backend* gpu);

  // Says to the tables where their copied rows' gradients go, too.
  void declare(plan::Buffers& buffers) override;
  // The steps "all_reduce" and, without grouping, "<layer>.copied_gradients.all_reduce". The loss
  // is a sum over ranks afterwards. On GPUs also "notice", behind the lookups. Collective.
  void emit(plan::Plan& plan, Stage stage, network::Phase phase) override;
  [[nodiscard]] int ranks() const override { return ranks_.ranks(); }
  void add_gather_step(plan::Plan& plan, const std::string& name, plan::BufferId mine,
                       plan::BufferId all) override;
  // Of a sharded optimizer; else null.
  [[nodiscard]] DenseShard* shard() const { return shard_.get(); }
  // float, on GPUs: what a rank has to say of overflow in gradients, before they are summed, and
  // the sum of all ranks' behind it.
  [[nodiscard]] plan::BufferId found() const { return found_; }
  // Where the network's gradients must go.
  [[nodiscard]] plan::BufferId dense_gradients() const { return dense_gradients_; }
  // int32: embedding::TablesIo::overflow.
  [[nodiscard]] plan::BufferId overflow() const { return overflow_; }

  // Before each run of a plan.
  void begin_run();
  // Whether an exchange of the run that was issued last had too little room. On a GPU, whose
  // executor's `exec` is given, waits for the run's first steps; collective. `look`: called, and
  // may throw, where the run counts for nothing, which may also be for a full table of this rank.
  [[nodiscard]] bool overflowed(const Exec& exec, const std::function<void()>& look);
  void clear_overflow() const { buffers_->set_value<int32_t>(overflow_, 0); }
  // A training run that counts has been issued.
  void count_run() { ++runs_; }

  // Whether any rank wanted to stop when the steps ran last; on GPUs, in the iteration before.
  [[nodiscard]] bool stop_requested() const;
  // "<layer>.copies_all_reduce" and "dense_all_reduce", or DenseShard::traffic(); a grouped one is
  // counted by what its parts have of it. "dense_layer_sums": what layers gather, where any does.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic() const;

 private:
  static constexpr int64_t kScalars = 3;  // loss, wants to stop, overflow found
  struct Copied {
    std::string layer;
    embedding::ShardedSteps* tables;
  };
  struct Reduced {
    plan::BufferId id;
    plan::BufferId wire = plan::kNoBuffer;  // what travels instead: the gradients in bf16
    std::unique_ptr<comm::Communicator> communicator = nullptr;  // of the step that sums it
    mutable int64_t calls = 0;  // of it: on a GPU one may be launched many times
  };
  // Gradients of so many bytes as they travel.
  [[nodiscard]] int64_t wire_bytes(int64_t bytes) const {
    return bytes / kFloatBytes * float_type_bytes(wire_);
  }
  [[nodiscard]] int64_t sent_bytes(const Reduced& reduced) const {
    return buffers_->bytes(reduced.wire == plan::kNoBuffer ? reduced.id : reduced.wire);
  }
  void declare_first(plan::Buffers& buffers);
  void declare_copied(plan::Buffers& buffers, int64_t at);
  void all_reduce(const Exec& exec, const Reduced& reduced) const;
  void sum_dense(const Exec& exec) const;
  void emit_notice(plan::Plan& plan);
  [[nodiscard]] comm::TrafficTotals of_runs(const comm::TrafficTotals& t, int64_t calls) const;
  [[nodiscard]] plan::SentBytes sends(const Reduced& reduced) const;

  const comm::RankContext ranks_;
  const config::AllReduceConfig config_;
  const FloatType wire_;
  const comm::AllReduce algo_;
  const comm::Route route_;
  const ModelLayers& layers_;
  const std::function<bool()> wants_to_stop_;
  const plan::Buffers* buffers_ = nullptr;
  std::vector<Copied> copied_;
  std::unique_ptr<DenseShard> shard_;
  // The first one holds the dense gradients, if they are not sharded, and what is grouped with
  // them, `summed_` bytes, and loss and wish.
  std::vector<Reduced> reduced_;
  int64_t summed_ = 0;
  struct Gather {  // of a step
    std::unique_ptr<comm::Communicator> communicator;
    int64_t calls = 0;
  };
  std::vector<std::unique_ptr<Gather>> gathers_;
  plan::BufferId scalars_ = plan::kNoBuffer, dense_gradients_ = plan::kNoBuffer,
                 overflow_ = plan::kNoBuffer, found_ = plan::kNoBuffer;
  const cuda::Backend* const gpu_;
  plan::BufferId wish_ = plan::kNoBuffer;  // on GPUs: the sum of the last iteration's
  std::unique_ptr<RunNotices> notices_;
  bool stop_ = false;
  int64_t runs_ = 0;
};

}  // namespace hlite::trainer
