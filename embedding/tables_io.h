// TablesIo: the buffers that the steps of a layer's tables share with others.
#pragma once

#include <vector>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/optimizer/loss_scale.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

struct TablesIo {
  plan::BufferId keys = plan::kNoBuffer;  // uint32 [batch, columns of all sparse inputs]
  // uint32 [batch of all ranks, columns], those of rank 0 first; where ranks gather keys.
  plan::BufferId all_keys = plan::kNoBuffer;
  plan::BufferId output = plan::kNoBuffer;  // [batch, slots, width]
  plan::BufferId grad = plan::kNoBuffer;    // gradient of output
  plan::BufferId rate = plan::kNoBuffer;    // float
  plan::BufferId step = plan::kNoBuffer;    // int64, from 1
  // int64: training batches whose keys have been routed, where that may be one ahead of `step`.
  plan::BufferId routed = plan::kNoBuffer;
  // optimizer::LossScale of the gradients; kNoBuffer: they are not scaled.
  plan::BufferId loss_scale = plan::kNoBuffer;
  // int32, on several ranks: not 0 when a list of this run exceeded an exchange's capacity, so that
  // the run counts for nothing. Steps set it, the host clears it.
  plan::BufferId capacity_exceeded = plan::kNoBuffer;
  // float, written by the clipping step: the factor of whole gradients, 1 if they are not clipped.
  plan::BufferId clip = plan::kNoBuffer;
  bool training = true;  // or evaluation, which leaves the tables alone
};

// The scale of gradients in an update, and whether the step counts, as addresses in `buffers`.
inline optimizer::GradientScale gradient_scale(const plan::Buffers& buffers, const TablesIo& io) {
  optimizer::GradientScale scale;
  if (io.loss_scale != plan::kNoBuffer)
    scale = optimizer::gradient_scale(*buffers.data<optimizer::LossScale>(io.loss_scale));
  if (io.capacity_exceeded != plan::kNoBuffer)
    scale.capacity_exceeded = buffers.data<int32_t>(io.capacity_exceeded);
  return scale;
}

// The scale of whole gradients, which are summed before overflow and clipping are decided.
inline optimizer::GradientScale undecided_scale(const plan::Buffers& buffers, const TablesIo& io) {
  optimizer::GradientScale scale;
  if (io.loss_scale != plan::kNoBuffer)
    scale = optimizer::undecided_scale(*buffers.data<optimizer::LossScale>(io.loss_scale));
  if (io.capacity_exceeded != plan::kNoBuffer)
    scale.capacity_exceeded = buffers.data<int32_t>(io.capacity_exceeded);
  return scale;
}

// Gradients of all rows of a layer that keeps them (TablesSpec::whole_gradients), and the rows:
// `count` elements each. Those of a rank's own rows are complete after the steps of
// emit_backward(); those of replicated rows, equal on every rank, after the sum over ranks.
struct WholeGradients {
  plan::BufferId weights = plan::kNoBuffer, gradients = plan::kNoBuffer;
  int64_t count = 0;
  FloatType type = FloatType::kFloat;  // the weights' type
  bool replicated = false;
};

}  // namespace hlite::embedding
