// TableSteps: what an embedding layer does in an iteration, on the rows that this rank holds. There
// are two: LocalSteps (every row is here) and ShardedSteps (rows are spread over ranks and travel).
#pragma once

#include <vector>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/optimizer/loss_scale.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

// Buffers that the steps share with others.
struct TablesIo {
  plan::BufferId keys = plan::kNoBuffer;  // uint32 [batch, columns of all sparse inputs]
  // uint32 [batch of all ranks, columns], those of rank 0 first; where ranks gather keys.
  plan::BufferId all_keys = plan::kNoBuffer;
  plan::BufferId output = plan::kNoBuffer;  // [batch, slots, width]
  plan::BufferId grad = plan::kNoBuffer;    // of output
  plan::BufferId rate = plan::kNoBuffer;    // float
  plan::BufferId step = plan::kNoBuffer;    // int64, from 1
  // optimizer::LossScale of the gradients; kNoBuffer: they are not scaled.
  plan::BufferId loss_scale = plan::kNoBuffer;
  // int32, on several ranks: not 0 when an exchange of this run had too little room, so that the
  // run counts for nothing. Set by steps, cleared by the host.
  plan::BufferId overflow = plan::kNoBuffer;
  // float, written by whoever clips whole gradients: what they are multiplied by; or 1.
  plan::BufferId clip = plan::kNoBuffer;
  bool training = true;  // or evaluation, which leaves the tables alone
};

// What updates do with gradients, by address: their scale, and whether the step counts.
inline optimizer::GradientScale gradient_scale(const plan::Buffers& buffers, const TablesIo& io) {
  optimizer::GradientScale scale;
  if (io.loss_scale != plan::kNoBuffer)
    scale = optimizer::gradient_scale(*buffers.data<optimizer::LossScale>(io.loss_scale));
  if (io.overflow != plan::kNoBuffer) scale.overflow = buffers.data<int32_t>(io.overflow);
  return scale;
}

// Of those that are summed before anything is decided on: whole gradients are unscaled.
inline optimizer::GradientScale undecided_scale(const plan::Buffers& buffers, const TablesIo& io) {
  optimizer::GradientScale scale;
  if (io.loss_scale != plan::kNoBuffer)
    scale = optimizer::undecided_scale(*buffers.data<optimizer::LossScale>(io.loss_scale));
  if (io.overflow != plan::kNoBuffer) scale.overflow = buffers.data<int32_t>(io.overflow);
  return scale;
}

// The gradients of a layer's rows as a whole, where it keeps them (TablesSpec::whole_gradients),
// and the rows that they are of: `count` floats each. Of a rank's own rows they are complete behind
// the steps of emit_backward(), of copied ones, the same on every rank, behind the sum over ranks.
struct WholeGradients {
  plan::BufferId weights = plan::kNoBuffer, gradients = plan::kNoBuffer;
  int64_t count = 0;
  bool copied = false;
};

class TableSteps {
 public:
  virtual ~TableSteps() = default;

  // Names the buffers that the steps alone use.
  virtual void declare(plan::Buffers& buffers) = 0;
  // Bytes of what is not among the buffers.
  [[nodiscard]] virtual int64_t workspace_bytes() const = 0;
  // Takes them. To be called once, behind all emit...() and before any step runs.
  virtual void prepare() = 0;

  // keys, tables -> output.
  virtual void emit_forward(plan::Plan& plan, const TablesIo& io) = 0;
  // Of training: what has to happen before any update, exchanges of gradients included.
  virtual void emit_backward(plan::Plan& plan, const TablesIo& io) = 0;
  virtual void emit_update(plan::Plan& plan, const TablesIo& io) = 0;
  // Those that steps keep. After declare().
  [[nodiscard]] virtual std::vector<WholeGradients> whole_gradients() const = 0;

  // What steps have noted and left to the host: EmbeddingTables::check().
  virtual void check(const Exec& exec) { (void)exec; }
};

}  // namespace hlite::embedding
