// EmbeddingLayer: one embedding block of a config.
//
// All types describe the same mathematics, a table for each slot (or one that several slots share,
// `slot_tables`) and one row of it for each key;
// they differ in which rows there are and how these are spread over ranks:
//
//   HybridSparseEmbedding               frequent categories replicated, the others
//                                       sharded by row (extension: several keys a slot)
//   LocalizedSlotSparseEmbeddingOneHot  each table on one rank
//   LocalizedSlotSparseEmbeddingHash    the same, hashed, with a maximum of rows per rank
//   DistributedSlotSparseEmbeddingHash  key k on rank k mod ranks, hashed
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "embedding/embedding_config.h"
#include "embedding/embedding_tables.h"
#include "embedding/row_placement.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/optimizer/lr_schedule.h"
#include "hugectr_lite/optimizer/update_rules.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

// What a layer makes of one of its sparse inputs.
struct EmbeddingTop {
  std::string name;
  size_t input = 0;                    // of the Data layer
  Combiner combiner = Combiner::kSum;  // kConcat: of a history
  int64_t first_slot = 0, slots = 0;   // of data_slots()
  int64_t first_vector = 0;            // of a sample, among the slots of layout()
  int64_t rows = 0, width = 0;         // [B, rows, width]
};
struct LookedUpSlot {
  int64_t slot = 0;   // among those of all sparse inputs
  int64_t table = 0;  // of the layer
  int64_t rows = 0;   // of the table
};

// Returns true if a layer type belongs here.
bool is_embedding_type(const std::string& type);

class EmbeddingLayer {
 public:
  // Parses the block, one of config.layers; one without an optimizer of its own takes the config's.
  // Throws ConfigError with all faults, a line each. REQUIRES a layer type that is an embedding's.
  EmbeddingLayer(const config::JsonNode& node, const config::TrainConfig& config);

  [[nodiscard]] const std::string& name() const { return config_.name; }
  [[nodiscard]] const std::string& type() const { return config_.type_name; }
  // The tensors that it makes, one for each sparse input that it looks up.
  [[nodiscard]] const std::vector<EmbeddingTop>& tops() const { return tops_; }
  [[nodiscard]] const config::JsonNode& node() const { return *node_; }
  [[nodiscard]] const SlotLayout& layout() const { return spec_.layout; }
  // Returns true if the config sets slot_tables.
  [[nodiscard]] bool has_slot_tables() const { return !config_.slot_tables.empty(); }
  // Null for a type that is not hybrid.
  [[nodiscard]] const HybridOptions* hybrid() const {
    return config_.is_hybrid() ? &config_.hybrid : nullptr;
  }
  // hashed(): keys get rows when they are first seen, on the rank that key_owner() says.
  [[nodiscard]] bool hashed() const { return config_.is_hashed(); }
  // Returns true if its hash tables need their index where rows are trained: to count uses, or to
  // round rows of 16 bits by their keys.
  [[nodiscard]] bool trains_by_key() const {
    return hashed() && (spec_.vocabulary.keeps_uses() || spec_.table_type != FloatType::kFloat);
  }
  [[nodiscard]] KeyOwner key_owner() const {
    return by_slot() ? KeyOwner::kByTable : KeyOwner::kByKey;
  }
  // The largest number of rows of a rank, if hashed().
  [[nodiscard]] int64_t hash_capacity() const { return spec_.hash_capacity; }
  // True if the least recently used rows leave tables that are full.
  [[nodiscard]] bool displaces_rows() const {
    return spec_.vocabulary.when_full == WhenFull::kEvict;
  }
  // Throws ConfigError that names the key by which a rank of `ranks` holds that many hashed rows,
  // and its value then. `found`: what is too much.
  [[noreturn]] void fail_rows(int64_t rows, int64_t ranks, const std::string& found) const;
  // REQUIRES rows that are not hashed.
  [[nodiscard]] Sharding sharding() const { return config_.sharding; }
  [[nodiscard]] const ShardingLimits& sharding_limits() const { return config_.sharding_limits; }
  // Type of the weights in the tables.
  [[nodiscard]] FloatType table_type() const { return spec_.table_type; }
  // Bytes of a row as the tables store it, and of one with its optimizer states.
  [[nodiscard]] int64_t table_row_bytes() const { return spec_.row_bytes(); }
  [[nodiscard]] int64_t row_bytes() const { return spec_.stored_row_bytes(); }
  // The slots of its inputs, of all tops one after another. A position of a history is a slot of
  // layout(), and the history's slot is one of these.
  [[nodiscard]] const std::vector<LookedUpSlot>& data_slots() const { return data_slots_; }
  [[nodiscard]] const optimizer::UpdateRule& rule() const { return spec_.rule; }
  [[nodiscard]] const config::RegularizerConfig& penalty() const { return spec_.penalty; }
  [[nodiscard]] const optimizer::LrSchedule& schedule() const { return schedule_; }

