// TablePenalties: adds the penalty on an embedding layer's rows (its `regularizer`) to the loss and
// to their gradients, of every row in every step.
#pragma once

#include "hugectr_lite/trainer/model/build_layers.h"

namespace hlite::trainer {

class TablePenalties {
 public:
  // The layers must outlive it.
  explicit TablePenalties(const ModelLayers& layers) : layers_(layers) {}
  void declare(plan::Buffers& buffers);
  // "<layer>.penalty" of each rank's own rows, before the loss is summed over ranks.
  void emit_own(plan::Plan& plan) { emit(plan, /*copied=*/false); }
  // "<layer>.penalty_replicated" of replicated rows, after it, where each rank has the sum.
  void emit_replicated(plan::Plan& plan) { emit(plan, /*copied=*/true); }

 private:
  void emit(plan::Plan& plan, bool replicated);

  const ModelLayers& layers_;
  plan::BufferId workspace_ = plan::kNoBuffer;
};

}  // namespace hlite::trainer
