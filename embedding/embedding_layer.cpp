#include "embedding/embedding_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::embedding {
namespace {

// The index of the sparse input called `name`.
size_t find_input(const config::DataConfig& data, const config::JsonNode& name) {
  std::vector<std::string> known;
  for (size_t i = 0; i < data.sparse.size(); ++i) {
    if (data.sparse[i].top == name.string()) return i;
    known.push_back(data.sparse[i].top);
  }
  config::fail_at(name, fmt::format("expected a sparse input of layers[0] ({}), found \"{}\"",
                                    fmt::join(known, ", "), name.string()));
}

// The first slot of a sparse input among those of all inputs.
int64_t first_slot(const config::DataConfig& data, size_t input) {
  int64_t first = 0;
  for (size_t i = 0; i < input; ++i) first += data.sparse[i].slot_num;
  return first;
}

}  // namespace

bool is_embedding_type(const std::string& type) { return config::embedding_type(type).has_value(); }

EmbeddingLayer::EmbeddingLayer(const config::JsonNode& node, const config::TrainConfig& config)
    : node_(&node) {
  const auto type = config::embedding_type(node.find("type")->string());
  HLITE_CHECK(type.has_value(), "{} is no embedding", node.path());
  config_.type = *type;
  config::Problems problems;
  config::Block s(node, config.strict, problems);
  embedding::declare(s, config.directory, config_);
  s.finish();
  if (config.data_is_valid) s.check([&] { fit_input(config); });
  if (config.problems.empty()) s.check([&] { set_optimizer(config); });
  problems.raise();
}

const config::JsonNode& EmbeddingLayer::table_node(const char* key) const {
  const config::JsonNode& hparam = *node_->find("sparse_embedding_hparam");
  const config::JsonNode* found = hparam.find(key);
  return found ? *found : hparam;
}

void EmbeddingLayer::fit_input(const config::TrainConfig& config) {
  const config::DataConfig& data = config.data;
  if (hashed() && config.solver.gathers_keys())
    config::fail_expected(*config.root.find("solver")->find("input"),
                          fmt::format("\"own\" with a layer of type {}: which rows its keys have "
                                      "is known to their owner alone",
                                      type()));
  const config::JsonNode& bottom = *node_->find("bottom");
  input_ = find_input(data, bottom);
  const std::vector<int64_t> rows = find_rows(data);
  check_sizes(rows, data);
  spec_.name = name();
  spec_.table_type = config.solver.table_precision;
  const int64_t first = first_slot(data, input_);
  try {
    spec_.layout = SlotLayout(rows, config_.width, data.key_layout(), config_.combiner, first,
                              tables_of_slots(data));
  } catch (const ConfigError& error) {
    config::fail_at(table_node(kSlotTables), error.what());
  }
  spec_.layout.complete = data.sparse[input_].is_fixed_length;
  if (!hybrid() && !hashed() && !spec_.layout.is_one_hot())
    config::fail_at(
        bottom, fmt::format("expected a sparse input of one key a slot, as the type says, found "
                            "\"{}\" of up to {}",
                            data.sparse[input_].top, data.sparse[input_].max_nnz));
  if (hybrid()) {
    config_.hybrid.most_batch = std::max(config.solver.batchsize, config.solver.batchsize_eval);
    check_communication(table_node(""), config_.hybrid, config.solver);
  }
  if (hashed()) set_capacity(config.solver.ranks());
  spec_.vocabulary = config_.vocabulary;
  if (!config.trains) {  // no row comes or leaves
    spec_.vocabulary = {};
    spec_.vocabulary.zeros = config_.vocabulary.zeros;
  }
  spec_.init_stddev = config_.init_stddev;
  if (spec_.init_stddev > 0 && hashed())
    config::fail_at(table_node("init_stddev"),
                    fmt::format("expected a type whose tables have all their rows from the start, "
                                "found {}, whose rows begin with uniform values",
                                type()));
}

