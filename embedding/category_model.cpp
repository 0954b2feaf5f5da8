#include "embedding/category_model.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace hlite::embedding {
namespace {

std::vector<int64_t> bounds_of(const SlotLayout& layout) {
  std::vector<int64_t> begin = layout.table_offset;
  begin.push_back(layout.total_rows);
  return begin;
}

// Number of the k < n with k mod ranks == rank.
int64_t share_of(int64_t n, int rank, uint64_t ranks) {
  const auto r = static_cast<int64_t>(ranks);
  return (n - rank + r - 1) / r;
}

}  // namespace

CategoryModel::CategoryModel(const SlotLayout& layout, int ranks)
    : CategoryModel(layout, ranks, {}, std::numeric_limits<double>::infinity(), 0) {}

CategoryModel::CategoryModel(const SlotLayout& layout, int ranks,
                             const FrequencyStatistics& statistics, double threshold,
                             int64_t max_frequent)
    : table_begin_(bounds_of(layout)),
      ranks_(static_cast<uint64_t>(ranks)),
      categories_(layout.total_rows) {
  HLITE_CHECK(ranks >= 1, "{} ranks", ranks);
  const auto& counts = statistics.counts;
  const auto reached = static_cast<int64_t>(
      std::partition_point(counts.begin(), counts.end(),
                           [&](int64_t count) { return static_cast<double>(count) >= threshold; }) -
      counts.begin());
  int64_t frequent = (reached + ranks - 1) / ranks * ranks;
  if (frequent > static_cast<int64_t>(counts.size())) frequent -= ranks;
  if (frequent > max_frequent && frequent > 0)
    raise<ConfigError>(
        "hybrid embedding: {} categories are frequent (looked up at least {:.2f} times in what was "
        "counted), expected at most {}: raise max_num_frequent_categories",
        frequent, threshold, max_frequent);
  int64_t all = statistics.rare_lookups, covered = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    all += counts[i];
    if (static_cast<int64_t>(i) < frequent) covered += counts[i];
  }
  if (all > 0) frequent_share_ = static_cast<double>(covered) / static_cast<double>(all);
  mark({statistics.categories.begin(), statistics.categories.begin() + frequent});
}

void CategoryModel::mark(const std::vector<int64_t>& by_count) {
  // Place by count -> index: by instance, then table, then count.
  const auto tables = table_begin_.size() - 1;
  const auto table_of = [&](int64_t category) {
    return static_cast<size_t>(
        std::upper_bound(table_begin_.begin(), table_begin_.end(), category) -
        table_begin_.begin() - 1);
  };
  std::vector<std::vector<int64_t>> groups(ranks_ * tables);
  for (size_t p = 0; p < by_count.size(); ++p)
    groups[p % ranks_ * tables + table_of(by_count[p])].push_back(by_count[p]);
  for (const auto& group : groups) frequent_.insert(frequent_.end(), group.begin(), group.end());

  bits_.assign(static_cast<size_t>(categories_ / 64 + 1), 0);
  for (const int64_t c : frequent_) {
    HLITE_CHECK(c >= 0 && c < categories_, "category {} of {}", c, categories_);
    bits_[static_cast<size_t>(c >> 6)] |= uint64_t{1} << (c & 63);
  }
  before_.reserve(bits_.size());
  uint32_t before = 0;
  for (const uint64_t word : bits_) {
    before_.push_back(before);
    before += static_cast<uint32_t>(std::popcount(word));
  }
  index_.resize(frequent_.size());
  for (size_t i = 0; i < frequent_.size(); ++i)
    index_[static_cast<size_t>(frequent_below(frequent_[i]))] = static_cast<uint32_t>(i);
}

int64_t CategoryModel::frequent_below(int64_t category) const {
  const auto at = static_cast<size_t>(category >> 6);
  const uint64_t below = (uint64_t{1} << (category & 63)) - 1;
  return before_[at] + std::popcount(bits_[at] & below);
}

int64_t CategoryModel::infrequent_rows(int rank) const {
  return share_of(categories_ - static_cast<int64_t>(frequent_.size()), rank, ranks_);
}

int64_t CategoryModel::infrequent_category(int rank, int64_t row) const {
  // The smallest category with k infrequent ones before it that is infrequent itself.
  const int64_t k = row * static_cast<int64_t>(ranks_) + rank;
  int64_t low = k, high = k + static_cast<int64_t>(frequent_.size());
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    // Infrequent categories up to and including `middle`.
    if (middle + 1 - frequent_below(middle + 1) > k)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace hlite::embedding
