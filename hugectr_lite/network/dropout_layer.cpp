#include "hugectr_lite/network/dropout_layer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/network/copy_step.h"
#include "hugectr_lite/ops/dropout.h"

namespace hlite::network {

DropoutLayer::DropoutLayer(config::ObjectReader& reader) : Layer(reader) {
  rate_ = reader.number_or("rate", 0.5, {.min = 0, .max = 0.9999});
  expect_bottoms(1);
  expect_tops(1);
}

std::vector<Dims> DropoutLayer::infer(const std::vector<Dims>& bottoms) { return {bottoms[0]}; }

std::string DropoutLayer::describe() const { return fmt::format("rate {}", rate_); }

namespace {
// What `run` does: calls op(exec, from, to, mask) on this rank's samples of n elements each.
template <typename T, typename Op>
auto masked(const LayerIo& io, ops::DropoutMask mask, BufferId from, BufferId to, int64_t n,
            Op op) {
  return [=, buffers = io.buffers, step = io.step](const plan::StepContext& c) mutable {
    mask.step = buffers->data<int64_t>(step);
    mask.first_element = c.first_row * n;
    op(c.exec, vector<T>(*buffers, from, c.batch * n), vector<T>(*buffers, to, c.batch * n), mask);
  };
}
}  // namespace

ops::DropoutMask DropoutLayer::mask(const LayerIo& io) const {
  return {.rate = static_cast<float>(rate_),
          .seed = io.seed,
          .stream = random::stream_of(name() + ".mask")};
}

void DropoutLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const {
  const BufferId x = io.bottoms[0].value, y = io.tops[0].value;
  if (phase == Phase::kEval)
    return add_copy_step(plan, io, name() + ".fprop", x, y, io.tops[0].dims);
  with_float_type(io.type, [&]<typename T>() {
    plan.add(
        {.name = name() + ".fprop",
         .lane = plan::Lane::kCompute,
         .reads = {x, io.step},
         .writes = {y},
         .run = masked<T>(io, mask(io), x, y, elements(io.tops[0].dims), ops::dropout_forward<T>)});
  });
}

void DropoutLayer::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  const BufferId dx = io.bottoms[0].grad, dy = io.tops[0].grad;
  if (dx == kNoBuffer) return;
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name() + ".bprop",
              .lane = plan::Lane::kCompute,
              .reads = {dy, io.step},
              .writes = {dx},
              .run = masked<T>(io, mask(io), dy, dx, elements(io.tops[0].dims),
                               ops::dropout_backward<T>)});
  });
}

}  // namespace hlite::network
