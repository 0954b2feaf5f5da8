#include "hugectr_lite/network/pad_step.h"

#include "hugectr_lite/ops/concat.h"

namespace hlite::network {

void add_pad_step(plan::Plan& plan, const Buffers& buffers, const std::string& name, BufferId from,
                  int64_t width, BufferId to, int64_t columns) {
  plan.add({.name = name,
            .lane = plan::Lane::kCompute,
            .reads = {from},
            .writes = {to},
            .run = [=, &buffers](const plan::StepContext& c) {
              const ops::ColumnBlock<float> block{matrix<float>(buffers, from, c.batch, width), 0,
                                                  0, width};
              ops::concat_columns<float>(c.exec, {&block, 1},
                                         matrix<float>(buffers, to, c.batch, columns));
            }});
}

}  // namespace hlite::network
