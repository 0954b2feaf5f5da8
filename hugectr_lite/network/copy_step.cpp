#include "hugectr_lite/network/copy_step.h"

#include "hugectr_lite/ops/copy.h"

namespace hlite::network {

void add_copy_step(plan::Plan& plan, const LayerIo& io, const std::string& name, BufferId from,
                   BufferId to, const Dims& dims) {
  const Buffers* buffers = io.buffers;
  plan.add({.name = name,
            .lane = plan::Lane::kCompute,
            .reads = {from},
            .writes = {to},
            .run = [=, width = elements(dims)](const plan::StepContext& c) {
              ops::copy(c.exec, vector(*buffers, from, c.batch * width),
                        vector(*buffers, to, c.batch * width));
            }});
}

}  // namespace hlite::network
