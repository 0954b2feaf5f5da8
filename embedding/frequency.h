// Statistics of how often categories are looked up, and the count from which on a copy on every
// rank pays.
//
// A category is a row of any table, numbered over all tables of a layer: its key plus the rows of
// the tables before (SlotLayout::table_offset).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hlite::embedding {

// Categories that occur, by count descending, ties by category ascending.
struct FrequencyStatistics {
  std::vector<int64_t> categories;
  std::vector<int64_t> counts;
  int64_t rare_lookups = 0;  // to categories that are not listed, rarer than those that are

  // Takes lookups as they come.
  static FrequencyStatistics of_lookups(std::vector<int64_t> lookups);
  // counts[c] lookups of category c, as a manifest's key_counts.bin has them.
  static FrequencyStatistics of_counts(std::span<const uint32_t> counts);
};

enum class CommunicationType { kNvlinkSingleNode, kIbNvlink, kIbNvlinkHierarchical };

// The costs that decide whether replicating a category pays.
struct CopyCosts {
  CommunicationType communication = CommunicationType::kIbNvlink;
  double p_dup_max = 0.01;
  double max_all_reduce_bandwidth = 1.3e11, max_all_to_all_bandwidth = 1.9e11;
  double efficiency_bandwidth_ratio = 1.0;
};

struct ThresholdParameters : CopyCosts {
  int64_t batch = 0;         // global
  double iterations = 1;     // batches that the counts were taken from
  int nodes = 1, ranks = 1;  // ranks: of all nodes
};

// A category is frequent when it was counted at least this often. Source: HugeCTR 3.1's hybrid
// embedding, with M = batch / ranks samples a rank:
//
//   NVLink_SingleNode   batch iterations sqrt(2 p_dup_max / (M (M - 1))): the probability that an
//                       infrequent category comes twice in one rank's share stays below p_dup_max
//   the others          iterations n (all_to_all / all_reduce bandwidth) efficiency n / (n - 1),
//                       n = nodes: from there on sending gradients of a copy costs less than the
//                       rows
//
// Where these divide by zero: with one node the exchange is among its ranks, so n = ranks; with one
// rank, or one sample a rank, replication gains nothing, and the threshold is infinite.
double frequent_threshold(const ThresholdParameters& parameters);

}  // namespace hlite::embedding
