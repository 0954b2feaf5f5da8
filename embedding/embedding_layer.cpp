#include "embedding/embedding_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/config/slot_sizes.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kMaxHybridWidth = 1024;
// Room for the rows of a hashed table: in rows, or by later versions in MB of weights.
constexpr const char *kMostRows = "max_vocabulary_size_per_gpu",
                     *kMostMegabytes = "workspace_size_per_gpu_in_mb";

// 0 or "sum", 1 or "mean".
Combiner read_combiner(config::ObjectReader& hparam) {
  const config::JsonNode* node = hparam.find("combiner");
  if (!node) return Combiner::kSum;
  using Kind = config::JsonNode::Kind;
  const bool number =
      node->kind() == Kind::kInteger && (node->integer() == 0 || node->integer() == 1);
  const bool name =
      node->kind() == Kind::kString && (node->string() == "sum" || node->string() == "mean");
  if (!number && !name) config::fail_expected(*node, "0 (sum) or 1 (mean)");
  const bool mean = number ? node->integer() == 1 : node->string() == "mean";
  return mean ? Combiner::kMean : Combiner::kSum;
}

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
  const config::DataConfig& data = config.data;
  config::ObjectReader reader(node, config.strict);
  type_ = reader.string("type");
  const auto type = config::embedding_type(type_);
  HLITE_CHECK(type.has_value(), "{} is no embedding", type_);
  const bool hybrid = type == config::EmbeddingType::kHybrid;
  by_slot_ = type == config::EmbeddingType::kLocalizedHash;
  hashed_ = config::is_hashed(*type);
  if (hashed_ && config.solver.gathers_keys())
    config::fail_expected(*config.root.find("solver")->find("input"),
                          fmt::format("\"own\" beside a layer of type {}: which rows its keys have "
                                      "is known to their owner alone",
                                      type_));
  top_ = reader.string("top");
  name_ = reader.string_or("name", top_);
  spec_.name = name_;
  reader.string("bottom");
  input_ = find_input(data, reader.member("bottom"));
  auto hparam = reader.object("sparse_embedding_hparam");
  const int64_t width = hparam.integer(
      "embedding_vec_size", {.min = 1, .max = hybrid ? kMaxHybridWidth : int64_t{1} << 16});

  const Combiner combiner = read_combiner(hparam);
  spec_.layout = SlotLayout(read_sizes(hparam, config), width, data.key_layout(), combiner,
                            first_slot(data, input_));
  spec_.layout.complete = data.sparse[input_].is_fixed_length;
  if (!hybrid && !hashed_ && !spec_.layout.is_one_hot())
    config::fail_at(
        reader.member("bottom"),
        fmt::format("expected a sparse input of one key a slot, as the type says, found "
                    "\"{}\" of up to {}",
                    data.sparse[input_].top, data.sparse[input_].max_nnz));
  if (hybrid) {
    hybrid_ = read_hybrid_options(hparam, config.solver);
  }
  if (!hashed_) read_sharding(hparam);
  reader.accept("plan_file");  // of another all-to-all
  if (!hashed_) {              // its tables have their sizes
    hparam.accept(kMostRows);
    hparam.accept(kMostMegabytes);
  }
  if (hashed_) read_capacity(hparam);
  read_first_values(hparam);
  spec_.penalty = config::parse_regularizer(hparam);
  hparam.finish();

  const config::JsonNode* own = reader.find("optimizer");
  const config::OptimizerConfig optimizer =
      own ? config::parse_optimizer(*own, config.strict) : config.optimizer;
  if (optimizer.update_type == config::UpdateType::kLazyGlobal)
    config::fail_at(
        own ? *own : node,
        "update_type \"LazyGlobal\" is known, but not supported yet; expected Local or Global");
  spec_.rule = optimizer.rule;
  spec_.update_type = optimizer.update_type;
  spec_.atomic_update =
      optimizer.atomic_update && optimizer.rule.type == config::OptimizerType::kSgd;
  schedule_ = optimizer.schedule;
  reader.finish();
  check_whole_gradients(config, own ? *own : *config.root.find("optimizer"), hparam);
}

