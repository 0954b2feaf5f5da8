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
  find_slots(data);
  const std::vector<int64_t> rows = find_rows(data);
  check_sizes(rows, data);
  spec_.name = name();
  spec_.table_type = config.solver.table_precision;
  lay_out(data, rows);
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

void EmbeddingLayer::find_slots(const config::DataConfig& data) {
  const config::JsonNode& bottom = *node_->find("bottom");
  const bool list = bottom.kind() == config::JsonNode::Kind::kArray;
  const size_t count = config_.bottoms.size();
  for (size_t i = 0; i < count; ++i) {
    const config::JsonNode& node = list ? bottom.elements()[i] : bottom;
    EmbeddingTop top = {.name = config_.tops[i],
                        .input = find_input(data, node),
                        .combiner = config_.combiners[config_.combiners.size() == 1 ? 0 : i],
                        .first_slot = std::ssize(data_slots_)};
    const config::SparseInputConfig& input = data.sparse[top.input];
    const bool one_key = input.max_nnz == 1 && input.max_len == 0;
    if (!hybrid() && !hashed() && !one_key && top.combiner != Combiner::kConcat)
      config::fail_at(
          node, fmt::format("expected a sparse input of one key a slot, as the type says, found "
                            "\"{}\" of up to {}",
                            input.top, input.max_nnz));
    if (top.combiner == Combiner::kConcat && input.max_len == 0 && !one_key)
      config::fail_at(
          table_node("combiner"),
          fmt::format("expected \"sum\" or \"mean\" for \"{}\", which has up to {} keys "
                      "a slot and no max_len, found \"concat\"",
                      input.top, input.max_nnz));
    const bool side_by_side = top.combiner == Combiner::kConcat && input.max_len > 0;
    if (!side_by_side && top.combiner == Combiner::kConcat) top.combiner = Combiner::kSum;
    top.slots = input.slot_num;
    top.rows = side_by_side ? input.max_len : input.slot_num;
    top.width = config_.width * (side_by_side ? input.slot_num : 1);
    for (int64_t s = 0; s < input.slot_num; ++s)
      data_slots_.push_back({.slot = first_slot(data, top.input) + s});
    tops_.push_back(std::move(top));
  }
}

