// GradientClip: the norm of all gradients together, of the network and, unless
// solver.gradient_clip_scope leaves them out, of the embedding tables, and what they are multiplied
// by where it is above solver.gradient_clip_norm.
//
//   gradient_norm              a sum of squares for the network and for each table layer's rows
//   gradient_norm.all_gather   of own rows, on several ranks
//   gradient_clip              the factors, which the updates read
#pragma once

#include <memory>
#include <vector>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/dense_shard.h"
#include "hugectr_lite/trainer/model/loss_scaling.h"

namespace hlite::trainer {

class GradientClip {
 public:
  // `shard`: of a sharded optimizer, or null. Layers, loss scaling and shard must outlive it.
  GradientClip(const config::SolverConfig& solver, comm::RankContext ranks,
               const ModelLayers& layers, const LossScaling& loss_scaling, const DenseShard* shard);
  void declare(plan::Buffers& buffers);
  // Once. Collective.
  void emit(plan::Plan& plan);

  // Floats: what the network's gradients are multiplied by, which undoes the loss scale too; and
  // what those of the tables are, if they are clipped.
  [[nodiscard]] plan::BufferId dense_factor() const { return dense_factor_; }
  [[nodiscard]] plan::BufferId table_factor() const {
    return tables_ ? table_factor_ : plan::kNoBuffer;
  }

 private:
  struct ClippedGradients {
    plan::BufferId id = plan::kNoBuffer;
    int64_t count = 0;
  };
  // Those that every rank has, the network's first, and those of this rank's rows or, where the
  // optimizer is sharded, parameters.
  struct All {
    std::vector<ClippedGradients> shared, own;
  };
  [[nodiscard]] All gradients() const;
  void emit_gather(plan::Plan& plan, int64_t first);

  const double max_;
  const bool tables_;
  const comm::RankContext ranks_;
  const ModelLayers& layers_;
  const LossScaling& loss_scaling_;
  const DenseShard* const shard_;
  std::unique_ptr<comm::Communicator> communicator_;  // on several ranks
  plan::BufferId factors_ = plan::kNoBuffer, dense_factor_ = plan::kNoBuffer,
                 table_factor_ = plan::kNoBuffer;
  // double: of what is shared, then of own rows, the layers of rank 0 first.
  plan::BufferId squares_ = plan::kNoBuffer, workspace_ = plan::kNoBuffer;
};

}  // namespace hlite::trainer
