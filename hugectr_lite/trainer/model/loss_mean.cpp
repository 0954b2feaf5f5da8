#include "hugectr_lite/trainer/model/loss_mean.h"

#include "hugectr_lite/ops/loss_sum.h"

namespace hlite::trainer {

void LossMean::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  sum_ = buffers.add("solver.loss_sum", plan::BufferKind::kState, sizeof(ops::LossSum));
}

void LossMean::emit(plan::Plan& plan, plan::BufferId loss, plan::Lane lane) const {
  const plan::BufferId void_run = status_ ? status_->capacity_exceeded() : plan::kNoBuffer;
  plan.add({.name = "loss_mean",
            .lane = lane,
            .reads = plan::present({loss, void_run, sum_}),
            .writes = {sum_},
            .run = [=, this](const plan::StepContext& c) {
              ops::add_loss(
                  c.exec, buffers_->data<float>(loss), c.mean_over(),
                  void_run == plan::kNoBuffer ? nullptr : buffers_->data<int32_t>(void_run),
                  buffers_->data<ops::LossSum>(sum_));
            }});
}

double LossMean::value() const { return buffers_->value<ops::LossSum>(sum_).mean(); }

void LossMean::restart() const { buffers_->set_value(sum_, ops::LossSum{}); }

}  // namespace hlite::trainer
