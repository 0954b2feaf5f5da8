// EmbeddingLayer: one embedding block of a config.
//
// All types describe the same mathematics, a table for each slot and one row of it for each key;
// they differ in which rows there are and how these are spread over ranks:
//
//   HybridSparseEmbedding               copies of the frequent categories everywhere, the others
//                                       spread row by row (ours: several keys a slot too)
//   LocalizedSlotSparseEmbeddingOneHot  each table on one rank
//   LocalizedSlotSparseEmbeddingHash    the same; rows as keys come, up to a number a rank
//   DistributedSlotSparseEmbeddingHash  key k on rank k mod ranks; rows as keys come
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "embedding/embedding_tables.h"
#include "embedding/hybrid_options.h"
#include "embedding/row_placement.h"
#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/optimizer/lr_schedule.h"
#include "hugectr_lite/optimizer/update_rules.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

// Whether a layer type belongs here.
bool is_embedding_type(const std::string& type);

// (ours) How tables of known sizes are spread over ranks: `sharding`.
enum class Sharding {
  kFrequency,  // frequent categories on every rank, the others spread: of a hybrid layer alone
  kSlot,       // table s on rank s mod ranks, as the original
  kRow,        // key k of every table on rank k mod ranks
  kReplicate,  // every table on every rank
  kAuto,       // by a plan that balances lookups and memory (sharding_plan.h)
};

// `sharding_param` beside "auto". 0: what the planner's source does (sharding_plan.h).
struct ShardingLimits {
  int64_t memory_bytes = 0;    // of a rank for the layer's tables
  int64_t copied_bytes = -1;   // tables smaller than this are copied to every rank; -1: 8 MB, on
                               // several nodes 12.5 MB
  double bandwidth_ratio = 0;  // of a rank's memory over its link; 0: an H100's over NVLink, on
                               // several nodes over 400 Gbit/s
  [[nodiscard]] int64_t copy_below_bytes(int nodes) const;
  [[nodiscard]] double shard_cost(int nodes) const;
};

class EmbeddingLayer {
 public:
  // Parses the block, one of config.layers; one without an optimizer of its own takes the config's.
  // Throws ConfigError with the JSON path.
  EmbeddingLayer(const config::JsonNode& node, const config::TrainConfig& config);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& type() const { return type_; }
  [[nodiscard]] const std::string& top() const { return top_; }
  [[nodiscard]] const config::JsonNode& node() const { return *node_; }
  [[nodiscard]] const SlotLayout& layout() const { return spec_.layout; }
  // Null for a type that is not hybrid.
  [[nodiscard]] const HybridOptions* hybrid() const { return hybrid_ ? &*hybrid_ : nullptr; }
  // Whether rows come as keys come, and whether all keys of a slot are on one rank then.
  [[nodiscard]] bool hashed() const { return hashed_; }
  [[nodiscard]] bool by_slot() const { return by_slot_; }
  // The most rows of a rank then.
  [[nodiscard]] int64_t hash_capacity() const { return spec_.hash_capacity; }
  // Where rows are not hashed.
  [[nodiscard]] Sharding sharding() const { return sharding_; }
  [[nodiscard]] const ShardingLimits& sharding_limits() const { return sharding_limits_; }
  // Bytes of a row with its optimizer states.
  [[nodiscard]] int64_t row_bytes() const {
    return spec_.layout.width * static_cast<int64_t>(sizeof(float)) *
           (1 + optimizer::state_count(spec_.rule.type));
  }
  // Index of its sparse input in the Data layer.
  [[nodiscard]] size_t input() const { return input_; }
  [[nodiscard]] const optimizer::UpdateRule& rule() const { return spec_.rule; }
  [[nodiscard]] const config::RegularizerConfig& penalty() const { return spec_.penalty; }
  [[nodiscard]] const optimizer::LrSchedule& schedule() const { return schedule_; }

  // Makes the tables at their place, whose route and room for exchanges the layer says. On many
  // ranks `placement` is what make_placements() made, and so is the share of the lookups that go to
  // rows which are not copied. Collective when place.ranks.world is given. `seed`: of first values.
  void spread(TablesPlace place, uint64_t seed);
  // Names the buffers: the tables, the optimizer's states, the output [max_batch, slots, width].
  void declare(plan::Buffers& buffers, int64_t max_batch);
  [[nodiscard]] plan::BufferId output() const { return output_; }
  // After spread().
  [[nodiscard]] EmbeddingTables& tables() const { return *tables_; }

 private:
  [[nodiscard]] std::vector<int64_t> find_rows(config::ObjectReader& hparam,
                                               const config::TrainConfig& config) const;
  [[nodiscard]] std::vector<int64_t> read_sizes(config::ObjectReader& hparam,
                                                const config::TrainConfig& config) const;
  void read_capacity(config::ObjectReader& hparam);
  void read_first_values(config::ObjectReader& hparam);
  void check_whole_gradients(const config::TrainConfig& config, const config::JsonNode& optimizer,
                             config::ObjectReader& hparam);
  void read_sharding(config::ObjectReader& hparam);

  const config::JsonNode* node_;
  std::string name_, type_, top_;
  size_t input_ = 0;
  TablesSpec spec_;
  std::optional<HybridOptions> hybrid_;
  Sharding sharding_ = Sharding::kSlot;
  ShardingLimits sharding_limits_;
  bool hashed_ = false, by_slot_ = false;
  optimizer::LrSchedule schedule_;
  FloatType output_type_ = FloatType::kFloat;
  plan::BufferId output_ = plan::kNoBuffer;
  std::unique_ptr<EmbeddingTables> tables_;
};

}  // namespace hlite::embedding
