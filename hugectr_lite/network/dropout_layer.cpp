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
// Elements of iteration `step` (from 1), and of this rank's samples, start here: no two iterations
// share a random number as long as a tensor has fewer than 2^40 elements.
uint64_t first_index(const Buffers& buffers, BufferId step, int64_t first_element) {
  return (static_cast<uint64_t>(*buffers.data<int64_t>(step)) << 40) +
         static_cast<uint64_t>(first_element);
}
}  // namespace

void DropoutLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const {
  const BufferId x = io.bottoms[0].value, y = io.tops[0].value;
  if (phase == Phase::kEval)
    return add_copy_step(plan, io, name() + ".fprop", x, y, io.tops[0].dims);
  const Buffers* buffers = io.buffers;
  plan.add({.name = name() + ".fprop",
            .lane = plan::Lane::kCompute,
            .reads = {x, io.step},
            .writes = {y},
            .run = [=, rate = static_cast<float>(rate_), n = elements(io.tops[0].dims),
                    step = io.step, seed = io.seed,
                    stream = random::stream_of(name() + ".mask")](const plan::StepContext& c) {
              ops::dropout_forward(c.exec, vector(*buffers, x, c.batch * n),
                                   vector(*buffers, y, c.batch * n), rate, seed, stream,
                                   first_index(*buffers, step, c.first_row * n));
            }});
}

void DropoutLayer::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  const BufferId dx = io.bottoms[0].grad, dy = io.tops[0].grad;
  if (dx == kNoBuffer) return;
  const Buffers* buffers = io.buffers;
  plan.add({.name = name() + ".bprop",
            .lane = plan::Lane::kCompute,
            .reads = {dy, io.step},
            .writes = {dx},
            .run = [=, rate = static_cast<float>(rate_), n = elements(io.tops[0].dims),
                    step = io.step, seed = io.seed,
                    stream = random::stream_of(name() + ".mask")](const plan::StepContext& c) {
              ops::dropout_backward(c.exec, vector(*buffers, dy, c.batch * n),
                                    vector(*buffers, dx, c.batch * n), rate, seed, stream,
                                    first_index(*buffers, step, c.first_row * n));
            }});
}

}  // namespace hlite::network
