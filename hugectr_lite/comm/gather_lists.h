// Gathers lists of any lengths from all ranks, outside of a plan.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/tensor_ref.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::comm {

inline constexpr int kEveryRank = -1;

// Returns the lists of ranks 0, 1, ..., concatenated, on rank `root` or kEveryRank; empty on
// others. Collective; alone, a rank needs no world.
template <typename T>
std::vector<T> gather_lists(const RankContext& ranks, std::vector<T> own, int root) {
  if (ranks.ranks() == 1) return own;
  ThreadPool pool(1);
  const Exec exec{.pool = &pool};
  std::vector<size_t> sizes(static_cast<size_t>(ranks.ranks()));
  const size_t size = own.size();
  ranks.world->all_gather(exec, std::as_bytes(std::span(&size, 1)),
                          std::as_writable_bytes(std::span(sizes)));
  const size_t most = *std::max_element(sizes.begin(), sizes.end());
  own.resize(most);
  const auto mine = std::as_bytes(std::span(own));
  std::vector<T> all(root == kEveryRank || root == ranks.rank ? sizes.size() * most : 0);
  const auto into = std::as_writable_bytes(std::span(all));
  if (root == kEveryRank)
    ranks.world->all_gather(exec, mine, into);
  else
    ranks.world->gather(exec, mine, into, root);
  if (all.empty()) return all;
  auto end = all.begin();
  for (size_t q = 0; q < sizes.size(); ++q)
    end = std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(q * most), sizes[q], end);
  all.erase(end, all.end());
  return all;
}

// Makes `get` of its two halves; it is collective.
inline void gather_parts(const RankContext& ranks, TensorRef& tensor) {
  tensor.get = [ranks, part = tensor.part, join = tensor.join](int64_t first,
                                                               std::span<float> out) {
    const std::vector<float> parts = gather_lists(ranks, part(first, std::ssize(out)), 0);
    if (ranks.rank == 0) join(first, parts, out);
  };
}

// The sum over all ranks, on all of them. Collective.
inline int64_t sum_over_ranks(const RankContext& ranks, int64_t own) {
  if (ranks.ranks() == 1) return own;
  ThreadPool pool(1);
  std::vector<int64_t> all(static_cast<size_t>(ranks.ranks()));
  ranks.world->all_gather({.pool = &pool}, std::as_bytes(std::span(&own, 1)),
                          std::as_writable_bytes(std::span(all)));
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

}  // namespace hlite::comm
