// Which rank holds which table: a plan that balances lookups and memory and can say why.
//
// Source: the planner of HugeCTR's DLRM-DCNv2 sample ("auto" and "hier_auto"). There a bucket is a
// rank, or a node whose ranks share its shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hlite::embedding {

struct TableLoad {
  std::string name;
  int64_t rows = 0;
  double lookups = 1;  // a sample: the hotness
};

struct PlannerOptions {
  int buckets = 1;
  int64_t capacity_bytes = 0;         // of a bucket
  int64_t row_bytes = 0;              // of a row with its optimizer states
  int64_t replicate_below_bytes = 0;  // tables smaller than this are replicated in every bucket
  // Cost of holding one shard more, in lookups a sample: (memory / link bandwidth) / (bytes of a
  // lookup's memory / link traffic) = (3.35e12 / 450e9) / (8 / 2) on an H100.
  double shard_cost = 3.35e12 / 450e9 / 4;
  int rounds = 20;
};

class ShardingPlan {
 public:
  // Tables are split by halves, hottest first, as long as the dearest bucket gets cheaper (at most
  // `rounds` times); a table split n ways has the rows with key mod n == i in its i-th shard. The
  // plan that splits every table over all buckets is a candidate as well. Throws ConfigError with
  // the numbers when not even that fits the capacity.
  ShardingPlan(std::vector<TableLoad> tables, const PlannerOptions& options);

  // The buckets that hold table t's shards, in the order of the shards; empty: copied everywhere.
  [[nodiscard]] const std::vector<int>& shards(size_t t) const { return shards_[t]; }
  [[nodiscard]] bool replicated(size_t t) const { return shards_[t].empty(); }

  struct Bucket {
    int64_t bytes = 0;   // copied tables included
    int64_t rows = 0;    // of sharded tables
    double lookups = 0;  // a sample, to sharded tables
    int shards = 0;
    double cost = 0;  // lookups + shard_cost * shards
  };
  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  [[nodiscard]] double cost() const;  // of the dearest bucket

  // A line for each table and each bucket.
  [[nodiscard]] std::string explain() const;

 private:
  [[nodiscard]] std::vector<Bucket> measure(const std::vector<std::vector<int>>& shards) const;

  std::vector<TableLoad> tables_;
  PlannerOptions options_;
  std::vector<std::vector<int>> shards_;
  std::vector<Bucket> buckets_;
};

}  // namespace hlite::embedding
