#include "embedding/whole_table_update.h"

#include "embedding/table_init.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/optimizer/dense_update.h"

namespace hlite::embedding {
namespace {

Vector<float> flat(const Matrix<float>& rows) { return {rows.data(), rows.size()}; }

}  // namespace

void WholeTableUpdate::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  gradients_ = buffers.add(spec_.name + ".gradients", plan::BufferKind::kGradient,
                           storage_.own_rows() * spec_.layout.width * kFloatBytes);
  sum_rate_ = buffers.add(spec_.name + ".sum_rate", plan::BufferKind::kGradient, kFloatBytes);
}

UpdatedRows WholeTableUpdate::summed() const {
  return {.w = {buffers_->data<float>(gradients_), storage_.own_rows(), spec_.layout.width}};
}

WholeGradients WholeTableUpdate::of_own_rows() const {
  return {.weights = storage_.own_weights(),
          .gradients = gradients_,
          .count = storage_.own_rows() * spec_.layout.width};
}

void WholeTableUpdate::emit_clear(plan::Plan& plan) const {
  plan.add({.name = spec_.name + ".clear",
            .lane = plan::Lane::kEmbedding,
            .reads = {},
            .writes = {gradients_, sum_rate_},
            .run = [this](const plan::StepContext& c) {
              fill_values(c.exec, flat(summed().w), 0);
              fill_values(c.exec, {buffers_->data<float>(sum_rate_), 1}, kSumRate);
            }});
}

void WholeTableUpdate::emit_update(plan::Plan& plan, const TablesIo& io,
                                   const WholeGradients& of) const {
  const auto changed = of.copied ? storage_.copied_buffers() : storage_.own_buffers();
  std::vector<plan::BufferId> reads = {of.gradients, io.rate, io.step};
  reads.insert(reads.end(), changed.begin(), changed.end());
  reads.insert(reads.end(), {io.loss_scale, io.overflow, io.clip});
  plan.add({.name = spec_.name + (of.copied ? ".update_copied" : ".update"),
            .lane = plan::Lane::kEmbedding,
            .reads = plan::present(reads),
            .writes = changed,
            .run = [this, io, of](const plan::StepContext& c) {
              optimizer::GradientScale scale = gradient_scale(*buffers_, io);
              // The sums are of unscaled gradients.
              scale.inverse = io.clip == plan::kNoBuffer ? nullptr : buffers_->data<float>(io.clip);
              const UpdatedRows to = of.copied ? storage_.copied() : storage_.own();
              optimizer::dense_update(c.exec, spec_.rule, buffers_->data<float>(io.rate),
                                      buffers_->data<int64_t>(io.step),
                                      {.w = flat(to.w),
                                       .g = {buffers_->data<float>(of.gradients), of.count},
                                       .state0 = flat(to.state0),
                                       .state1 = flat(to.state1)},
                                      scale);
            }});
}

}  // namespace hlite::embedding
