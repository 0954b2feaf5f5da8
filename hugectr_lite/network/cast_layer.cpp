#include "hugectr_lite/network/cast_layer.h"

#include "hugectr_lite/network/copy_step.h"

namespace hlite::network {

CastLayer::CastLayer(config::ObjectReader& reader) : Layer(reader) {
  expect_bottoms(1);
  expect_tops(1);
}

std::vector<Dims> CastLayer::infer(const std::vector<Dims>& bottoms) { return {bottoms[0]}; }

void CastLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const {
  add_copy_step(plan, io, name() + ".fprop", io.bottoms[0].value, io.tops[0].value,
                io.tops[0].dims);
}

void CastLayer::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  if (io.bottoms[0].grad == kNoBuffer) return;
  add_copy_step(plan, io, name() + ".bprop", io.tops[0].grad, io.bottoms[0].grad, io.tops[0].dims);
}

}  // namespace hlite::network
