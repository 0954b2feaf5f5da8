#include "embedding/whole_table_update.h"

#include "embedding/requested_rows.h"
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
  return {.weights = storage_.rows().own_weights(),
          .gradients = gradients_,
          .count = storage_.own_rows() * spec_.layout.width,
          .type = spec_.table_type};
}

void WholeTableUpdate::emit_clear(plan::Plan& plan) const {
  plan.add({.name = spec_.name + ".clear",
            .lane = plan::Lane::kEmbedding,
            .reads = {},
            .writes = {gradients_, sum_rate_},
            .run = [this](const plan::StepContext& c) {
              fill_values(c.exec, flat(summed().w.as<float>()), 0);
              fill_values(c.exec, {buffers_->data<float>(sum_rate_), 1}, kSumRate);
            }});
}

void WholeTableUpdate::emit_update(plan::Plan& plan, const TablesIo& io,
                                   const WholeGradients& of) const {
  const auto changed =
      of.replicated ? storage_.rows().replicated_buffers() : storage_.rows().own_buffers();
  std::vector<plan::BufferId> reads = {of.gradients, io.rate, io.step};
  reads.insert(reads.end(), changed.begin(), changed.end());
  reads.insert(reads.end(), {io.loss_scale, io.capacity_exceeded, io.clip});
  plan.add({.name = spec_.name + (of.replicated ? ".update_replicated" : ".update"),
            .lane = plan::Lane::kEmbedding,
            .reads = plan::present(reads),
            .writes = changed,
            .run = [this, io, of](const plan::StepContext& c) {
              optimizer::GradientScale scale = gradient_scale(*buffers_, io);
              // The sums are of unscaled gradients.
              scale.inverse = io.clip == plan::kNoBuffer ? nullptr : buffers_->data<float>(io.clip);
              update(c.exec, io, of, scale);
            }});
}

void WholeTableUpdate::update(const Exec& exec, const TablesIo& io, const WholeGradients& of,
                              const optimizer::GradientScale& scale) const {
  const UpdatedRows to = of.replicated ? storage_.replicated() : storage_.own();
  const float *const rate = buffers_->data<float>(io.rate), *const gradients =
                                                                buffers_->data<float>(of.gradients);
  const auto* const step = buffers_->data<int64_t>(io.step);
  if (optimizer::is_row_wise(spec_.rule.type) || of.type != FloatType::kFloat)
    return update_rows(exec, {.rule = spec_.rule,
                              .lr = rate,
                              .step = step,
                              .gradients = gradients,
                              .rows = to,
                              .scale = scale});
  optimizer::dense_update(exec, spec_.rule, rate, step,
                          {.w = flat(to.w.as<float>()),
                           .g = {gradients, of.count},
                           .state0 = flat(to.state0),
                           .state1 = flat(to.state1)},
                          scale);
}

}  // namespace hlite::embedding
