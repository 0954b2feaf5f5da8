// KeysGather: the keys of the whole batch, on every rank (solver.input "broadcast"). Each rank has
// read and, on a GPU, copied in its own samples, so that the batch has crossed the bus once; here
// all get the others' keys from them, over the links between ranks.
//
//   keys_gather      keys of every rank -> [batch of all ranks, key columns]            comm
//
// A rank sends the room of its samples, whether a batch fills it or not: the sizes are the same on
// all ranks.
#pragma once

#include <memory>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/trainer/model/copy_in.h"
#include "hugectr_lite/trainer/model/plan_part.h"

namespace hlite::trainer {

class KeysGather final : public PlanPart {
 public:
  struct Room {  // samples of one rank
    int64_t train = 0, most = 0;
  };
  // `batch` must outlive the part. `columns`: keys of a sample.
  KeysGather(comm::RankContext ranks, const CopyIn& batch, int64_t columns, const Room& room,
             bool on_gpu)
      : ranks_(std::move(ranks)), batch_(batch), columns_(columns), room_(room), on_gpu_(on_gpu) {}

  void declare(plan::Buffers& buffers) override;
  // Collective.
  void emit(plan::Plan& plan, Stage stage, network::Phase phase) override;
  // uint32 [batch of all ranks, columns], the samples of rank 0 first.
  [[nodiscard]] plan::BufferId all_keys() const { return all_keys_; }

  // A run of a plan has been issued.
  void count_run(bool training) { ++(training ? train_ : eval_).runs; }
  [[nodiscard]] comm::StepTraffic traffic() const;

 private:
  struct Gather {  // of a plan
    std::unique_ptr<comm::Communicator> communicator = nullptr;
    int64_t calls = 0, runs = 0;  // on a GPU a call may be launched many times
  };
  [[nodiscard]] comm::TrafficTotals traffic_of(const Gather& gather) const;

  const comm::RankContext ranks_;
  const CopyIn& batch_;
  const int64_t columns_;
  const Room room_;
  const bool on_gpu_;
  plan::BufferId all_keys_ = plan::kNoBuffer;
  Gather train_, eval_;
};

}  // namespace hlite::trainer
