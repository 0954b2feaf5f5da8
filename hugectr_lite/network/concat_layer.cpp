#include "hugectr_lite/network/concat_layer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/concat.h"

namespace hlite::network {

ConcatLayer::ConcatLayer(config::ObjectReader& reader) : Layer(reader) { expect_tops(1); }

std::vector<Dims> ConcatLayer::infer(const std::vector<Dims>& bottoms) {
  int64_t width = 0;
  for (size_t i = 0; i < bottoms.size(); ++i) {
    expect_rank(bottoms[i], 1, i);
    widths_.push_back(bottoms[i][0]);
    width += bottoms[i][0];
  }
  return {{width}};
}

void ConcatLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const {
  std::vector<BufferId> inputs;
  for (const LayerTensor& b : io.bottoms) inputs.push_back(b.value);
  const BufferId out = io.tops[0].value;
  const Buffers* buffers = io.buffers;
  with_float_type(io.type, [&]<typename T>() {
    plan.add(
        {.name = name() + ".fprop",
         .lane = plan::Lane::kCompute,
         .reads = inputs,
         .writes = {out},
         // The list lives in the step: an iteration allocates nothing.
         .run = [=, widths = widths_, total = io.tops[0].dims[0],
                 blocks = std::vector<ops::ColumnBlock<T>>(inputs.size())](
                    const plan::StepContext& c) mutable {
           int64_t at = 0;
           for (size_t i = 0; i < inputs.size(); at += widths[i++])
             blocks[i] = {matrix<T>(*buffers, inputs[i], c.batch, widths[i]), 0, at, widths[i]};
           ops::concat_columns<T>(c.exec, blocks, matrix<T>(*buffers, out, c.batch, total));
         }});
  });
}

void ConcatLayer::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  const Buffers* buffers = io.buffers;
  const BufferId dout = io.tops[0].grad;
  int64_t at = 0;
  for (size_t i = 0; i < io.bottoms.size(); at += widths_[i++]) {
    const BufferId dx = io.bottoms[i].grad;
    if (dx == kNoBuffer) continue;
    with_float_type(io.type, [&]<typename T>() {
      plan.add(
          {.name = fmt::format("{}.bprop{}", name(), i),
           .lane = plan::Lane::kCompute,
           .reads = {dout},
           .writes = {dx},
           .run = [=, width = widths_[i], total = io.tops[0].dims[0]](const plan::StepContext& c) {
             const ops::ColumnBlock<T> block{matrix<T>(*buffers, dout, c.batch, total), at, 0,
                                             width};
             ops::concat_columns<T>(c.exec, {&block, 1}, matrix<T>(*buffers, dx, c.batch, width));
           }});
    });
  }
}

}  // namespace hlite::network
