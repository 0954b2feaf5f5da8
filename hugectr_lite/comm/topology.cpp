#include "hugectr_lite/comm/topology.h"

#include <algorithm>
#include <numeric>

#include "hugectr_lite/comm/communicator.h"

namespace hlite::comm {

Topology::Topology(const std::vector<int>& rows, bool node_first) {
  HLITE_CHECK(!rows.empty() && *std::min_element(rows.begin(), rows.end()) >= 1,
              "a node without ranks");
  const int count = static_cast<int>(rows.size());
  const int all = std::accumulate(rows.begin(), rows.end(), 0);
  rank_.resize(rows.size());
  if (node_first)
    for (int rank = 0; rank < all; ++rank) add(rank % count);
  else
    for (int node = 0; node < count; ++node)
      for (int local = 0; local < rows[static_cast<size_t>(node)]; ++local) add(node);
  if (node_first && std::any_of(rows.begin(), rows.end(), [&](int n) { return n != rows[0]; }))
    raise<CommError>("device_layout NodeFirst: expected as many ranks on every node");
}

void Topology::add(int node) {
  auto& row = rank_[static_cast<size_t>(node)];
  local_.push_back(static_cast<int>(row.size()));
  row.push_back(ranks());
  node_.push_back(node);
}

bool Topology::uniform() const {
  return std::all_of(rank_.begin(), rank_.end(),
                     [&](const auto& row) { return row.size() == rank_[0].size(); });
}

Topology Topology::part(std::span<const int> ranks) const {
  std::vector<int> number(rank_.size(), -1);  // of the nodes that are left
  for (const int rank : ranks) number[static_cast<size_t>(node_of(rank))] = 0;
  Topology result;
  for (int& n : number)
    if (n == 0) {
      n = result.nodes();
      result.rank_.emplace_back();
    }
  for (const int rank : ranks) result.add(number[static_cast<size_t>(node_of(rank))]);
  return result;
}

}  // namespace hlite::comm
