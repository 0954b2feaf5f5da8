// EmbeddingLayer: one embedding block of a config, on one rank.
//
// HybridSparseEmbedding and LocalizedSlotSparseEmbeddingOneHot describe the same mathematics, a
// table for each slot and one row of it for each key; they differ in how tables are spread over
// ranks. On one rank both are a lookup and a sparse update. (Ours: HybridSparseEmbedding takes
// several keys a slot too.)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "embedding/sparse_update.h"
#include "embedding/table_layout.h"
#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/optimizer/lr_schedule.h"
#include "hugectr_lite/optimizer/update_rules.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

// Whether a layer type belongs here.
bool is_embedding_type(const std::string& type);

class EmbeddingLayer {
 public:
  // Parses the block, one of config.layers; one without an optimizer of its own takes the config's.
  // Throws ConfigError with the JSON path.
  EmbeddingLayer(const config::JsonNode& node, const config::TrainConfig& config);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& type() const { return type_; }
  [[nodiscard]] const std::string& top() const { return top_; }
  [[nodiscard]] const config::JsonNode& node() const { return *node_; }
  [[nodiscard]] const TableLayout& layout() const { return layout_; }
  [[nodiscard]] const Pooling& pooling() const { return pooling_; }
  // Index of its sparse input in the Data layer.
  [[nodiscard]] size_t input() const { return input_; }
  [[nodiscard]] const optimizer::UpdateRule& rule() const { return rule_; }
  [[nodiscard]] const optimizer::LrSchedule& schedule() const { return schedule_; }

  // Names the buffers: the tables, the optimizer's states, the output [max_batch, slots, width].
  void declare(plan::Buffers& buffers, int64_t max_batch);
  [[nodiscard]] plan::BufferId output() const { return output_; }
  // Bytes of the sparse update's workspace, which is not among the buffers.
  [[nodiscard]] int64_t workspace_bytes(int64_t train_batch, int threads) const {
    return SparseUpdate::workspace_bytes(pooling_, train_batch, threads);
  }

  // `keys`: uint32 [batch, columns of all sparse inputs].
  void emit_forward(plan::Plan& plan, plan::BufferId keys) const;
  // `grad`: gradient of output(); `rate`: float; `step`: int64, from 1. Allocates the workspace.
  void emit_update(plan::Plan& plan, plan::BufferId keys, plan::BufferId grad, plan::BufferId rate,
                   plan::BufferId step, int64_t train_batch, int threads);

  // First values of tables and states. REQUIRES allocated buffers.
  void initialize(const Exec& exec, uint64_t seed) const;

  // One table, or one state of one table, as checkpoints name it.
  struct NamedRows {
    std::string name;  // <layer>.table_<i> or <layer>.table_<i>.<state>
    Matrix<float> rows;
  };
  [[nodiscard]] std::vector<NamedRows> tables() const;
  [[nodiscard]] std::vector<NamedRows> states() const;

 private:
  void read_sizes(config::ObjectReader& hparam, int64_t width, const config::TrainConfig& config);
  [[nodiscard]] Matrix<float> all_rows(plan::BufferId id) const;
  [[nodiscard]] Matrix<const uint32_t> keys_of(plan::BufferId keys, int64_t batch) const {
    return {buffers_->data<uint32_t>(keys), batch, pooling_.keys.columns};
  }

  const config::JsonNode* node_;
  std::string name_, type_, top_;
  size_t input_ = 0;
  TableLayout layout_;
  Pooling pooling_;
  optimizer::UpdateRule rule_;
  optimizer::UpdateType update_type_;
  optimizer::LrSchedule schedule_;
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId table_ = plan::kNoBuffer, output_ = plan::kNoBuffer;
  std::vector<plan::BufferId> states_;
  std::unique_ptr<SparseUpdate> sparse_update_;
};

}  // namespace hlite::embedding
