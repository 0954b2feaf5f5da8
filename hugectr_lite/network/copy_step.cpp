#include "hugectr_lite/network/copy_step.h"

#include "hugectr_lite/ops/copy.h"

namespace hlite::network {

void add_copy_step(plan::Plan& plan, const LayerIo& io, const std::string& name, BufferId from,
                   BufferId to, const Dims& dims) {
  const Buffers* buffers = io.buffers;
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name,
              .lane = plan::Lane::kCompute,
              .reads = {from},
              .writes = {to},
              .run = [=, width = elements(dims)](const plan::StepContext& c) {
                ops::copy<T>(c.exec, vector<T>(*buffers, from, c.batch * width),
                             vector<T>(*buffers, to, c.batch * width));
              }});
  });
}

}  // namespace hlite::network
