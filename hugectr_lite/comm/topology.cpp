#include "hugectr_lite/comm/topology.h"

#include <algorithm>
#include <numeric>

namespace hlite::comm {

Topology::Topology(std::vector<int> rows, bool node_first) : rows_(std::move(rows)) {
  HLITE_CHECK(!rows_.empty() && *std::min_element(rows_.begin(), rows_.end()) >= 1,
              "a node without ranks");
  if (node_first && !uniform())
    raise<CommError>("device_layout NodeFirst: expected as many ranks on every node");
  const auto all = static_cast<size_t>(std::accumulate(rows_.begin(), rows_.end(), 0));
  node_.resize(all);
  local_.resize(all);
  int next = 0;
  for (int node = 0; node < nodes(); ++node) {
    auto& row = rank_.emplace_back();
    for (int local = 0; local < ranks_on(node); ++local) {
      const int rank = node_first ? local * nodes() + node : next++;
      row.push_back(rank);
      node_[static_cast<size_t>(rank)] = node;
      local_[static_cast<size_t>(rank)] = local;
    }
  }
}

bool Topology::uniform() const {
  return std::all_of(rows_.begin(), rows_.end(), [&](int n) { return n == rows_[0]; });
}

}  // namespace hlite::comm
