// TablePenalties: adds the penalty on an embedding layer's rows (its `regularizer`) to the loss and
// to their gradients, of every row in every step.
#pragma once

#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/plan_part.h"

namespace hlite::trainer {

class TablePenalties final : public PlanPart {
 public:
  // The layers must outlive it.
  explicit TablePenalties(const ModelLayers& layers) : layers_(layers) {}
  void declare(plan::Buffers& buffers) override;
  // "<layer>.penalty" before the loss is summed over ranks, each of its own rows, and
  // "<layer>.penalty_copied" of copied rows behind it, where each rank has the sum.
  void emit(plan::Plan& plan, Stage stage, network::Phase phase) override;

 private:
  const ModelLayers& layers_;
  plan::BufferId workspace_ = plan::kNoBuffer;
};

}  // namespace hlite::trainer
