#include "embedding/hybrid_options.h"

#include <algorithm>

namespace hlite::embedding {

int64_t HybridOptions::most_frequent(int64_t categories) const {
  const double most = max_frequent * static_cast<double>(most_batch);
  return most < static_cast<double>(categories) ? static_cast<int64_t>(most) : categories;
}

HybridOptions read_hybrid_options(config::ObjectReader& hparam,
                                  const config::SolverConfig& solver) {
  HybridOptions o;
  o.most_batch = std::max(solver.batchsize, solver.batchsize_eval);
  o.statistics_batches = hparam.integer_or("num_iterations_statistics", 20, {.min = 1});
  o.max_frequent = hparam.number_or("max_num_frequent_categories", 1, {.min = 0});
  o.most_infrequent_lookups = hparam.number_or("max_num_infrequent_samples", -1, {.min = -1});
  o.p_dup_max = hparam.number_or("p_dup_max", 0.01, {.min = 0, .max = 1});
  o.max_all_reduce_bandwidth = hparam.number_or("max_all_reduce_bandwidth", 1.3e11, {.min = 1});
  o.max_all_to_all_bandwidth = hparam.number_or("max_all_to_all_bandwidth", 1.9e11, {.min = 1});
  o.efficiency_bandwidth_ratio = hparam.number_or("efficiency_bandwidth_ratio", 1.0, {.min = 0});
  o.exchange_capacity =
      hparam.integer_or("exchange_capacity", 0, {.min = 0, .max = int64_t{1} << 32});
  o.communication = hparam.value_or<CommunicationType>(
      "communication_type", CommunicationType::kIbNvlink,
      {{"IB_NVLink", CommunicationType::kIbNvlink},
       {"IB_NVLink_Hierarchical", CommunicationType::kIbNvlinkHierarchical},
       {"NVLink_SingleNode", CommunicationType::kNvlinkSingleNode}});
  hparam.choice_or("hybrid_embedding_type", "Distributed", {"Distributed"});
  const auto& gpu = solver.gpu;
  if (o.communication == CommunicationType::kNvlinkSingleNode) {
    if (gpu.size() > 1)
      config::fail_at(
          hparam.member("communication_type"),
          fmt::format("expected IB_NVLink or IB_NVLink_Hierarchical for the {} nodes of "
                      "solver.gpu, found \"NVLink_SingleNode\"",
                      gpu.size()));
  } else if (o.communication == CommunicationType::kIbNvlinkHierarchical) {
    for (const auto& row : gpu)
      if (row.size() != gpu.front().size())
        config::fail_at(hparam.member("communication_type"),
                        fmt::format("expected IB_NVLink, as the nodes of solver.gpu have {} and {} "
                                    "ranks, found \"IB_NVLink_Hierarchical\"",
                                    gpu.front().size(), row.size()));
  }
  return o;
}

}  // namespace hlite::embedding
