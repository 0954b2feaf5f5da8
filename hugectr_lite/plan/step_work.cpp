#include "hugectr_lite/plan/step_work.h"

#include <set>

namespace hlite::plan {
namespace {

double buffer_bytes(const Buffers& buffers, BufferId id, const WorkSize& size) {
  const auto bytes = static_cast<double>(buffers.bytes(id));
  const BufferKind kind = buffers.kind(id);
  const bool grows =
      kind == BufferKind::kInput || kind == BufferKind::kActivation ||
      (kind == BufferKind::kGradient &&
       (size.dense_gradients == kNoBuffer || !buffers.overlap(id, size.dense_gradients)));
  if (kind == BufferKind::kTable) return 0;  // of which a step has some rows
  return grows ? bytes * static_cast<double>(size.batch) / static_cast<double>(size.max_batch)
               : bytes;
}

}  // namespace

StepWork work_of(const Plan& plan, const Step& step, const WorkSize& size) {
  const auto batch = static_cast<double>(size.batch);
  StepWork work{.flops = step.flops_per_sample * batch,
                .bytes = step.bytes_per_sample * batch,
                .in_node = step.sends.in_node + step.sends.in_node_per_sample * batch,
                .between = step.sends.between + step.sends.between_per_sample * batch};
  if (step.bytes_per_sample == 0)
    for (const auto* list : {&step.reads, &step.writes})
      for (const BufferId id : std::set<BufferId>(list->begin(), list->end()))
        work.bytes += buffer_bytes(plan.buffers(), id, size);
  return work;
}

}  // namespace hlite::plan
