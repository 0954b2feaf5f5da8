#include "hugectr_lite/network/slice_layer.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/concat.h"

namespace hlite::network {

SliceLayer::SliceLayer(config::ObjectReader& reader) : Layer(reader) {
  const config::JsonNode& list = reader.member("ranges");
  if (list.kind() != config::JsonNode::Kind::kArray || list.elements().empty())
    config::fail_expected(list, "a list of [begin, end) pairs");
  for (const config::JsonNode& pair : list.elements()) {
    const bool ok = pair.kind() == config::JsonNode::Kind::kArray && pair.elements().size() == 2 &&
                    std::all_of(pair.elements().begin(), pair.elements().end(), [](const auto& v) {
                      return v.kind() == config::JsonNode::Kind::kInteger;
                    });
    if (!ok) config::fail_expected(pair, "a pair of integers [begin, end)");
    const int64_t begin = pair.elements()[0].integer(), end = pair.elements()[1].integer();
    if (begin < 0 || end <= begin) config::fail_expected(pair, "0 <= begin < end");
    ranges_.emplace_back(begin, end);
  }
  expect_bottoms(1);
  expect_tops(ranges_.size());
}

std::vector<Dims> SliceLayer::infer(const std::vector<Dims>& bottoms) {
  expect_rank(bottoms[0], 1, 0);
  width_ = bottoms[0][0];
  std::vector<Dims> out;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    if (ranges_[i].second > width_)
      config::fail_expected(
          node().find("ranges")->elements()[i],
          fmt::format("a range within the {} columns of \"{}\"", width_, bottoms_[0]));
    out.push_back({ranges_[i].second - ranges_[i].first});
  }
  return out;
}

std::string SliceLayer::describe() const {
  std::string s;
  for (const auto& [begin, end] : ranges_)
    s += fmt::format("{}[{},{})", s.empty() ? "" : " ", begin, end);
  return s;
}

void SliceLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const {
  const Buffers* buffers = io.buffers;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const BufferId x = io.bottoms[0].value, y = io.tops[i].value;
    with_float_type(io.type, [&]<typename T>() {
      plan.add(
          {.name = fmt::format("{}.fprop{}", name(), i),
           .lane = plan::Lane::kCompute,
           .reads = {x},
           .writes = {y},
           .run = [=, range = ranges_[i], total = width_](const plan::StepContext& c) {
             const int64_t width = range.second - range.first;
             const ops::ColumnBlock<T> block{matrix<T>(*buffers, x, c.batch, total), range.first, 0,
                                             width};
             ops::concat_columns<T>(c.exec, {&block, 1}, matrix<T>(*buffers, y, c.batch, width));
           }});
    });
  }
}

void SliceLayer::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  const BufferId dx = io.bottoms[0].grad;
  if (dx == kNoBuffer) return;
  const Buffers* buffers = io.buffers;
  std::vector<BufferId> reads;
  for (const LayerTensor& top : io.tops) reads.push_back(top.grad);
  with_float_type(io.type, [&]<typename T>() {
    plan.add(
        {.name = name() + ".bprop",
         .lane = plan::Lane::kCompute,
         .reads = reads,
         .writes = {dx},
         .run = [=, ranges = ranges_, total = width_,
                 blocks = std::vector<ops::ColumnBlock<T>>(reads.size())](
                    const plan::StepContext& c) mutable {
           for (size_t i = 0; i < ranges.size(); ++i) {
             const int64_t width = ranges[i].second - ranges[i].first;
             blocks[i] = {matrix<T>(*buffers, reads[i], c.batch, width), 0, ranges[i].first, width};
           }
           ops::concat_columns<T>(c.exec, blocks, matrix<T>(*buffers, dx, c.batch, total));
         }});
  });
}

}  // namespace hlite::network
