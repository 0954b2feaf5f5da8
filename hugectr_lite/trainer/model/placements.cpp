#include "hugectr_lite/trainer/model/placements.h"
#include "hugectr_lite/trainer/model/embedding_layers.h"
#include "hugectr_lite/trainer/model/key_statistics.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "embedding/embedding_layer.h"
#include "embedding/key_frequencies.h"
#include "embedding/sharding_plan.h"
#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
namespace {

using embedding::EmbeddingLayer;
using embedding::RowPlacement;

// The number of lookups, in so many batches, from which on replicating a category of the layer
// pays.
double threshold_of(const EmbeddingLayer& layer, const config::TrainConfig& config,
                    const comm::Topology& topology, double batches) {
  return embedding::frequent_threshold(
      {*layer.hybrid(), config.solver.batchsize, batches, topology.nodes(), topology.ranks()});
}

LayerPlacement hybrid_placement(const EmbeddingLayer& layer, const config::TrainConfig& config,
                                const comm::Topology& topology, const KeyStatistics* statistics,
                                size_t index) {
  const embedding::HybridOptions& o = *layer.hybrid();
  const auto& layout = layer.layout();
  LayerPlacement result;
  if (!statistics) {
    result.placement = std::make_shared<RowPlacement>(
        RowPlacement::by_category(layout, embedding::CategoryModel(layout, topology.ranks())));
    result.explanation = fmt::format(
        "{}: {} rows spread over {} ranks; {}", layer.name(), layout.total_rows, topology.ranks(),
        config.data.follow ? "without counts of a folder that is followed, no category is frequent"
                           : "how many categories are frequent is found when a run starts");
    return result;
  }
  const double threshold = threshold_of(layer, config, topology, statistics->batches);
  embedding::CategoryModel model(layout, topology.ranks(), statistics->of_layer[index], threshold,
                                 o.most_frequent(layout.total_rows));
  result.exchanged_share = 1 - model.frequent_share();
  if (o.max_infrequent_lookups >= 0) {
    const auto lookups = static_cast<double>(config.solver.batchsize * layer.layout().columns());
    result.exchanged_share = std::min(1.0, o.max_infrequent_lookups / lookups);
  }
  result.explanation = fmt::format(
      "{}: {} of {} categories are replicated on all {} ranks (counted {:.1f} times or more in {}); "
      "they "
      "take {:.1f} % of the lookups",
      layer.name(), model.frequent().size(), layout.total_rows, topology.ranks(), threshold,
      statistics->source, 100 * model.frequent_share());
  result.placement =
      std::make_shared<RowPlacement>(RowPlacement::by_category(layout, std::move(model)));
  return result;
}

// Returns the bytes of one rank: replicated tables and its shards.
int64_t bytes_of_rank(const EmbeddingLayer& layer, const std::vector<std::vector<int>>& shards,
                      int rank) {
  int64_t rows = 0;
  for (size_t t = 0; t < shards.size(); ++t) {
    const int64_t all = layer.layout().table_rows[t], n = std::ssize(shards[t]);
    if (n == 0) rows += all;
    for (int64_t i = 0; i < n; ++i)
      if (shards[t][static_cast<size_t>(i)] == rank) rows += (all - i + n - 1) / n;
  }
  return rows * layer.row_bytes();
}

// The tables' shards as the planner has them; `result` says why. On several nodes of equal size
// the planner deals with nodes, whose ranks share what is theirs: a row crosses the wire between
// nodes no more often than needed.
std::vector<std::vector<int>> planned_shards(const EmbeddingLayer& layer,
                                             const comm::Topology& topology,
                                             LayerPlacement& result) {
  const embedding::ShardingLimits& limits = layer.sharding_limits();
  const bool by_node = topology.nodes() > 1 && topology.uniform();
  const int buckets = by_node ? topology.nodes() : topology.ranks();
  const int64_t ranks_of_bucket = topology.ranks() / buckets;
  std::vector<embedding::TableLoad> tables;
  int64_t all = 0, small = 0;
  double lookups = 0, copied = 0;
  const int64_t copy_below = limits.copy_below_bytes(topology.nodes());
  for (int64_t t = 0; t < layer.layout().tables(); ++t) {
    const int64_t rows = layer.layout().table_rows[static_cast<size_t>(t)];
    const auto keys = static_cast<double>(layer.layout().table_lookups(t));
    tables.push_back(
        {.name = embedding::table_name(layer.name(), t), .rows = rows, .lookups = keys});
    const int64_t bytes = rows * layer.row_bytes();
    all += bytes;
    lookups += keys;
    if (bytes >= copy_below) continue;
    small += bytes;
    copied += keys;
  }
  // Unless the config says how much: half more than an even share of all rows and a row a table.
  // What this machine has left would be another limit on every node, and all come to one plan.
  const int64_t share =
      (all - small) / buckets / 2 * 3 + layer.layout().tables() * layer.row_bytes() + small;
  const int64_t capacity =
      limits.memory_bytes() > 0 ? limits.memory_bytes() * ranks_of_bucket : share;
  const embedding::ShardingPlan plan(std::move(tables),
                                     {.buckets = buckets,
                                      .capacity_bytes = capacity,
                                      .row_bytes = layer.row_bytes(),
                                      .replicate_below_bytes = copy_below,
                                      .shard_cost = limits.shard_cost(topology.nodes())});
  std::vector<std::vector<int>> shards;
  for (int64_t t = 0; t < layer.layout().tables(); ++t) {
    auto& ranks = shards.emplace_back();
    for (const int bucket : plan.shards(static_cast<size_t>(t)))
      for (int local = 0; local < ranks_of_bucket; ++local)
        ranks.push_back(by_node ? topology.rank_at(bucket, local) : bucket);
  }
  result.exchanged_share = lookups > 0 ? 1 - copied / lookups : 1;
  result.explanation = fmt::format("{}: tables spread by plan over {} {}s\n{}", layer.name(),
                                   buckets, by_node ? "node" : "rank", plan.explain());
  for (int rank = 0; rank < topology.ranks(); ++rank)
    result.explanation += fmt::format("rank {:>3}: {:>15} bytes with optimizer states\n", rank,
                                      bytes_of_rank(layer, shards, rank));
  result.explanation.pop_back();
  return shards;
}

LayerPlacement localized_placement(const EmbeddingLayer& layer, const comm::Topology& topology) {
  using embedding::Sharding;
  LayerPlacement result;
  std::vector<int> all(static_cast<size_t>(topology.ranks()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<int>> shards(static_cast<size_t>(layer.layout().tables()));
  if (layer.hashed()) {
    using embedding::KeyOwner;
    const KeyOwner by = layer.key_owner();
    result.explanation = fmt::format(
        "{}: {} mod {}, up to {} rows a rank", layer.name(),
        by == KeyOwner::kByTable ? "table t on rank t" : "key k of every table on rank k",
        topology.ranks(), layer.hash_capacity());
    return result;  // the layer's own business
  }
  switch (layer.sharding()) {
    case Sharding::kSlot:
      for (size_t t = 0; t < shards.size(); ++t) shards[t] = {all[t % all.size()]};
      result.explanation =
          fmt::format("{}: table t on rank t mod {}", layer.name(), topology.ranks());
      break;
    case Sharding::kRow:
      for (auto& ranks : shards) ranks = all;
      result.explanation =
          fmt::format("{}: key k of every table on rank k mod {}", layer.name(), topology.ranks());
      break;
    case Sharding::kReplicate:
      result.explanation =
          fmt::format("{}: every table on all {} ranks", layer.name(), topology.ranks());
      break;
    case Sharding::kFrequency:
    case Sharding::kAuto:
      shards = planned_shards(layer, topology, result);
      break;
  }
  result.placement = std::make_shared<RowPlacement>(
      RowPlacement::by_table(layer.layout(), std::move(shards), topology.ranks()));
  return result;
}

}  // namespace

comm::Topology topology_of(const config::SolverConfig& solver) {
  std::vector<int> rows;
  for (const auto& row : solver.gpu) rows.push_back(static_cast<int>(row.size()));
  return comm::Topology(std::move(rows), solver.node_first);
}

namespace {

std::vector<LayerPlacement> place(const EmbeddingLayers& layers, const config::TrainConfig& config,
                                  const comm::Topology& topology, const KeyStatistics* statistics) {
  std::vector<LayerPlacement> placements;
  for (size_t i = 0; i < layers.size(); ++i)
    placements.push_back(layers[i]->sharding() == embedding::Sharding::kFrequency
                             ? hybrid_placement(*layers[i], config, topology, statistics, i)
                             : localized_placement(*layers[i], topology));
  return placements;
}

}  // namespace

std::vector<LayerPlacement> make_placements(const config::TrainConfig& config,
                                            const comm::Topology& topology, bool read_data) {
  if (topology.ranks() == 1) return {};
  const EmbeddingLayers layers = embedding_layers(config);
  const bool hybrid = std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
    return layer->sharding() == embedding::Sharding::kFrequency;
  });
  std::optional<KeyStatistics> statistics;
  if (hybrid && read_data && !config.data.follow) {
    statistics = counted_statistics(config, layers);
    if (!statistics) statistics = first_batches_statistics(config, layers);
  }
  return place(layers, config, topology, statistics ? &*statistics : nullptr);
}

