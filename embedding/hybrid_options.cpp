#include "embedding/hybrid_options.h"

#include <algorithm>

namespace hlite::embedding {

int64_t HybridOptions::most_frequent(int64_t categories) const {
  const double most = max_frequent * static_cast<double>(most_batch);
  return most < static_cast<double>(categories) ? static_cast<int64_t>(most) : categories;
}

void declare(config::Block& s, HybridOptions& o) {
  s.number("max_num_frequent_categories", &o.max_frequent, {.min = 0},
           "Maximum number of frequent categories, in multiples of the larger batch size.");
  s.number("max_num_infrequent_samples", &o.max_infrequent_lookups, {.min = -1},
           "Maximum number of a batch's lookups that go to infrequent categories; -1 means all.");
  s.number("p_dup_max", &o.p_dup_max, {.min = 0, .max = 1},
           "`NVLink_SingleNode`: the probability with which an infrequent category may occur twice "
           "in a rank's batch.");
  s.number("max_all_reduce_bandwidth", &o.max_all_reduce_bandwidth, {.min = 1},
           "All-reduce bandwidth in bytes/s. The other types weigh replication against exchange "
           "with it.");
  s.number("max_all_to_all_bandwidth", &o.max_all_to_all_bandwidth, {.min = 1},
           "All-to-all bandwidth in bytes/s, for the same purpose.");
  s.number("efficiency_bandwidth_ratio", &o.efficiency_bandwidth_ratio, {.min = 0},
           "A factor on the ratio of the two.");
  s.choice("communication_type", &o.communication,
           {{"IB_NVLink", CommunicationType::kIbNvlink},
            {"IB_NVLink_Hierarchical", CommunicationType::kIbNvlinkHierarchical},
            {"NVLink_SingleNode", CommunicationType::kNvlinkSingleNode}},
           "With `IB_NVLink_Hierarchical` a rank sends one message to each other node, with "
           "`IB_NVLink` one to each rank.");
  bool distributed = true;
  s.choice("hybrid_embedding_type", &distributed, {{"Distributed", true}}, "The only type.");
  s.integer("num_iterations_statistics", &o.statistics_batches, {.min = 1},
            "Batches to count frequent categories in, if no manifest has the counts.");
  s.integer("exchange_capacity", &o.exchange_capacity, {.min = 0, .max = int64_t{1} << 32},
            "Extension: rows that one rank can send another in an exchange; 0 derives it from "
            "statistics.");
}

void check_communication(const config::JsonNode& hparam, const HybridOptions& o,
                         const config::SolverConfig& solver) {
  const auto& gpu = solver.gpu;
  if (o.communication == CommunicationType::kNvlinkSingleNode && gpu.size() > 1)
    config::fail_at(*hparam.find("communication_type"),
                    fmt::format("expected IB_NVLink or IB_NVLink_Hierarchical for the {} nodes of "
                                "solver.gpu, found \"NVLink_SingleNode\"",
                                gpu.size()));
  if (o.communication != CommunicationType::kIbNvlinkHierarchical) return;
  for (const auto& row : gpu)
    if (row.size() != gpu.front().size())
      config::fail_at(*hparam.find("communication_type"),
                      fmt::format("expected IB_NVLink, as the nodes of solver.gpu have {} and {} "
                                  "ranks, found \"IB_NVLink_Hierarchical\"",
                                  gpu.front().size(), row.size()));
}

}  // namespace hlite::embedding
