#include "hugectr_lite/network/cast_step.h"

#include "hugectr_lite/ops/cast.h"

namespace hlite::network {

void add_cast_from_float(plan::Plan& plan, const Buffers& buffers, FloatType type,
                         const std::string& name, const CastFromFloat& cast) {
  with_float_type(type, [&]<typename T>() {
    plan.add({.name = name,
              .lane = plan::Lane::kCompute,
              .reads = {cast.from},
              .writes = {cast.to},
              .run = [=, &buffers](const plan::StepContext& c) {
                ops::cast_padded<T>(c.exec, matrix(buffers, cast.from, c.batch, cast.width),
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