ExpectedPlacements expect_placements(const config::TrainConfig& config,
                                     const comm::Topology& topology, AssumedKeys keys,
                                     bool replicate) {
  using embedding::KeyFrequencies;
  // The number of batches that are taken as counted: enough to distinguish rates.
  constexpr double kBatches = 1e6;
  const EmbeddingLayers layers = embedding_layers(config);
  const auto batch = static_cast<double>(config.solver.batchsize);
  std::optional<KeyStatistics> statistics;
  if (keys == AssumedKeys::kCountedElseCriteo) statistics = counted_statistics(config, layers);
  const bool counted = statistics.has_value();
  if (!counted)
    statistics = KeyStatistics{.of_layer = {},
                               .batches = kBatches,
                               .source = keys == AssumedKeys::kUniform
                                             ? "assumed: every key of a table as often as any other"
                                             : "assumed: skewed as Criteo's"};
  std::vector<KeyFrequencies> frequencies;
  std::vector<double> thresholds;  // lookups of a category in a sample
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& layout = layers[i]->layout();
    frequencies.push_back(
        counted ? KeyFrequencies::counted(statistics->of_layer[i], statistics->batches * batch)
        : keys == AssumedKeys::kUniform ? KeyFrequencies::uniform(layout)
                                        : KeyFrequencies::like_criteo(layout));
    thresholds.push_back(layers[i]->sharding() == embedding::Sharding::kFrequency && replicate
                             ? threshold_of(*layers[i], config, topology, 1) / batch
                             : KeyFrequencies::kAny);
    if (!counted)  // a model of categories rounds the number of the frequent ones up
      statistics->of_layer.push_back(
          frequencies[i].as_statistics(layout, thresholds[i], kBatches * batch, topology.ranks()));
  }
  ExpectedPlacements expected;
  expected.source = statistics->source;
  if (topology.ranks() > 1)
    expected.placements = place(layers, config, topology, replicate ? &*statistics : nullptr);
  else
    expected.placements.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerPlacement& p = expected.placements[i];
    const double samples = batch / topology.ranks(), rare = frequencies[i].lookups(thresholds[i]);
    if (layers[i]->sharding() == embedding::Sharding::kFrequency)
      p.exchanged_share = rare / frequencies[i].lookups();
    p.keys = std::make_shared<const embedding::ExpectedKeys>(
        embedding::ExpectedKeys{.frequencies = frequencies[i], .run_batches = 0});
    if (rare > 0)
      p.rows_per_lookup = frequencies[i].distinct(samples, thresholds[i]) / (samples * rare);
  }
  return expected;
}

}  // namespace hlite::trainer