// Penalties and clipping work on the gradients of all rows.
void EmbeddingLayer::check_whole_gradients(const config::TrainConfig& config,
                                           const config::JsonNode& optimizer,
                                           config::ObjectReader& hparam) {
  const bool global = spec_.update_type == config::UpdateType::kGlobal;
  if (spec_.penalty.any() && hashed_)
    config::fail_at(hparam.member("regularizer"),
                    fmt::format("expected a type whose tables have all their rows from the start, "
                                "as every row is pulled in every step, found {}",
                                type_));
  if (spec_.penalty.any() && !global)
    config::fail_at(optimizer, fmt::format("expected update_type \"Global\" beside the "
                                           "regularizer of \"{}\", which moves every row in "
                                           "every step, found \"Local\"",
                                           name_));
  const bool clips = config.solver.gradient_clip_norm > 0;
  if (clips && !global && optimizer::moves_without_gradient(spec_.rule.type))
    config::fail_at(optimizer, fmt::format("expected update_type \"Global\" beside "
                                           "solver.gradient_clip_norm, found \"Local\" for \"{}\"",
                                           name_));
  spec_.whole_gradients = spec_.penalty.any() || clips;
}

void EmbeddingLayer::read_first_values(config::ObjectReader& hparam) {
  spec_.init_stddev = static_cast<float>(hparam.number_or("init_stddev", 0, {.min = 0}));
  if (spec_.init_stddev > 0 && hashed_)
    config::fail_at(hparam.member("init_stddev"),
                    fmt::format("expected a type whose tables have all their rows from the start, "
                                "found {}, whose rows begin with uniform values",
                                type_));
}

// Rows of each slot's table. Where rows come as keys come the sizes may be the data layer's, or
// unknown: as many as there are keys.
std::vector<int64_t> EmbeddingLayer::find_rows(config::ObjectReader& hparam,
                                               const config::TrainConfig& config) const {
  if (!hashed_ || hparam.has("slot_size_array"))
    return config::read_slot_sizes(hparam, config.directory);
  const auto& sizes = config.data.slot_size_array;
  const int64_t slots = config.data.sparse[input_].slot_num;
  if (sizes.empty()) return std::vector<int64_t>(static_cast<size_t>(slots), int64_t{kNoKey});
  const auto first = sizes.begin() + first_slot(config.data, input_);
  return {first, first + slots};
}

int64_t ShardingLimits::copy_below_bytes(int nodes) const {
  if (copied_bytes >= 0) return copied_bytes;
  return nodes > 1 ? 12'500'000 : 8'000'000;
}

// A lookup's share of memory traffic over its share of the link's (sharding_plan.h).
double ShardingLimits::shard_cost(int nodes) const {
  const double ratio = bandwidth_ratio > 0 ? bandwidth_ratio : nodes > 1 ? 67 : 3.35e12 / 450e9;
  return ratio / 4;
}

void EmbeddingLayer::read_sharding(config::ObjectReader& hparam) {
  std::vector<std::pair<std::string, Sharding>> names = {{"slot", Sharding::kSlot},
                                                         {"row", Sharding::kRow},
                                                         {"replicate", Sharding::kReplicate},
                                                         {"auto", Sharding::kAuto}};
  if (hybrid_) names.insert(names.begin(), {"frequency", Sharding::kFrequency});
  sharding_ = hparam.value_or("sharding", names.front().second, names);
  if (!hparam.has("sharding_param")) return;
  if (sharding_ != Sharding::kAuto)
    config::fail_at(hparam.member("sharding_param"), "expected \"sharding\": \"auto\" beside it");
  auto param = hparam.object("sharding_param");
  constexpr double kGigabyte = 1e9, kMegabyte = 1e6;
  sharding_limits_.memory_bytes =
      static_cast<int64_t>(kGigabyte * param.number_or("memory_gb", 0, {.min = 0, .max = 1e6}));
  param.accept("replicate_below_mb");
  if (param.has("replicate_below_mb"))
    sharding_limits_.copied_bytes = static_cast<int64_t>(
        kMegabyte * param.number("replicate_below_mb", {.min = 0, .max = 1e9}));
  sharding_limits_.bandwidth_ratio = param.number_or("bandwidth_ratio", 0, {.min = 0, .max = 1e6});
  param.finish();
}

