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
#include "embedding/exchanged_tables.h"
#include "embedding/hybrid_options.h"
#include "embedding/row_placement.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/optimizer/lr_schedule.h"
#include "hugectr_lite/optimizer/update_rules.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

// Whether a layer type belongs here.
bool is_embedding_type(const std::string& type);

// (ours) How LocalizedSlotSparseEmbeddingOneHot spreads tables over ranks: `sharding`.
enum class Sharding {
  kSlot,       // table s on rank s mod ranks, as the original
  kRow,        // key k of every table on rank k mod ranks
  kReplicate,  // every table on every rank
  kAuto,       // by a plan that balances lookups and memory (sharding_plan.h)
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
  [[nodiscard]] const TableLayout& layout() const { return spec_.layout; }
  [[nodiscard]] const Pooling& pooling() const { return spec_.pooling; }
  // Null for a type that is not hybrid.
  [[nodiscard]] const HybridOptions* hybrid() const { return hybrid_ ? &*hybrid_ : nullptr; }
  // Whether rows come as keys come, and whether all keys of a slot are on one rank then.
  [[nodiscard]] bool hashed() const { return hashed_; }
  [[nodiscard]] bool by_slot() const { return by_slot_; }
  // The most rows of a rank then.
  [[nodiscard]] int64_t hash_capacity() const { return spec_.hash_capacity; }
  // Of a type that is not hybrid.
  [[nodiscard]] Sharding sharding() const { return sharding_; }
  // Bytes of a row with its optimizer states.
  [[nodiscard]] int64_t row_bytes() const {
    return spec_.layout.width * static_cast<int64_t>(sizeof(float)) *
           (1 + optimizer::state_count(spec_.rule.type));
  }
  // Index of its sparse input in the Data layer.
  [[nodiscard]] size_t input() const { return input_; }
  [[nodiscard]] const optimizer::UpdateRule& rule() const { return spec_.rule; }
  [[nodiscard]] const optimizer::LrSchedule& schedule() const { return schedule_; }

  // Where the rows lie: on many ranks as `placement` says, which all ranks make alike
  // (make_placement()); on one rank null. Collective when ranks.world is given. `max_batch`:
  // samples of one rank. `seed`: of the first values of rows that come as keys come. `gpu`: the one
  // that all rows lie on, or null; only there may `type`, of the output and its gradient, not be
  // float.
  void spread(const comm::RankContext& ranks, std::shared_ptr<const RowPlacement> placement,
              double exchanged_share, int64_t max_batch, int64_t train_batch, int threads,
              uint64_t seed, const cuda::Backend* gpu = nullptr,
              FloatType type = FloatType::kFloat);
  // Names the buffers: the tables, the optimizer's states, the output [max_batch, slots, width].
  void declare(plan::Buffers& buffers, int64_t max_batch);
  [[nodiscard]] plan::BufferId output() const { return output_; }
  // After spread(). On many ranks exchanged() is the same object, else null.
  [[nodiscard]] EmbeddingTables& tables() const { return *tables_; }
  [[nodiscard]] ExchangedTables* exchanged() const { return exchanged_; }

 private:
  [[nodiscard]] std::vector<int64_t> find_rows(config::ObjectReader& hparam,
                                               const config::TrainConfig& config) const;
  void read_sizes(config::ObjectReader& hparam, int64_t width, const config::TrainConfig& config);
  void read_capacity(config::ObjectReader& hparam);

  const config::JsonNode* node_;
  std::string name_, type_, top_;
  size_t input_ = 0;
  TablesSpec spec_;
  std::optional<HybridOptions> hybrid_;
  Sharding sharding_ = Sharding::kSlot;
  bool hashed_ = false, by_slot_ = false;
  optimizer::LrSchedule schedule_;
  FloatType output_type_ = FloatType::kFloat;
  plan::BufferId output_ = plan::kNoBuffer;
  std::unique_ptr<EmbeddingTables> tables_;
  ExchangedTables* exchanged_ = nullptr;
};

}  // namespace hlite::embedding
