// The contents of an embedding block of a config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "embedding/hybrid_options.h"
#include "embedding/slot_layout.h"
#include "embedding/vocabulary_rules.h"
#include "hugectr_lite/config/block.h"
#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/config/optimizer_config.h"
#include "hugectr_lite/config/regularizer_config.h"

namespace hlite::embedding {

// (ours) `sharding`: how tables of known sizes are sharded over ranks.
enum class Sharding {
  kFrequency,  // replicates frequent categories and shards the others: hybrid layers only
  kSlot,       // table s on rank s mod ranks, as the original
  kRow,        // key k of every table on rank k mod ranks
  kReplicate,  // every table on every rank
  kAuto,       // by a plan that balances lookups and memory (sharding_plan.h)
};

// `sharding_param`, with "auto" only. 0: the planner's default (sharding_plan.h).
struct ShardingLimits {
  double memory_gb = 0;  // per rank, for the layer's tables
  // Tables smaller than this are replicated on every rank; none: 8 MB, on several nodes 12.5 MB.
  std::optional<double> replicate_below_mb;
  double bandwidth_ratio = 0;  // memory over link bandwidth; 0: an H100's over NVLink or, on
                               // several nodes, over 400 Gbit/s
  [[nodiscard]] int64_t memory_bytes() const { return static_cast<int64_t>(1e9 * memory_gb); }
  [[nodiscard]] int64_t copy_below_bytes(int nodes) const;
  [[nodiscard]] double shard_cost(int nodes) const;
};

struct EmbeddingConfig {
  config::EmbeddingType type = config::EmbeddingType::kHybrid;  // set before its keys are declared
  std::string type_name, name;
  std::vector<std::string> bottoms, tops;  // equally many
  int64_t width = 0;
  std::vector<int64_t> slot_sizes;   // empty: the Data layer's, or unknown
  std::vector<int64_t> slot_tables;  // the table of each slot; empty: each has its own
  std::vector<Combiner> combiners = {Combiner::kSum};  // of all bottoms, or of each
  // Capacity of a rank's hash tables, in rows or in MB of weights.
  std::optional<int64_t> max_rows, max_megabytes;
  std::optional<int64_t> all_rows;  // of the hash tables of all ranks together
  float init_stddev = 0;
  config::RegularizerConfig penalty;
  Sharding sharding = Sharding::kSlot;
  ShardingLimits sharding_limits;
  HybridOptions hybrid;
  VocabularyRules vocabulary;
  std::optional<config::OptimizerConfig> optimizer;  // none: the config's

  [[nodiscard]] bool is_hybrid() const { return type == config::EmbeddingType::kHybrid; }
  [[nodiscard]] bool is_hashed() const { return config::is_hashed(type); }
};

inline constexpr const char* kSlotTables = "slot_tables";
inline constexpr const char *kMaxRows = "max_vocabulary_size_per_gpu",
                            *kMaxMegabytes = "workspace_size_per_gpu_in_mb",
                            *kAllRows = "max_vocabulary_size", *kOldAllRows = "vocabulary_size";

// `directory`: of the config file.
void declare(config::Block& s, const std::string& directory, EmbeddingConfig& embedding);
// The keys of a layer of that type.
config::BlockSchema describe_embedding(config::EmbeddingType type);

}  // namespace hlite::embedding