// A history that is not pooled becomes max_len times as many slots of one key: those of its first
// position, then those of the second, which share the tables. The layer then has keys of its own,
// as it has with several inputs.
void EmbeddingLayer::lay_out(const config::DataConfig& data, const std::vector<int64_t>& rows) {
  const KeyLayout batch = data.key_layout();
  const bool as_they_are = tops_.size() == 1 && tops_[0].combiner != Combiner::kConcat;
  bool pools_by_mean = false, pools_by_sum = false, complete = true;
  SlotLayout slots;  // of the data
  try {
    slots = SlotLayout(rows, config_.width, KeyLayout::one_hot(std::ssize(rows)), Combiner::kSum, 0,
                       tables_of_slots(data));
  } catch (const ConfigError& error) {
    config::fail_at(table_node(kSlotTables), error.what());
  }
  std::vector<int64_t> expanded_rows, expanded_tables, hotness;
  std::vector<int32_t> columns;
  for (EmbeddingTop& top : tops_) {
    const config::SparseInputConfig& input = data.sparse[top.input];
    const bool unpooled = top.combiner == Combiner::kConcat;
    top.first_vector = std::ssize(hotness);
    complete = complete && input.is_fixed_length;
    if (input.max_nnz > 1 && !unpooled)
      (top.combiner == Combiner::kMean ? pools_by_mean : pools_by_sum) = true;
    for (int64_t position = 0; position < (unpooled ? input.max_len : 1); ++position)
      for (int64_t s = top.first_slot; s < top.first_slot + top.slots; ++s) {
        const auto i = static_cast<size_t>(s), slot = static_cast<size_t>(data_slots_[i].slot);
        expanded_rows.push_back(rows[i]);
        expanded_tables.push_back(slots.table_of[i]);
        hotness.push_back(unpooled ? 1 : batch.hotness[slot]);
        for (int64_t c = 0; c < hotness.back(); ++c)
          columns.push_back(static_cast<int32_t>(batch.first_column[slot] + position + c));
      }
  }
  for (size_t s = 0; s < data_slots_.size(); ++s) {
    data_slots_[s].table = slots.table_of[s];
    data_slots_[s].rows = rows[s];
  }
  if (pools_by_mean && pools_by_sum)
    config::fail_at(table_node("combiner"),
                    "expected either \"sum\" or \"mean\" for all inputs of several keys a slot, "
                    "found both");
  const Combiner combiner = pools_by_mean ? Combiner::kMean : Combiner::kSum;
  if (as_they_are) {
    spec_.layout =
        SlotLayout(rows, config_.width, batch, combiner, data_slots_[0].slot, slots.table_of);
  } else {
    spec_.layout = SlotLayout(std::move(expanded_rows), config_.width, KeyLayout(hotness), combiner,
                              0, std::move(expanded_tables));
    spec_.key_columns = std::move(columns);
  }
  spec_.batch_columns = batch.columns;
  spec_.layout.complete = complete;
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
      optimizer.atomic_update && optimizer.rule.type == config::OptimizerType::kSgd &&
      spec_.table_type == FloatType::kFloat;  // there is no atomic stochastic rounding
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
  const bool clips = config.solver.clips_tables();
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
  if (sizes.empty() && !hashed())
    config::fail_at(table_node(""), "slot_size_array is required, here or in the Data layer");
  std::vector<int64_t> rows;
  for (const LookedUpSlot& of : data_slots_)
    rows.push_back(sizes.empty() ? int64_t{kNoKey} : sizes[static_cast<size_t>(of.slot)]);
  return rows;
}

// The layer's own slot_tables, or one table for neighbours that share a vocabulary of the data.
std::vector<int64_t> EmbeddingLayer::tables_of_slots(const config::DataConfig& data) const {
  if (!config_.slot_tables.empty() || data.slot_vocabularies.empty()) return config_.slot_tables;
  std::vector<int64_t> tables = {0};
  for (size_t i = 1; i < data_slots_.size(); ++i) {
    const auto vocabulary = [&](size_t s) {
      return data.slot_vocabularies[static_cast<size_t>(data_slots_[s].slot)];
    };
    tables.push_back(tables.back() + (vocabulary(i) == vocabulary(i - 1) ? 0 : 1));
  }
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
  const config::JsonNode& sizes = table_node("slot_size_array");
  if (rows.size() != data_slots_.size())
    config::fail_at(
        sizes, fmt::format("expected {} sizes, one for each slot of \"{}\", found {}",
                           data_slots_.size(), fmt::join(config_.bottoms, "\", \""), rows.size()));
  // The dialect ignores the data layer's sizes for RawAsync and needs them for Raw.
  if (!data.slot_size_array.empty()) {
    std::vector<int64_t> same;
    for (const LookedUpSlot& of : data_slots_)
      same.push_back(data.slot_size_array[static_cast<size_t>(of.slot)]);
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
  const auto add = [&](const std::string& name, plan::BufferKind kind, int64_t numbers) {
    return buffers.add(name, kind, max_batch * numbers * float_type_bytes(output_type_));
  };
  const int64_t all = layout().slots() * layout().width;
  if (tops_.size() == 1) {
    output_ = add(tops_[0].name, plan::BufferKind::kActivation, all);
    top_values_ = {output_};
    return;
  }
  output_ = add(name() + ".vectors", plan::BufferKind::kActivation, all);
  for (const EmbeddingTop& top : tops_)
    top_values_.push_back(add(top.name, plan::BufferKind::kActivation, top.rows * top.width));
  output_gradient_ = add(name() + ".vectors.grad", plan::BufferKind::kGradient, all);
}

}  // namespace hlite::embedding
