#include "embedding/sharding_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {

using Shards = std::vector<std::vector<int>>;

// Rows of shard i of n of a table, by key mod n.
int64_t shard_rows(int64_t rows, int64_t i, int64_t n) { return (rows - i + n - 1) / n; }

// Puts the shards of every table with splits[t] > 0 into buckets, hottest shard first, each into
// the cheapest bucket that has none of that table and enough free capacity. On failure `stuck` is
// the table.
std::optional<Shards> place(const std::vector<TableLoad>& tables, const PlannerOptions& options,
                            const std::vector<int>& splits, int64_t capacity, size_t& stuck) {
  std::vector<size_t> order;
  for (size_t t = 0; t < tables.size(); ++t)
    if (splits[t] > 0) order.push_back(t);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tables[a].lookups / splits[a] > tables[b].lookups / splits[b];
  });
  const auto buckets = static_cast<size_t>(options.buckets);
  std::vector<double> cost(buckets, 0);
  std::vector<int64_t> bytes(buckets, 0);
  Shards shards(tables.size());
  for (const size_t t : order)
    for (int i = 0; i < splits[t]; ++i) {
      const int64_t size = shard_rows(tables[t].rows, i, splits[t]) * options.row_bytes;
      std::optional<size_t> best;
      for (size_t b = 0; b < buckets; ++b) {
        const bool has =
            std::find(shards[t].begin(), shards[t].end(), static_cast<int>(b)) != shards[t].end();
        if (has || bytes[b] + size > capacity) continue;
        if (!best || cost[b] < cost[*best]) best = b;
      }
      if (!best) {
        stuck = t;
        return std::nullopt;
      }
      cost[*best] += tables[t].lookups / splits[t] + options.shard_cost;
      bytes[*best] += size;
      shards[t].push_back(static_cast<int>(*best));
    }
  return shards;
}

// The table with the most lookups a shard that can be split once more; tables.size(): none.
size_t hottest_to_split(const std::vector<TableLoad>& tables, const std::vector<int>& splits,
                        int buckets) {
  size_t hottest = tables.size();
  for (size_t t = 0; t < tables.size(); ++t) {
    if (splits[t] == 0 || 2 * splits[t] > buckets || 2 * splits[t] > tables[t].rows) continue;
    if (hottest == tables.size() ||
        tables[t].lookups / splits[t] > tables[hottest].lookups / splits[hottest])
      hottest = t;
  }
  return hottest;
}

}  // namespace

ShardingPlan::ShardingPlan(std::vector<TableLoad> tables, const PlannerOptions& options)
    : tables_(std::move(tables)), options_(options) {
  HLITE_CHECK(options.buckets >= 1 && options.row_bytes >= 1, "{} buckets, {} bytes a row",
              options.buckets, options.row_bytes);
  std::vector<int> splits;
  int64_t replicated = 0;
  for (const TableLoad& table : tables_) {
    const int64_t bytes = table.rows * options.row_bytes;
    splits.push_back(bytes < options.replicate_below_bytes ? 0 : 1);
    if (splits.back() == 0) replicated += bytes;
  }
  const int64_t capacity = options.capacity_bytes - replicated;

  double best = 0;
  const auto consider = [&](const Shards& shards) {
    auto buckets = measure(shards);
    const double cost =
        std::max_element(buckets.begin(), buckets.end(), [](const auto& a, const auto& b) {
          return a.cost < b.cost;
        })->cost;
    if (!buckets_.empty() && cost >= best) return;
    best = cost;
    shards_ = shards;
    buckets_ = std::move(buckets);
  };
  const std::vector<int> whole = splits;
  for (int round = 0; round < options.rounds; ++round) {
    size_t table = tables_.size();
    if (const auto shards = place(tables_, options, splits, capacity, table)) {
      consider(*shards);
      table = hottest_to_split(tables_, splits, options.buckets);
      if (table == tables_.size()) break;
    } else if (2 * splits[table] > options.buckets || 2 * splits[table] > tables_[table].rows) {
      break;
    }
    splits[table] *= 2;
  }

  std::vector<int> uniform = whole;
  for (size_t t = 0; t < uniform.size(); ++t)
    if (uniform[t] > 0)
      uniform[t] = static_cast<int>(std::min<int64_t>(options.buckets, tables_[t].rows));
  size_t stuck = 0;
  if (const auto shards = place(tables_, options, uniform, capacity, stuck)) consider(*shards);
  if (buckets_.empty()) {
    int64_t all = 0;
    for (const TableLoad& table : tables_) all += table.rows * options.row_bytes;
    raise<ConfigError>(
        "sharding: the tables need {} bytes, {} of them on every one of {} ranks or nodes, "
        "expected at most {} on each: table {} ({} rows) does not fit",
        all, replicated, options.buckets, options.capacity_bytes, tables_[stuck].name,
        tables_[stuck].rows);
  }
}

std::vector<ShardingPlan::Bucket> ShardingPlan::measure(const Shards& shards) const {
  std::vector<Bucket> buckets(static_cast<size_t>(options_.buckets));
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (shards[t].empty())
      for (Bucket& b : buckets) b.bytes += tables_[t].rows * options_.row_bytes;
    const auto n = static_cast<int64_t>(shards[t].size());
    for (int64_t i = 0; i < n; ++i) {
      Bucket& b = buckets[static_cast<size_t>(shards[t][static_cast<size_t>(i)])];
      const int64_t rows = shard_rows(tables_[t].rows, i, n);
      b.rows += rows;
      b.bytes += rows * options_.row_bytes;
      b.lookups += tables_[t].lookups / static_cast<double>(n);
      ++b.shards;
    }
  }
  for (Bucket& b : buckets) b.cost = b.lookups + options_.shard_cost * b.shards;
  return buckets;
}

double ShardingPlan::cost() const {
  double most = 0;
  for (const Bucket& b : buckets_) most = std::max(most, b.cost);
  return most;
}

std::string ShardingPlan::explain() const {
  std::string text;
  for (size_t t = 0; t < tables_.size(); ++t) {
    const TableLoad& table = tables_[t];
    const std::string where =
        replicated(t) ? fmt::format("copied everywhere: smaller than {} bytes",
                                    options_.replicate_below_bytes)
                      : fmt::format("{} on {}",
                                    shards_[t].size() == 1
                                        ? "whole"
                                        : "by key modulo " + std::to_string(shards_[t].size()),
                                    fmt::join(shards_[t], ","));
    fmt::format_to(std::back_inserter(text), "{:<12} {:>12} rows {:>6g} lookups  {}\n", table.name,
                   table.rows, table.lookups, where);
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& k = buckets_[b];
    fmt::format_to(std::back_inserter(text),
                   "{:>4}: {:>3} shards {:>12} rows {:>8.3g} lookups {:>15} bytes ({:.0f} % of the "
                   "capacity)  cost {:.4g}{}\n",
                   b, k.shards, k.rows, k.lookups, k.bytes,
                   100 * static_cast<double>(k.bytes) /
                       static_cast<double>(std::max<int64_t>(options_.capacity_bytes, 1)),
                   k.cost, k.cost == cost() ? "  <- the dearest" : "");
  }
  return text;
}

}  // namespace hlite::embedding
