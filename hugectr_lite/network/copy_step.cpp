#include "hugectr_lite/network/copy_step.h"

#include "hugectr_lite/ops/concat.h"

namespace hlite::network {

void add_copy_step(plan::Plan& plan, const LayerIo& io, const std::string& name, BufferId from,
                   BufferId to, const Dims& dims) {
  const Buffers* buffers = io.buffers;
  plan.add({.name = name,
            .lane = plan::Lane::kCompute,
            .reads = {from},
            .writes = {to},
            .run = [=, width = elements(dims)](const plan::StepContext& c) {
              ops::copy_columns(c.exec, matrix(*buffers, from, c.batch, width), 0,
                                matrix(*buffers, to, c.batch, width), 0, width);
            }});
}

}  // namespace hlite::network