void EmbeddingLayer::set_optimizer(const config::TrainConfig& config) {
  if (!config.trains) return;
  const config::JsonNode* own = node_->find("optimizer");
  const config::OptimizerConfig optimizer = config_.optimizer.value_or(config.optimizer);
  if (optimizer.update_type == config::UpdateType::kLazyGlobal)
    config::fail_at(
        own ? *own : *node_,
        "update_type \"LazyGlobal\" is known, but not supported yet; expected Local or Global");
  spec_.rule = optimizer.rule;
  spec_.update_type = optimizer.update_type;
  spec_.atomic_update =
      optimizer.atomic_update && optimizer.rule.type == config::OptimizerType::kSgd;
  spec_.penalty = config_.penalty;
  schedule_ = optimizer.schedule;
  check_whole_gradients(config, own ? *own : *config.root.find("optimizer"));
}

// Penalties and clipping work on the gradients of all rows.
void EmbeddingLayer::check_whole_gradients(const config::TrainConfig& config,
                                           const config::JsonNode& optimizer) {
  const bool global = spec_.update_type == config::UpdateType::kGlobal;
  if (spec_.penalty.any() && hashed())
    config::fail_at(table_node("regularizer"),
                    fmt::format("expected a type whose tables have all their rows from the start, "
                                "as every row is pulled in every step, found {}",
                                type()));
  if (spec_.penalty.any() && !global)
    config::fail_at(optimizer, fmt::format("expected update_type \"Global\" with the "
                                           "regularizer of \"{}\", which moves every row in "
                                           "every step, found \"Local\"",
                                           name()));
  const bool clips = config.solver.gradient_clip_norm > 0;
  if (clips && !global && optimizer::moves_without_gradient(spec_.rule))
    config::fail_at(optimizer, fmt::format("expected update_type \"Global\" with "
                                           "solver.gradient_clip_norm, found \"Local\" for \"{}\"",
                                           name()));
  spec_.whole_gradients = spec_.penalty.any() || clips;
  optimizer_ = &optimizer;
  // "auto" may find that all rows fit in memory.
  if (config.solver.embedding_memory && !config.solver.embedding_memory->automatic)
    require_local_updates();
}

void EmbeddingLayer::require_local_updates() const {
  const bool global = spec_.update_type == config::UpdateType::kGlobal;
  if (spec_.whole_gradients || (global && optimizer::moves_without_gradient(spec_.rule)))
    config::fail_at(*optimizer_,
                    fmt::format("expected update_type \"Local\", no regularizer and no "
                                "gradient_clip_norm with solver.embedding_memory, as \"{}\" "
                                "would move every row in every step",
                                name()));
}

// Rows of each slot's table, the Data layer's unless there are others. Those of hash tables may be
// unknown: as many as there are keys.
std::vector<int64_t> EmbeddingLayer::find_rows(const config::DataConfig& data) const {
  if (table_node("").find("slot_size_array")) return config_.slot_sizes;
  const auto& sizes = data.slot_size_array;
  const int64_t slots = data.sparse[input_].slot_num;
  if (sizes.empty() && !hashed())
    config::fail_at(table_node(""), "slot_size_array is required, here or in the Data layer");
  if (sizes.empty()) return std::vector<int64_t>(static_cast<size_t>(slots), int64_t{kNoKey});
  const auto first = sizes.begin() + first_slot(data, input_);
  return {first, first + slots};
}

// The layer's own slot_tables, or one table for neighbours that share a vocabulary of the data.
std::vector<int64_t> EmbeddingLayer::tables_of_slots(const config::DataConfig& data) const {
  if (!config_.slot_tables.empty() || data.slot_vocabularies.empty()) return config_.slot_tables;
  const auto first = data.slot_vocabularies.begin() + first_slot(data, input_);
  std::vector<int64_t> tables = {0};
  for (int64_t i = 1; i < data.sparse[input_].slot_num; ++i)
    tables.push_back(tables.back() + (first[i] == first[i - 1] ? 0 : 1));
  return tables;
}

