// KeysGather: the keys of the whole batch, on every rank (solver.input "broadcast"). Each rank has
// read and, on a GPU, copied in its own samples, so that the batch has crossed the bus once; here
// all get the others' keys from them, over the links between ranks.
//
//   keys_gather      keys of every rank -> [batch of all ranks, key columns]            comm
//
// A rank sends a full block of samples, whether a batch fills it or not: the sizes are the same on
// all ranks.
#pragma once

#include <memory>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/network/layer.h"
#include "hugectr_lite/trainer/model/copy_in.h"
#include "hugectr_lite/trainer/model/step_communicator.h"

namespace hlite::trainer {

class KeysGather {
 public:
  struct Capacity {  // samples of one rank
    int64_t train = 0, most = 0;
  };
  // `batch` must outlive the part. `columns`: keys of a sample.
  KeysGather(comm::RankContext ranks, const CopyIn& batch, int64_t columns,
             const Capacity& capacity)
      : ranks_(std::move(ranks)), batch_(batch), columns_(columns), capacity_(capacity) {}

  void declare(plan::Buffers& buffers);
  // Once for each plan. Collective.
  void emit(plan::Plan& plan, network::Phase phase);
  // uint32 [batch of all ranks, columns], the samples of rank 0 first.
  [[nodiscard]] plan::BufferId all_keys() const { return all_keys_; }

  // A run of a plan has been issued.
  void count_run(bool training) { ++(training ? train_ : eval_).runs; }
  [[nodiscard]] comm::StepTraffic traffic() const;

 private:
  struct Gather {  // of a plan
    std::unique_ptr<StepCommunicator> communicator = nullptr;
    int64_t runs = 0;
  };

  const comm::RankContext ranks_;
  const CopyIn& batch_;
  const int64_t columns_;
  const Capacity capacity_;
  plan::BufferId all_keys_ = plan::kNoBuffer;
  Gather train_, eval_;
};

}  // namespace hlite::trainer
