#include "embedding/embedding_config.h"

#include <tuple>

#include "hugectr_lite/config/slot_sizes.h"
#include "hugectr_lite/core/key_layout.h"

namespace hlite::embedding {

using config::Block;
using config::kRequired;
using config::otherwise;

int64_t ShardingLimits::copy_below_bytes(int nodes) const {
  if (replicate_below_mb) return static_cast<int64_t>(1e6 * *replicate_below_mb);
  return nodes > 1 ? 12'500'000 : 8'000'000;
}

// A lookup's share of memory traffic over its share of the link's (sharding_plan.h).
double ShardingLimits::shard_cost(int nodes) const {
  const double ratio = bandwidth_ratio > 0 ? bandwidth_ratio : nodes > 1 ? 67 : 3.35e12 / 450e9;
  return ratio / 4;
}

static Combiner read_combiner(const config::JsonNode& node) {
  using Kind = config::JsonNode::Kind;
  const bool number = node.kind() == Kind::kInteger, name = node.kind() == Kind::kString;
  if ((number && node.integer() == 0) || (name && node.string() == "sum")) return Combiner::kSum;
  if ((number && node.integer() == 1) || (name && node.string() == "mean")) return Combiner::kMean;
  if (name && node.string() == "concat") return Combiner::kConcat;
  config::fail_expected(node, "0 (sum), 1 (mean) or \"concat\"");
}

static void declare_combiner(Block& s, EmbeddingConfig& e) {
  s.value(
      "combiner",
      {"0 (sum), 1 (mean) or concat, or a list of them",
       R"("anyOf":[{"enum":[0,1,"sum","mean","concat"]},{"type":"array","items":)"
       R"({"enum":[0,1,"sum","mean","concat"]}}])"},
      "What becomes of the rows of a slot's keys: 0 or `sum`, 1 or `mean` pools them; extension: "
      "`concat` makes [B, max_len, slots V] of a history, the slots' rows side by side at each "
      "position. A list has one for each `bottom`.",
      otherwise("`sum`"), [&](const config::JsonNode& node) {
        e.combiners.clear();
        if (node.kind() != config::JsonNode::Kind::kArray)
          return e.combiners.push_back(read_combiner(node));
        for (const config::JsonNode& one : node.elements())
          e.combiners.push_back(read_combiner(one));
        if (e.combiners.size() != e.bottoms.size() && !e.bottoms.empty())
          config::fail_expected(
              node, fmt::format("one combiner for each of {} bottoms", e.bottoms.size()));
      });
}

static void declare_sharding(Block& s, EmbeddingConfig& e) {
  config::Choices<Sharding> names = {{"slot", Sharding::kSlot},
                                     {"row", Sharding::kRow},
                                     {"replicate", Sharding::kReplicate},
                                     {"auto", Sharding::kAuto}};
  if (e.is_hybrid()) names.insert(names.begin(), {"frequency", Sharding::kFrequency});
  e.sharding = names.front().second;
  s.choice("sharding", &e.sharding, names,
           "Extension: which rank holds which rows. `frequency` replicates frequent categories and "
           "shards the rest, `slot` places whole tables, `row` shards every table, `replicate` "
           "replicates all, `auto` makes a plan.");
  auto param = s.object("sharding_param", "Extension: what the plan of `auto` is made from.");
  if (!param) return;
  param->about("For `\"sharding\": \"auto\"`.");
  if (e.sharding != Sharding::kAuto) s.refuse("sharding_param", "requires \"sharding\": \"auto\"");
  param->number("memory_gb", &e.sharding_limits.memory_gb, {.min = 0, .max = 1e6},
                "Memory of a rank for tables; 0 means one and a half times an even share.");
  param->number("replicate_below_mb", &e.sharding_limits.replicate_below_mb, {.min = 0, .max = 1e9},
                "Smaller tables are replicated.", otherwise("8, or 12.5 over several nodes"));
  param->number("bandwidth_ratio", &e.sharding_limits.bandwidth_ratio, {.min = 0, .max = 1e6},
                "Memory bandwidth of a rank over the bandwidth of its link; 0 means that of an "
                "H100: 7.4, or 67 over several nodes.");
}

static void declare_tables(Block& s, const std::string& directory, EmbeddingConfig& e) {
  s.integer("embedding_vec_size", &e.width, {1, e.is_hybrid() ? 1024 : int64_t{1} << 16},
            "Width V of a row.", kRequired);
  declare_slot_sizes(s, directory, &e.slot_sizes,
                     "Rows of each slot's table. Hash embeddings do not need them if they have "
                     "`max_vocabulary_size_per_gpu`.",
                     otherwise("those of the Data layer"));
  s.integers(kSlotTables, &e.slot_tables, {0, int64_t{1} << 31},
             "Extension: the number of the table that each slot looks up, numbered from 0 in the "
             "order in which they first appear; `[0, 1, 1]` lets two slots share table 1. All "
             "slots of a table need the same size.",
             otherwise("a table for each slot"));
  declare_combiner(s, e);
  s.integer(kMaxRows, &e.max_rows, {1, int64_t{kNoKey} - 1},
            "Maximum number of rows in a rank's hash tables; without effect for the other types.");
  s.integer(kMaxMegabytes, &e.max_megabytes, {1, int64_t{1} << 32},
            "The same in later versions: memory of these rows.");
  for (const char* key : {kAllRows, kOldAllRows})
    s.integer(key, &e.all_rows, {1, int64_t{kNoKey} - 1},
              "The same up to HugeCTR 2.2: rows in the hash tables of all ranks together.",
              otherwise("none"));
  s.accept("load_factor", "Accepted, without effect: a hash table chooses its own.");
  const char* given = nullptr;
  for (const char* key : {kMaxRows, kMaxMegabytes, kAllRows, kOldAllRows}) {
    if (!e.is_hashed() || !s.has(key)) continue;
    if (given) s.refuse(key, fmt::format("expected either {} or {}, found both", given, key));
    given = key;
  }
  s.number("init_stddev", &e.init_stddev, {.min = 0},
           "Extension: initial values are normal with this standard deviation; 0 means uniform "
           "within sqrt(1 / rows).");
  declare(s, e.penalty,
          "Extension: penalty on every row in every iteration, `lambda` Σ|w| or `lambda`/2 Σ w². "
          "Needs `update_type` `Global` and tables of known sizes.");
  if (!e.is_hashed()) declare_sharding(s, e);
  if (e.is_hybrid()) declare(s, e.hybrid);
  if (e.is_hashed()) declare(s, e.vocabulary);
}

void declare(Block& s, const std::string& directory, EmbeddingConfig& e) {
  s.about(
      "`HybridSparseEmbedding`, `LocalizedSlotSparseEmbeddingOneHot`, "
      "`LocalizedSlotSparseEmbeddingHash` and `DistributedSlotSparseEmbeddingHash` make "
      "[B, slots, V] of a sparse input. docs/ranks_and_gpus.md says which rank holds which rows.");
  s.text("type", &e.type_name, "The type of embedding.", kRequired);
  for (const auto& [key, names, meaning] :
       {std::tuple(
            "bottom", &e.bottoms,
            "A sparse input of the Data layer; extension: or several, looked up in one set of "
            "tables. `slot_size_array` and `slot_tables` then go over the slots of all."),
        std::tuple("top", &e.tops,
                   "Names of the tensors that it makes, one for each `bottom`: [B, slots, V].")})
    if (s.strings(key, names, meaning, kRequired) && names->empty())
      s.expected(key, "the name of at least one tensor");
  if (!e.bottoms.empty() && !e.tops.empty() && e.bottoms.size() != e.tops.size())
    s.refuse("top", fmt::format("expected {} top{}, one for each bottom, found {}",
                                e.bottoms.size(), e.bottoms.size() == 1 ? "" : "s", e.tops.size()));
  e.name = e.tops.empty() ? "" : e.tops.front();
  s.text("name", &e.name, "Name of the layer and prefix of its tables: `<name>.table_0`.",
         otherwise("the first `top`"));
  if (auto hparam = s.object("sparse_embedding_hparam", "The tables.", kRequired))
    declare_tables(*hparam, directory, e);
  if (auto own = s.object("optimizer", "Extension: the optimizer of the tables.",
                          otherwise("the config's")))
    declare(*own, e.optimizer.emplace());
  s.accept("plan_file", "Accepted, without effect.");
}

config::BlockSchema describe_embedding(config::EmbeddingType type) {
  config::BlockSchema schema;
  Block s(schema);
  EmbeddingConfig embedding;
  embedding.type = type;
  declare(s, "", embedding);
  return schema;
}

}  // namespace hlite::embedding
