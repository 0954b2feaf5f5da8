// The work of the steps of a plan: operations, memory traffic, bytes for other ranks. From their
// buffers and what they say of themselves; nothing is run.
#pragma once

#include "hugectr_lite/plan/plan.h"

namespace hlite::plan {

struct StepWork {
  double flops = 0;
  double bytes = 0;  // read and written in main memory
  double in_node = 0, between = 0;
};

// A run with `batch` samples of buffers made for `max_batch`. A step that does not say how many
// bytes it moves reads and writes each of its buffers once.
struct WorkSize {
  int64_t batch = 0, max_batch = 0;
  BufferId dense_gradients = kNoBuffer;  // of weights: as large with any batch
};
StepWork work_of(const Plan& plan, const Step& step, const WorkSize& size);

}  // namespace hlite::plan