// Rows come from one pool a rank. With known sizes it need not be larger than the tables.
void EmbeddingLayer::read_capacity(config::ObjectReader& hparam) {
  const bool sized = spec_.layout.rows[0] < int64_t{kNoKey};
  constexpr int64_t kMost = int64_t{kNoKey} - 1, kMegabyte = int64_t{1} << 20;
  const int64_t row_bytes = spec_.layout.width * kFloatBytes;
  if (hparam.has(kMostRows) && hparam.has(kMostMegabytes))
    config::fail_at(hparam.member(kMostMegabytes),
                    fmt::format("expected either {} or {}, found both", kMostRows, kMostMegabytes));
  if (hparam.has(kMostRows))
    spec_.hash_capacity = hparam.integer(kMostRows, {.min = 1, .max = kMost});
  else if (hparam.has(kMostMegabytes))  // of weights; at least 1 MB holds the widest row
    spec_.hash_capacity =
        std::min(kMost, hparam.integer(kMostMegabytes, {.min = 1, .max = int64_t{1} << 32}) *
                            kMegabyte / row_bytes);
  else if (by_slot_ && sized)
    spec_.hash_capacity = std::min<int64_t>(spec_.layout.total_rows, int64_t{kNoKey} - 1);
  else
    config::fail_at(hparam.node(), fmt::format("expected {}{}, found none", kMostRows,
                                               by_slot_ ? " or slot_size_array" : ""));
  spec_.init_rows = sized ? spec_.layout.rows
                          : std::vector<int64_t>(spec_.layout.rows.size(), spec_.hash_capacity);
}

std::vector<int64_t> EmbeddingLayer::read_sizes(config::ObjectReader& hparam,
                                                const config::TrainConfig& config) const {
  const config::DataConfig& data = config.data;
  const int64_t slots = data.sparse[input_].slot_num;
  const std::vector<int64_t> rows = find_rows(hparam, config);
  const config::JsonNode& sizes =
      hparam.has("slot_size_array") ? hparam.member("slot_size_array") : hparam.node();
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
      if (data.format != config::DataFormat::kRawAsync) config::fail_at(sizes, message);
      log::warning("{}: {}; the embedding's sizes are used", sizes.path(), message);
    }
  }
  const auto least = std::min_element(rows.begin(), rows.end());
  if (data.key_policy.kind == config::KeyPolicy::kOov && data.key_policy.oov_key >= *least)
    config::fail_at(sizes, fmt::format("expected tables of more than {} rows, as layers[0].oov_key "
                                       "is {}, found {} rows for slot {}",
                                       data.key_policy.oov_key, data.key_policy.oov_key, *least,
                                       least - rows.begin()));
  return rows;
}

void EmbeddingLayer::spread(TablesPlace place, uint64_t seed) {
  spec_.seed = seed;
  output_type_ = place.type;
  if (hashed_)
    place.placement = std::make_shared<RowPlacement>(
        RowPlacement::by_key(spec_.layout, place.ranks.ranks(), spec_.hash_capacity, by_slot_));
  const bool hierarchical =
      hybrid_ && hybrid_->communication == CommunicationType::kIbNvlinkHierarchical;
  place.exchange.route = place.ranks.possible(
      hierarchical ? comm::Route::kHierarchical : comm::Route::kFlat, place.gpu != nullptr);
  place.exchange.capacity = hybrid_ ? hybrid_->exchange_capacity : 0;
  tables_ = std::make_unique<EmbeddingTables>(spec_, place);
}

void EmbeddingLayer::declare(plan::Buffers& buffers, int64_t max_batch) {
  tables_->declare(buffers);
  output_ =
      buffers.add(top_, plan::BufferKind::kActivation,
                  max_batch * layout().slots() * layout().width * float_type_bytes(output_type_));
}

}  // namespace hlite::embedding
