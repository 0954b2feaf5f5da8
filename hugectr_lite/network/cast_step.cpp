#include "hugectr_lite/network/cast_step.h"

#include "hugectr_lite/ops/cast.h"
#include "hugectr_lite/ops/concat.h"

namespace hlite::network {

void add_cast_from_float(plan::Plan& plan, const Buffers& buffers, FloatType type,
                         const std::string& name, const CastFromFloat& cast) {
  const bool pads = cast.columns > cast.width;
  with_float_type(type, [&]<typename T>() {
    plan.add({.name = name,
              .lane = plan::Lane::kCompute,
              .reads = {cast.from},
              .writes = pads ? std::vector{cast.packed, cast.to} : std::vector{cast.to},
              .run = [=, &buffers](const plan::StepContext& c) {
                const BufferId packed = pads ? cast.packed : cast.to;
                ops::cast_from_float<T>(c.exec, vector(buffers, cast.from, c.batch * cast.width),
                                        vector<T>(buffers, packed, c.batch * cast.width));
                if (!pads) return;
                const ops::ColumnBlock<T> block{matrix<T>(buffers, packed, c.batch, cast.width), 0,
                                                0, cast.width};
                ops::concat_columns<T>(c.exec, {&block, 1},
                                       matrix<T>(buffers, cast.to, c.batch, cast.columns));
              }});
  });
}

void add_cast_to_float(plan::Plan& plan, const Buffers& buffers, FloatType type,
                       const std::string& name, BufferId from, BufferId to, int64_t width) {
  with_float_type(type, [&]<typename T>() {
    plan.add({.name = name,
              .lane = plan::Lane::kCompute,
              .reads = {from},
              .writes = {to},
              .run = [=, &buffers](const plan::StepContext& c) {
                ops::cast_to_float<T>(c.exec, vector<T>(buffers, from, c.batch * width),
                                      vector(buffers, to, c.batch * width));
              }});
  });
}

}  // namespace hlite::network
