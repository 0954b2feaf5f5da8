#include "hugectr_lite/trainer/model/dense_shard.h"

#include <algorithm>

#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/network/layer.h"
#include "hugectr_lite/ops/cast.h"
#include "hugectr_lite/trainer/model/step_communicator.h"

namespace hlite::trainer {
namespace {

using comm::Slice;
using plan::BufferKind;

// Returns what [a) and [b) share.
Slice overlap(const Slice& a, const Slice& b) {
  const size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace

DenseShard::DenseShard(const comm::RankContext& ranks, comm::Route route, FloatType wire)
    : ranks_(ranks),
      unit_(wire == FloatType::kFloat ? 1 : 2),
      exchange_(std::make_unique<comm::ShardedSum>(ranks, route)) {}

Slice DenseShard::part_of(int rank) const {
  const Slice units = exchange_->part_of(count_ / unit_, rank);
  return {units.begin * unit_, units.end * unit_};
}

void DenseShard::declare(plan::Buffers& buffers, plan::BufferId gradients, int64_t count) {
  buffers_ = &buffers;
  count_ = static_cast<size_t>(count);
  HLITE_CHECK(count_ % unit_ == 0, "{} parameters", count);
  all_ = gradients;
  const auto own_bytes = static_cast<int64_t>(own().size()) * kFloatBytes;
  summed_ = buffers.add("dense.gradients.own", BufferKind::kGradient, own_bytes);
  if (unit_ == 1) return;
  narrow_all_ = buffers.add("dense.gradients.wire", BufferKind::kGradient, count * kFloatBytes / 2);
  narrow_summed_ = buffers.add("dense.gradients.own.wire", BufferKind::kGradient, own_bytes / 2);
}

void DenseShard::sum(const Exec& exec) const {
  const auto words = [this](plan::BufferId id) {
    return std::span(buffers_->data<float>(id),
                     static_cast<size_t>(buffers_->bytes(id) / kFloatBytes));
  };
  ++calls_;
  if (unit_ == 1) return exchange_->reduce_scatter(exec, words(all_), words(summed_), 0);
  const auto n = static_cast<int64_t>(count_), own = static_cast<int64_t>(this->own().size());
  ops::cast_from_float<bf16>(exec, network::vector(*buffers_, all_, n),
                             network::vector<bf16>(*buffers_, narrow_all_, n));
  exchange_->reduce_scatter(exec, words(narrow_all_), words(narrow_summed_), count_ / unit_);
  ops::cast_to_float<bf16>(exec, network::vector<bf16>(*buffers_, narrow_summed_, own),
                           network::vector(*buffers_, summed_, own));
}

void DenseShard::emit_sum(plan::Plan& plan) {
  const auto sent = exchange_->reduce_bytes(static_cast<int64_t>(count_ / unit_));
  plan.add({.name = "reduce_scatter",
            .lane = plan::Lane::kComm,
            .reads = {all_},
            .writes = plan::present({summed_, narrow_all_, narrow_summed_}),
            .run = [this](const plan::StepContext& c) { sum(c.exec); },
            .sends = {.in_node = sent.intra, .between = sent.inter}});
}

void DenseShard::emit_gather(plan::Plan& plan, plan::BufferId weights) {
  const size_t unit = unit_ * sizeof(float);
  const auto sent =
      exchange_->gather_bytes(static_cast<int64_t>(count_ / unit_), static_cast<int64_t>(unit));
  plan.add({.name = "gather_weights",
            .lane = plan::Lane::kComm,
            .reads = {weights},
            .writes = {weights},
            .run =
                [this, weights, unit](const plan::StepContext& c) {
                  exchange_->all_gather(
                      c.exec, {buffers_->data<std::byte>(weights), count_ * sizeof(float)}, unit);
                },
            .sends = {.in_node = sent.intra, .between = sent.inter}});
}

TensorRef DenseShard::tensor(TensorRef ref, plan::BufferId id, int64_t first) const {
  const auto range = [first](int64_t at, size_t count) {
    const auto begin = static_cast<size_t>(first + at);
    return Slice{begin, begin + count};
  };
  const auto place = [this](size_t i) { return static_cast<int64_t>(i - own().begin); };
  ref.part = [=, this](int64_t at, int64_t count) {
    const Slice mine = overlap(range(at, static_cast<size_t>(count)), own());
    std::vector<float> values(mine.size());
    if (!values.empty()) buffers_->read(id, place(mine.begin), std::span(values));
    return values;
  };
  ref.join = [=, this](int64_t at, std::span<const float> parts, std::span<float> out) {
    const Slice asked = range(at, out.size());
    auto next = parts.begin();
    for (int q = 0; q < ranks_.ranks(); ++q) {
      const Slice theirs = overlap(asked, part_of(q));
      if (theirs.size() == 0) continue;
      std::copy_n(next, theirs.size(), out.data() + (theirs.begin - asked.begin));
      next += static_cast<int64_t>(theirs.size());
    }
  };
  comm::gather_parts(ranks_, ref);
  ref.put = [=, this](int64_t at, std::span<const float> in) {
    const Slice given = range(at, in.size()), mine = overlap(given, own());
    if (mine.size() > 0)
      buffers_->write(id, place(mine.begin), in.subspan(mine.begin - given.begin, mine.size()));
  };
  return ref;
}

std::vector<comm::StepTraffic> DenseShard::traffic(int64_t runs) const {
  return {
      {"dense_reduce_scatter", traffic_of_runs(ranks_, exchange_->reduce_traffic(), runs, calls_)},
      {"dense_all_gather", traffic_of_runs(ranks_, exchange_->gather_traffic(), runs, calls_)}};
}

}  // namespace hlite::trainer
