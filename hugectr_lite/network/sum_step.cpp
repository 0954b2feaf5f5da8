#include "hugectr_lite/network/sum_step.h"

#include "hugectr_lite/ops/add.h"

namespace hlite::network {

void add_sum_step(plan::Plan& plan, const Buffers& buffers, FloatType type, const std::string& name,
                  const std::vector<BufferId>& inputs, BufferId out, const Dims& dims) {
  // The views live in the step: an iteration allocates nothing.
  with_float_type(type, [&]<typename T>() {
    plan.add({.name = name,
              .lane = plan::Lane::kCompute,
              .reads = inputs,
              .writes = {out},
              .run = [&buffers, inputs, out, width = elements(dims),
                      views = std::vector<Vector<const T>>(inputs.size())](
                         const plan::StepContext& c) mutable {
                for (size_t i = 0; i < inputs.size(); ++i)
                  views[i] = vector<T>(buffers, inputs[i], c.batch * width);
                ops::add_forward<T>(c.exec, views, vector<T>(buffers, out, c.batch * width));
              }});
  });
}

}  // namespace hlite::network
