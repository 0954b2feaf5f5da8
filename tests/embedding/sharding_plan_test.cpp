#include "embedding/sharding_plan.h"

#include <algorithm>
#include <set>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::embedding;

namespace {
std::vector<TableLoad> dcnv2_tables() {
  const int64_t rows[] = {40000000, 39060,    17295,    7424,     20265,  3,     7122, 1543, 63,
                          40000000, 3067956,  405282,   10,       2209,   11938, 155,  4,    976,
                          14,       40000000, 40000000, 40000000, 590152, 12973, 108,  36};
  const int hotness[] = {3, 2, 1, 2, 6, 1, 1,  1,   1,  7,  3, 8, 1,
                         6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1};
  std::vector<TableLoad> tables;
  for (size_t t = 0; t < 26; ++t)
    tables.push_back({"C" + std::to_string(t + 1), rows[t], static_cast<double>(hotness[t])});
  return tables;
}

// Checks every plan: each shard once, a table's shards on different buckets, no capacity exceeded,
// and the buckets' figures as they follow from the shards.
void check_plan(const ShardingPlan& plan, const std::vector<TableLoad>& tables,
                const PlannerOptions& options) {
  std::vector<int64_t> bytes(static_cast<size_t>(options.buckets), 0);
  std::vector<double> cost(bytes.size(), 0);
  for (size_t t = 0; t < tables.size(); ++t) {
    const auto& shards = plan.shards(t);
    const auto n = static_cast<int64_t>(shards.size());
    if (plan.replicated(t)) {
      CHECK(tables[t].rows * options.row_bytes < options.replicate_below_bytes);
      for (auto& b : bytes) b += tables[t].rows * options.row_bytes;
      continue;
    }
    CHECK(std::set<int>(shards.begin(), shards.end()).size() == shards.size());
    int64_t rows = 0;
    for (int64_t i = 0; i < n; ++i) {
      int64_t mine = 0;  // keys k of [0, rows) with k mod n == i
      mine = tables[t].rows / n + (i < tables[t].rows % n ? 1 : 0);
      rows += mine;
      const auto b = static_cast<size_t>(shards[static_cast<size_t>(i)]);
      bytes[b] += mine * options.row_bytes;
      cost[b] += tables[t].lookups / static_cast<double>(n) + options.shard_cost;
    }
    CHECK(rows == tables[t].rows);
  }
  for (size_t b = 0; b < bytes.size(); ++b) {
    CHECK(plan.buckets()[b].bytes == bytes[b]);
    CHECK(plan.buckets()[b].cost == Approx(cost[b]));
    CHECK(bytes[b] <= options.capacity_bytes);
  }
  CHECK(plan.cost() == Approx(*std::max_element(cost.begin(), cost.end())));
}
}  // namespace

TEST_CASE("the DCNv2 tables on eight ranks: balanced, in 60 GB") {
  PlannerOptions options;
  options.buckets = 8;
  options.capacity_bytes = 60'000'000'000;
  options.row_bytes = 128 * 8;
  options.replicate_below_bytes = 8'000'000;
  const auto tables = dcnv2_tables();
  const ShardingPlan plan(tables, options);
  check_plan(plan, tables, options);
  CHECK(plan.replicated(5));          // 3 rows
  CHECK(plan.shards(20).size() > 1);  // 100 lookups a sample
  // No rank does half as much again as the average.
  double all = 0;
  for (const auto& b : plan.buckets()) all += b.cost;
  CHECK(plan.cost() < 1.5 * all / 8);
  test::check_contains(plan.explain(), {"C21", "copied everywhere", "by key modulo", "dearest"});
}

TEST_CASE("random tables: every plan keeps its promises") {
  for (uint64_t round = 0; round < 100; ++round) {
    uint64_t n = 0;
    const auto draw = [&](uint32_t below) { return random::word(3, round, n++) % below; };
    PlannerOptions options;
    options.buckets = 1 + static_cast<int>(draw(9));
    options.row_bytes = 4 * (1 + draw(32));
    std::vector<TableLoad> tables(1 + draw(12));
    int64_t all = 0;
    for (auto& t : tables) {
      t.rows = 1 + draw(draw(2) ? 10 : 10000);
      t.lookups = 1 + draw(20);
      all += t.rows * options.row_bytes;
    }
    options.replicate_below_bytes = draw(2) ? 0 : 1000;
    options.capacity_bytes = all / options.buckets * 2 + 13 * (1000 + options.row_bytes);
    INFO("round " << round);
    check_plan(ShardingPlan(tables, options), tables, options);
  }
}

TEST_CASE("a table too large for one rank is split, and what fits nowhere is refused") {
  PlannerOptions options;
  options.buckets = 4;
  options.row_bytes = 4;
  options.capacity_bytes = 1100;
  const std::vector<TableLoad> tables = {{"big", 1000, 1}};
  const ShardingPlan plan(tables, options);
  check_plan(plan, tables, options);
  CHECK(plan.shards(0).size() == 4);
  options.capacity_bytes = 999;
  test::check_contains(test::message_of<ConfigError>([&] { ShardingPlan(tables, options); }),
                       {"big", "4000 bytes", "999"});
}
