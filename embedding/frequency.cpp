#include "embedding/frequency.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {

// Brings (category, count) pairs that are sorted by category into the order of the statistics.
FrequencyStatistics by_count(const std::vector<int64_t>& categories,
                             const std::vector<int64_t>& counts) {
  std::vector<size_t> order(categories.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return counts[a] > counts[b]; });
  FrequencyStatistics sorted;
  sorted.categories.reserve(order.size());
  sorted.counts.reserve(order.size());
  for (const size_t i : order) {
    sorted.categories.push_back(categories[i]);
    sorted.counts.push_back(counts[i]);
  }
  return sorted;
}

}  // namespace

FrequencyStatistics FrequencyStatistics::of_lookups(std::vector<int64_t> lookups) {
  std::sort(lookups.begin(), lookups.end());
  std::vector<int64_t> categories, counts;
  for (size_t i = 0; i < lookups.size();) {
    size_t end = i;
    while (end < lookups.size() && lookups[end] == lookups[i]) ++end;
    categories.push_back(lookups[i]);
    counts.push_back(static_cast<int64_t>(end - i));
    i = end;
  }
  return by_count(categories, counts);
}

FrequencyStatistics FrequencyStatistics::of_counts(std::span<const uint32_t> all) {
  std::vector<int64_t> categories, counts;
  for (size_t c = 0; c < all.size(); ++c) {
    if (all[c] == 0) continue;
    categories.push_back(static_cast<int64_t>(c));
    counts.push_back(all[c]);
  }
  return by_count(categories, counts);
}

double frequent_threshold(const ThresholdParameters& p) {
  HLITE_CHECK(p.batch >= 1 && p.iterations > 0 && p.nodes >= 1 && p.ranks >= p.nodes,
              "batch {}, iterations {}, {} nodes, {} ranks", p.batch, p.iterations, p.nodes,
              p.ranks);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (p.ranks == 1) return kNever;
  if (p.communication == CommunicationType::kNvlinkSingleNode) {
    const double share = static_cast<double>(p.batch) / p.ranks;
    if (share <= 1) return kNever;
    return static_cast<double>(p.batch) * p.iterations *
           std::sqrt(2 * p.p_dup_max / (share * (share - 1)));
  }
  const double n = p.nodes > 1 ? p.nodes : p.ranks;
  return p.iterations * n * (p.max_all_to_all_bandwidth / p.max_all_reduce_bandwidth) *
         p.efficiency_bandwidth_ratio * n / (n - 1);
}

}  // namespace hlite::embedding
