#include "hugectr_lite/network/sum_step.h"

#include "hugectr_lite/ops/add.h"

namespace hlite::network {

void add_sum_step(plan::Plan& plan, const Buffers& buffers, const std::string& name,
                  const std::vector<BufferId>& inputs, BufferId out, const Dims& dims) {
  // The views live in the step: an iteration allocates nothing.
  plan.add({.name = name,
            .lane = plan::Lane::kCompute,
            .reads = inputs,
            .writes = {out},
            .run = [&buffers, inputs, out, width = elements(dims),
                    views = std::vector<Vector<const float>>(inputs.size())](
                       const plan::StepContext& c) mutable {
              for (size_t i = 0; i < inputs.size(); ++i)
                views[i] = vector(buffers, inputs[i], c.batch * width);
              ops::add_forward(c.exec, views, vector(buffers, out, c.batch * width));
            }});
}

}  // namespace hlite::network
