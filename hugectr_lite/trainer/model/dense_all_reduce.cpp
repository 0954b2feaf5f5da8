#include "hugectr_lite/trainer/model/dense_all_reduce.h"

namespace hlite::trainer {

DenseAllReduce::DenseAllReduce(const comm::RankContext& ranks, const SumOptions& options,
                               bool sharded)
    : shard_(sharded ? std::make_unique<DenseShard>(ranks, options.route, options.wire) : nullptr),
      reduced_(ranks, options) {}

void DenseAllReduce::declare(plan::Buffers& buffers, int64_t bytes, int64_t grouped) {
  grouped_at_ = shard_ ? 0 : SummedBuffer::aligned(bytes);
  grouped_ = grouped;
  reduced_.declare(buffers, "reduced", grouped_at_ + grouped, RunStatus::kWords);
  gradients_ = shard_ ? buffers.add("dense.gradients", plan::BufferKind::kGradient, bytes)
                      : buffers.slice("dense.gradients", reduced_.gradients(), 0, bytes);
  if (shard_) shard_->declare(buffers, gradients_, bytes / kFloatBytes);
}

void DenseAllReduce::emit(plan::Plan& plan, plan::BufferId loss, const RunStatus& status) {
  if (shard_) shard_->emit_sum(plan);
  const bool sums = grouped_at_ + grouped_ > 0;
  reduced_.emit(
      plan, {.name = "all_reduce",
             .reads = {loss, sums ? reduced_.gradients() : plan::kNoBuffer},
             .writes = {loss, status.stop()},
             .run = [this, loss, &status, buffers = &plan.buffers()](const plan::StepContext& c) {
               status.put(c.exec, buffers->data<float>(loss));
               reduced_.sum(c.exec);
               status.take(c.exec, buffers->data<float>(loss));
             }});
}

std::vector<comm::StepTraffic> DenseAllReduce::traffic(int64_t runs) const {
  const int64_t bytes = reduced_.sent_bytes() - reduced_.wire_bytes(grouped_);
  std::vector<comm::StepTraffic> list = {{"dense_all_reduce", reduced_.traffic(runs, bytes)}};
  if (shard_)
    for (comm::StepTraffic& step : shard_->traffic(runs)) list.push_back(std::move(step));
  return list;
}

}  // namespace hlite::trainer
