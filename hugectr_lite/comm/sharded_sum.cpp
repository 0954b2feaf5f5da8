#include "hugectr_lite/comm/sharded_sum.h"

#include <algorithm>

namespace hlite::comm {

ShardedSum::ShardedSum(const RankContext& ranks, Route route) : ranks_(ranks), route_(route) {
  if (route_ == Route::kFlat) {
    flat_ = ranks_.make_communicator(Route::kFlat);
    return;
  }
  if (!ranks_.topology->uniform())
    raise<CommError>("a sum by rails: expected as many ranks on every node");
  if (!ranks_.world) return;
  intra_ = ranks_.split(ranks_.topology->node_of(ranks_.rank));
  rail_ = ranks_.split(ranks_.topology->local_of(ranks_.rank));
}

// That the ranks of one rail share.
Slice ShardedSum::slice_in_node(size_t n, int rank) const {
  return slice_of(n, ranks_.topology->local_of(rank), ranks_.topology->ranks_on(0));
}

Slice ShardedSum::part_of(size_t n, int rank) const {
  if (route_ == Route::kFlat) return slice_of(n, rank, ranks_.ranks());
  const Slice slice = slice_in_node(n, rank);
  const Slice part =
      slice_of(slice.size(), ranks_.topology->node_of(rank), ranks_.topology->nodes());
  return {slice.begin + part.begin, slice.begin + part.end};
}

TrafficTotals ShardedSum::traffic() const {
  return flat_ ? flat_->traffic() : intra_->traffic() + rail_->traffic();
}

// Always of one size: a run that is captured has run before, and taken it.
std::span<float> ShardedSum::slice_of_sums(const Exec& exec, size_t n) {
  if (!exec.on_gpu()) {
    slice_.resize(std::max(slice_.size(), n));
    return std::span(slice_).first(n);
  }
  if (device_slice_.size() < n * sizeof(float))
    device_slice_ = DeviceMemory(*exec.cuda, n * sizeof(float));
  return {reinterpret_cast<float*>(device_slice_.data()), n};
}

void ShardedSum::reduce_scatter(const Exec& exec, std::span<const float> all, std::span<float> mine,
                                size_t pairs) {
  const TrafficTotals before = traffic();
  if (flat_) {
    flat_->reduce_scatter(exec, all, mine, pairs);
  } else {
    const Slice own = slice_in_node(all.size(), ranks_.rank);
    const auto slice = slice_of_sums(exec, own.size());
    intra_->reduce_scatter(exec, all, slice, pairs);
    rail_->reduce_scatter(exec, slice, mine, pairs_in(own, pairs));
  }
  reduced_ += traffic() - before;
}

void ShardedSum::all_gather(const Exec& exec, Bytes all, size_t unit) {
  const TrafficTotals before = traffic();
  const auto bytes = [&](const Slice& s) { return all.subspan(s.begin * unit, s.size() * unit); };
  const Bytes mine = bytes(part_of(all.size() / unit, ranks_.rank));
  if (flat_) {
    flat_->all_gather(exec, mine, all, unit);
  } else {
    const Bytes slice = bytes(slice_in_node(all.size() / unit, ranks_.rank));
    rail_->all_gather(exec, mine, slice, unit);
    intra_->all_gather(exec, slice, all, unit);
  }
  gathered_ += traffic() - before;
}

ExpectedBytes ShardedSum::reduce_bytes(int64_t count) const {
  return reduce_scatter_bytes(*ranks_.topology, ranks_.rank, route_, count);
}

ExpectedBytes ShardedSum::gather_bytes(int64_t count, int64_t unit) const {
  return gather_slices_bytes(*ranks_.topology, ranks_.rank, route_, count, unit);
}

}  // namespace hlite::comm
