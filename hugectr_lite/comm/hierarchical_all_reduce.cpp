#include "hugectr_lite/comm/hierarchical_all_reduce.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace hlite::comm {

bool HierarchicalAllReduce::suits(const Topology& topology) {
  return topology.nodes() > 1 && topology.uniform() && topology.ranks_on(0) > 1;
}

HierarchicalAllReduce::HierarchicalAllReduce(const RankContext& ranks)
    : intra_(ranks.world->split(ranks.topology->node_of(ranks.rank))),
      rail_(ranks.world->split(ranks.topology->local_of(ranks.rank))) {
  send_.resize(static_cast<size_t>(intra_->size()));
  most_.resize(static_cast<size_t>(intra_->size()));
}

void HierarchicalAllReduce::run(std::span<float> values, AllReduce algo) {
  const int n = intra_->size();
  const auto slice = [&](int q) {
    const Slice s = slice_of(values.size(), q, n);
    return values.subspan(s.begin, s.size());
  };
  slice_.assign(slice(intra_->rank()).size(), 0.0f);
  for (int q = 0; q < n; ++q) {
    send_[static_cast<size_t>(q)] = std::as_bytes(slice(q));
    most_[static_cast<size_t>(q)] = slice_.size() * sizeof(float);
  }
  intra_->visit(send_, most_, [&](int, ConstBytes bytes) {
    const auto* part = reinterpret_cast<const float*>(bytes.data());
    for (size_t i = 0; i < slice_.size(); ++i) slice_[i] += part[i];
  });
  rail_->all_reduce(slice_, algo);
  for (int q = 0; q < n; ++q) {
    send_[static_cast<size_t>(q)] = std::as_bytes(std::span<const float>(slice_));
    most_[static_cast<size_t>(q)] = slice(q).size_bytes();
  }
  intra_->visit(send_, most_, [&](int from, ConstBytes bytes) {
    if (!bytes.empty()) std::memcpy(slice(from).data(), bytes.data(), bytes.size());
  });
}

TrafficTotals HierarchicalAllReduce::traffic() const {
  const auto sum = [](const std::vector<int64_t>& v) {
    return std::accumulate(v.begin(), v.end(), int64_t{0});
  };
  const Traffic &intra = intra_->traffic(), &rail = rail_->traffic();
  return {sum(intra.bytes),   sum(rail.bytes),           sum(intra.messages),
          sum(rail.messages), sum(intra.received_bytes), sum(rail.received_bytes)};
}

}  // namespace hlite::comm