// Rows come from one pool a rank. With known sizes it need not be larger than the tables.
void EmbeddingLayer::set_capacity(int64_t ranks) {
  const bool sized = spec_.layout.rows[0] < int64_t{kNoKey};
  constexpr int64_t kMax = int64_t{kNoKey} - 1, kMegabyte = int64_t{1} << 20;
  if (config_.max_rows)
    spec_.hash_capacity = *config_.max_rows;
  else if (config_.all_rows)
    spec_.hash_capacity = (*config_.all_rows + ranks - 1) / ranks;
  else if (config_.max_megabytes)  // weights only; 1 MB or more holds the widest row
    spec_.hash_capacity = std::min(kMax, *config_.max_megabytes * kMegabyte / spec_.row_bytes());
  else if (by_slot() && sized)
    spec_.hash_capacity = std::min<int64_t>(spec_.layout.total_rows, kMax);
  else
    config::fail_at(table_node(""), fmt::format("{}{} is required", kMaxRows,
                                                by_slot() ? " or slot_size_array" : ""));
  spec_.init_rows = sized ? spec_.layout.table_rows
                          : std::vector<int64_t>(spec_.layout.table_rows.size(),
                                                 config_.all_rows.value_or(spec_.hash_capacity));
}

void EmbeddingLayer::fail_rows(int64_t rows, int64_t ranks, const std::string& found) const {
  constexpr int64_t kMegabyte = int64_t{1} << 20;
  const char* key = kMaxRows;
  int64_t value = rows;
  if (config_.all_rows) {
    key = table_node("").find(kAllRows) ? kAllRows : kOldAllRows;
    value = (rows - 1) * ranks + 1;
  } else if (config_.max_megabytes) {
    key = kMaxMegabytes;
    value = (rows * spec_.row_bytes() + kMegabyte - 1) / kMegabyte;
  }
  config::fail_at(table_node(key),
                  fmt::format("expected {} of at least {}, or when_full \"evict\", for the {}; "
                              "found room for {}",
                              key, value, found, spec_.hash_capacity));
}

void EmbeddingLayer::check_sizes(const std::vector<int64_t>& rows,
                                 const config::DataConfig& data) const {
  const int64_t slots = data.sparse[input_].slot_num;
  const config::JsonNode& sizes = table_node("slot_size_array");
  if (std::ssize(rows) != slots)
    config::fail_at(sizes, fmt::format("expected {} sizes, one for each slot of \"{}\", found {}",
                                       slots, data.sparse[input_].top, rows.size()));
  // The dialect ignores the data layer's sizes for RawAsync and needs them for Raw.
  if (!data.slot_size_array.empty()) {
    const auto first = data.slot_size_array.begin() + first_slot(data, input_);
    const std::vector<int64_t> same(first, first + slots);
    if (same != rows) {
      const std::string message =
          fmt::format("expected the same sizes as layers[0].slot_size_array [{}], found [{}]",
                      fmt::join(same, ", "), fmt::join(rows, ", "));
      if (!data.format->lenient) config::fail_at(sizes, message);
      log::warning("{}: {}; the embedding's sizes are used", sizes.path(), message);
    }
  }
  const auto least = std::min_element(rows.begin(), rows.end());
  if (data.key_policy.kind == config::KeyPolicy::kOov && data.key_policy.oov_key >= *least)
    config::fail_at(sizes, fmt::format("expected tables of more than {} rows, as layers[0].oov_key "
                                       "is {}, found {} rows for slot {}",
                                       data.key_policy.oov_key, data.key_policy.oov_key, *least,
                                       least - rows.begin()));
}

void EmbeddingLayer::shard(TablesPlace place, uint64_t seed) {
  spec_.seed = seed;
  output_type_ = place.type;
  if (hashed() && place.file_rows) spec_.hash_capacity = std::max<int64_t>(1, *place.file_rows);
  if (hashed())
    place.placement = std::make_shared<RowPlacement>(
        RowPlacement::by_key(spec_.layout, place.ranks.ranks(), spec_.hash_capacity, key_owner()));
  const bool hierarchical =
      hybrid() && hybrid()->communication == CommunicationType::kIbNvlinkHierarchical;
  place.exchange.route = place.ranks.possible(
      hierarchical ? comm::Route::kHierarchical : comm::Route::kFlat, place.gpu != nullptr);
  place.exchange.capacity = hybrid() ? hybrid()->exchange_capacity : 0;
  tables_ = std::make_unique<EmbeddingTables>(spec_, place);
}

void EmbeddingLayer::declare(plan::Buffers& buffers, int64_t max_batch) {
  tables_->declare(buffers);
  output_ =
      buffers.add(top(), plan::BufferKind::kActivation,
                  max_batch * layout().slots() * layout().width * float_type_bytes(output_type_));
}

}  // namespace hlite::embedding
