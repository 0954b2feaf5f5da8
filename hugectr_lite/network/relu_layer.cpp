#include "hugectr_lite/network/relu_layer.h"

#include "hugectr_lite/ops/relu.h"

namespace hlite::network {

ReluLayer::ReluLayer(config::ObjectReader& reader) : Layer(reader) {
  expect_bottoms(1);
  expect_tops(1);
}

std::vector<Dims> ReluLayer::infer(const std::vector<Dims>& bottoms) { return {bottoms[0]}; }

void ReluLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const {
  const BufferId x = io.bottoms[0].value, y = io.tops[0].value;
  const Buffers* buffers = io.buffers;
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name() + ".fprop",
              .lane = plan::Lane::kCompute,
              .reads = {x},
              .writes = {y},
              .run = [=, n = elements(io.tops[0].dims)](const plan::StepContext& c) {
                ops::relu_forward<T>(c.exec, vector<T>(*buffers, x, c.batch * n),
                                     vector<T>(*buffers, y, c.batch * n));
              }});
  });
}

void ReluLayer::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  const BufferId dx = io.bottoms[0].grad, y = io.tops[0].value, dy = io.tops[0].grad;
  if (dx == kNoBuffer) return;
  const Buffers* buffers = io.buffers;
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name() + ".bprop",
              .lane = plan::Lane::kCompute,
              .reads = {y, dy},
              .writes = {dx},
              .run = [=, n = elements(io.tops[0].dims)](const plan::StepContext& c) {
                ops::relu_backward<T>(c.exec, vector<T>(*buffers, y, c.batch * n),
                                      vector<T>(*buffers, dy, c.batch * n),
                                      vector<T>(*buffers, dx, c.batch * n));
              }});
  });
}

}  // namespace hlite::network
