#include "hugectr_lite/network/reshape_layer.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/copy_step.h"
#include "hugectr_lite/ops/concat.h"

namespace hlite::network {

ReshapeLayer::ReshapeLayer(config::ObjectReader& reader) : Layer(reader) {
  has_selected_ = reader.has("selected");
  if (has_selected_) {
    selected_ = reader.integers("selected", {.min = 0});
    if (selected_.empty()) config::fail_expected(reader.member("selected"), "at least one slot");
  }
  leading_dim_ = reader.integer_or("leading_dim", 0, {.min = 1});
  if (has_selected_ && leading_dim_ != 0)
    config::fail_at(reader.member("leading_dim"),
                    "expected either `selected` or `leading_dim`, found both");
  expect_bottoms(1);
  expect_tops(1);
}

std::vector<Dims> ReshapeLayer::infer(const std::vector<Dims>& bottoms) {
  const Dims& dims = bottoms[0];
  slots_ = dims.size() == 2 ? dims[0] : 1;
  width_ = dims.back();
  int64_t out = elements(dims);
  if (has_selected_) {
    expect_rank(dims, 2, 0);
    const auto& list = node().find("selected")->elements();
    for (size_t i = 0; i < selected_.size(); ++i) {
      if (selected_[i] >= slots_)
        config::fail_expected(list[i], fmt::format("a slot below {}", slots_));
      if (std::count(selected_.begin(), selected_.end(), selected_[i]) > 1)
        config::fail_at(list[i], fmt::format("slot {} is selected twice", selected_[i]));
    }
    out = static_cast<int64_t>(selected_.size()) * width_;
  } else if (leading_dim_ != 0 && leading_dim_ != out) {
    config::fail_expected(
        *node().find("leading_dim"),
        fmt::format("{}, the width of one sample of \"{}\" {}", out, bottoms_[0], to_string(dims)));
  }
  return {{out}};
}

std::string ReshapeLayer::describe() const {
  return has_selected_ ? fmt::format("slots {}", fmt::join(selected_, ",")) : "";
}

void ReshapeLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const {
  const BufferId x = io.bottoms[0].value, y = io.tops[0].value;
  if (!has_selected_) return add_copy_step(plan, io, name() + ".fprop", x, y, io.tops[0].dims);
  const Buffers* buffers = io.buffers;
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name() + ".fprop",
              .lane = plan::Lane::kCompute,
              .reads = {x},
              .writes = {y},
              // The list lives in the step: an iteration allocates nothing.
              .run = [=, slots = slots_, width = width_, selected = selected_,
                      blocks = std::vector<ops::ColumnBlock<T>>(selected_.size())](
                         const plan::StepContext& c) mutable {
                const auto in = matrix<T>(*buffers, x, c.batch, slots * width);
                const auto count = static_cast<int64_t>(selected.size());
                for (size_t i = 0; i < selected.size(); ++i)
                  blocks[i] = {in, selected[i] * width, static_cast<int64_t>(i) * width, width};
                ops::concat_columns<T>(c.exec, blocks,
                                       matrix<T>(*buffers, y, c.batch, count * width));
              }});
  });
}

void ReshapeLayer::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  const BufferId dx = io.bottoms[0].grad, dy = io.tops[0].grad;
  if (dx == kNoBuffer) return;
  if (!has_selected_) return add_copy_step(plan, io, name() + ".bprop", dy, dx, io.tops[0].dims);
  const Buffers* buffers = io.buffers;
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name() + ".bprop",
              .lane = plan::Lane::kCompute,
              .reads = {dy},
              .writes = {dx},
              // Slots that were left out become 0.
              .run = [=, slots = slots_, width = width_, selected = selected_,
                      blocks = std::vector<ops::ColumnBlock<T>>(selected_.size())](
                         const plan::StepContext& c) mutable {
                const auto count = static_cast<int64_t>(selected.size());
                const auto in = matrix<T>(*buffers, dy, c.batch, count * width);
                for (size_t i = 0; i < selected.size(); ++i)
                  blocks[i] = {in, static_cast<int64_t>(i) * width, selected[i] * width, width};
                ops::concat_columns<T>(c.exec, blocks,
                                       matrix<T>(*buffers, dx, c.batch, slots * width));
              }});
  });
}

}  // namespace hlite::network
