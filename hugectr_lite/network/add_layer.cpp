#include "hugectr_lite/network/add_layer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/copy_step.h"
#include "hugectr_lite/network/sum_step.h"

namespace hlite::network {

AddLayer::AddLayer(config::ObjectReader& reader) : Layer(reader) {
  if (bottoms_.size() < 2)
    config::fail_at(reader.member("bottom"),
                    fmt::format("expected at least 2 bottom tensors, found {}", bottoms_.size()));
  expect_tops(1);
}

std::vector<Dims> AddLayer::infer(const std::vector<Dims>& bottoms) {
  for (size_t i = 1; i < bottoms.size(); ++i)
    if (bottoms[i] != bottoms[0])
      config::fail_at(
          *node().find("bottom"),
          fmt::format("expected equal shapes, found \"{}\" {} and \"{}\" {}", bottoms_[0],
                      to_string(bottoms[0]), bottoms_[i], to_string(bottoms[i])));
  return {bottoms[0]};
}

void AddLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const {
  std::vector<BufferId> inputs;
  for (const LayerTensor& b : io.bottoms) inputs.push_back(b.value);
  add_sum_step(plan, *io.buffers, io.type, name() + ".fprop", inputs, io.tops[0].value,
               io.tops[0].dims);
}

void AddLayer::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  for (size_t i = 0; i < io.bottoms.size(); ++i)
    if (io.bottoms[i].grad != kNoBuffer)
      add_copy_step(plan, io, fmt::format("{}.bprop{}", name(), i), io.tops[0].grad,
                    io.bottoms[i].grad, io.tops[0].dims);
}

}  // namespace hlite::network
