#include "hugectr_lite/network/interaction_layer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/interaction.h"

namespace hlite::network {

InteractionLayer::InteractionLayer(config::ObjectReader& reader) : Layer(reader) {
  expect_bottoms(2);
  expect_tops(1);
}

std::vector<Dims> InteractionLayer::infer(const std::vector<Dims>& bottoms) {
  expect_rank(bottoms[0], 1, 0);
  expect_rank(bottoms[1], 2, 1);
  slots_ = bottoms[1][0];
  width_ = bottoms[1][1];
  if (bottoms[0][0] != width_)
    config::fail_at(
        *node().find("bottom"),
        fmt::format("expected \"{}\" as wide as the embedding vectors of \"{}\" ({}), found {}",
                    bottoms_[0], bottoms_[1], width_, bottoms[0][0]));
  return {{ops::interaction_width(slots_, width_)}};
}

std::string InteractionLayer::describe() const {
  return fmt::format("{} vectors of {}", slots_ + 1, width_);
}

void InteractionLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const {
  const LayerTensor &bottom = io.bottoms[0], &slots = io.bottoms[1], &out = io.tops[0];
  const Buffers* buffers = io.buffers;
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name() + ".fprop",
              .lane = plan::Lane::kCompute,
              .reads = {bottom.value, slots.value},
              .writes = {out.value},
              .run =
                  [=](const plan::StepContext& c) {
                    ops::interaction_forward<T>(
                        c.exec, matrix<T>(*buffers, bottom.value, c.batch, bottom.dims[0]),
                        cube<T>(*buffers, slots.value, c.batch, slots.dims),
                        matrix<T>(*buffers, out.value, c.batch, out.dims[0]));
                  },
              .flops_per_sample = static_cast<double>(slots_ * (slots_ + 1) * width_)});
  });
}

void InteractionLayer::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  const LayerTensor &bottom = io.bottoms[0], &slots = io.bottoms[1], &out = io.tops[0];
  const Buffers* buffers = io.buffers;
  // Both gradients come from one pass; one that nobody reads still needs a place to go.
  HLITE_CHECK(bottom.grad != kNoBuffer && slots.grad != kNoBuffer,
              "interaction {} without gradients", name());
  const BufferId overflow = io.overflow;
  std::vector<BufferId> writes = {bottom.grad, slots.grad};
  if (overflow != kNoBuffer) writes.push_back(overflow);
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name() + ".bprop",
              .lane = plan::Lane::kCompute,
              .reads = {bottom.value, slots.value, out.grad},
              .writes = writes,
              .run =
                  [=](const plan::StepContext& c) {
                    ops::interaction_backward<T>(
                        c.exec, matrix<T>(*buffers, bottom.value, c.batch, bottom.dims[0]),
                        cube<T>(*buffers, slots.value, c.batch, slots.dims),
                        matrix<T>(*buffers, out.grad, c.batch, out.dims[0]),
                        matrix<T>(*buffers, bottom.grad, c.batch, bottom.dims[0]),
                        cube<T>(*buffers, slots.grad, c.batch, slots.dims),
                        overflow == kNoBuffer ? nullptr : buffers->data<int32_t>(overflow));
                  },
              .flops_per_sample = 2.0 * static_cast<double>(slots_ * (slots_ + 1) * width_)});
  });
}

}  // namespace hlite::network