  // Throws ConfigError if a step changes rows that its batch does not look up, which rows outside
  // of memory cannot have.
  void require_local_updates() const;

  // Makes the tables at their place. The layer sets the route and the capacity of its exchanges. On
  // many ranks `placement` is what make_placements() made, and so is the share of the lookups that
  // go to sharded rows. Collective when place.ranks.world is given. `seed`: of initial values.
  void shard(TablesPlace place, uint64_t seed);
  // Names the buffers: the tables, the optimizer's states, the output [max_batch, slots of layout(),
  // width] and, where there are several tops, these and the gradient of the output.
  void declare(plan::Buffers& buffers, int64_t max_batch);
  [[nodiscard]] plan::BufferId output() const { return output_; }
  // The values of tops(); one is the output itself.
  [[nodiscard]] const std::vector<plan::BufferId>& top_values() const { return top_values_; }
  // kNoBuffer where there is one top.
  [[nodiscard]] plan::BufferId output_gradient() const { return output_gradient_; }
  // After spread().
  [[nodiscard]] EmbeddingTables& tables() const { return *tables_; }

 private:
  // Checks the block together with the others. Throws ConfigError.
  void fit_input(const config::TrainConfig& config);
  void find_slots(const config::DataConfig& data);
  void lay_out(const config::DataConfig& data, const std::vector<int64_t>& rows);
  [[nodiscard]] std::vector<int64_t> find_rows(const config::DataConfig& data) const;
  void check_sizes(const std::vector<int64_t>& rows, const config::DataConfig& data) const;
  void set_capacity(int64_t ranks);
  // Returns true for a type that has all keys of a table on one rank.
  [[nodiscard]] bool by_slot() const {
    return config_.type == config::EmbeddingType::kLocalizedHash;
  }
  [[nodiscard]] std::vector<int64_t> tables_of_slots(const config::DataConfig& data) const;
  void set_optimizer(const config::TrainConfig& config);
  void check_whole_gradients(const config::TrainConfig& config, const config::JsonNode& optimizer);
  // The node of a key of sparse_embedding_hparam, or of that block if there is no such key.
  [[nodiscard]] const config::JsonNode& table_node(const char* key) const;

  const config::JsonNode* node_;
  const config::JsonNode* optimizer_ = nullptr;  // the block that says how rows are updated
  EmbeddingConfig config_;
  std::vector<EmbeddingTop> tops_;
  std::vector<LookedUpSlot> data_slots_;
  TablesSpec spec_;
  optimizer::LrSchedule schedule_;
  FloatType output_type_ = FloatType::kFloat;
  plan::BufferId output_ = plan::kNoBuffer, output_gradient_ = plan::kNoBuffer;
  std::vector<plan::BufferId> top_values_;
  std::unique_ptr<EmbeddingTables> tables_;
};

}  // namespace hlite::embedding
