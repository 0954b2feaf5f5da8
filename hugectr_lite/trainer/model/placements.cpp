#include "hugectr_lite/trainer/model/placements.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "data_reader/manifest.h"
#include "data_reader/open_source.h"
#include "embedding/embedding_layer.h"
#include "embedding/key_frequencies.h"
#include "embedding/sharding_plan.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/network/layer_registry.h"

namespace hlite::trainer {
namespace {

using embedding::EmbeddingLayer;
using embedding::FrequencyStatistics;
using embedding::RowPlacement;
using Layers = std::vector<std::unique_ptr<EmbeddingLayer>>;

struct Statistics {
  std::vector<FrequencyStatistics> of_layer;
  double batches = 0;  // that the counts were taken from
  std::string source;
};

// The manifest of the tool that wrote the training data, where it has the counts of these tables.
std::optional<Statistics> from_manifest(const config::TrainConfig& config, const Layers& layers) {
  const auto entry = data::find_manifest_of(config.resolve(config.data.source));
  if (!entry || entry->file.role != "train" || entry->manifest.key_counts_name.empty())
    return std::nullopt;
  const data::Manifest& manifest = entry->manifest;
  // Multi-hot lists are made from the ids that were counted: their counts are others.
  const bool one_hot = std::all_of(manifest.hotness.begin(), manifest.hotness.end(),
                                   [](int64_t n) { return n == 1; });
  const auto same_sizes = [&](const auto& layer) {
    const auto& rows = layer->layout().rows;
    return std::equal(rows.begin(), rows.end(),
                      manifest.slot_sizes.begin() + layer->layout().first_slot);
  };
  if (!one_hot || manifest.slot_sizes.size() != config.data.key_layout().hotness.size() ||
      !std::all_of(layers.begin(), layers.end(), same_sizes))
    return std::nullopt;
  const ReadFile counts_file(
      (std::filesystem::path(entry->path).parent_path() / manifest.key_counts_name).string());
  Statistics statistics;
  statistics.batches =
      static_cast<double>(entry->file.rows) / static_cast<double>(config.solver.batchsize);
  statistics.source = counts_file.name();
  for (const auto& layer : layers) {
    const int64_t at =
        std::accumulate(manifest.slot_sizes.begin(),
                        manifest.slot_sizes.begin() + layer->layout().first_slot, int64_t{0}) *
        static_cast<int64_t>(sizeof(uint32_t));
    std::vector<uint32_t> counts(static_cast<size_t>(layer->layout().total_rows));
    const auto bytes = std::as_writable_bytes(std::span(counts));
    if (at + std::ssize(bytes) > counts_file.size())
      raise<DataError>("{}: expected at least {} bytes, found {}", counts_file.name(),
                       at + std::ssize(bytes), counts_file.size());
    counts_file.read(at, bytes);
    statistics.of_layer.push_back(FrequencyStatistics::of_counts(counts));
  }
  return statistics;
}

// The first batches in the order of the file.
Statistics from_batches(const config::TrainConfig& config, const Layers& layers) {
  int64_t most = 1;
  for (const auto& layer : layers)
    if (layer->hybrid()) most = std::max(most, layer->hybrid()->statistics_batches);
  data::SourceOptions options;
  options.repeat = false;
  options.max_samples = most * config.solver.batchsize;
  const auto source =
      data::open_source(config.data, config.resolve(config.data.source), data::Split::kTrain,
                        config.solver.batchsize, slot_rows_of(config, layers), options);
  std::vector<std::vector<int64_t>> lookups(layers.size());
  Statistics statistics;
  while (true) {
    const data::HostBatch& batch = source->next();
    if (batch.size == 0) break;
    statistics.batches +=
        static_cast<double>(batch.size) / static_cast<double>(config.solver.batchsize);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto& layout = layers[i]->layout();
      for (int64_t b = 0; b < batch.size; ++b)
        for (int64_t s = 0; s < layout.slots(); ++s)
          for (int64_t c = layout.column(s); c < layout.column(s) + layout.hotness(s); ++c)
            if (const uint32_t key = batch.keys(b, c); key != kNoKey)
              lookups[i].push_back(layout.offset[static_cast<size_t>(s)] + key);
    }
  }
  for (auto& l : lookups)
    statistics.of_layer.push_back(FrequencyStatistics::of_lookups(std::move(l)));
  statistics.source = fmt::format("the first {:.0f} batches", statistics.batches);
  return statistics;
}

// Lookups, in so many batches, from which on a category of the layer is worth copies.
double threshold_of(const EmbeddingLayer& layer, const config::TrainConfig& config,
                    const comm::Topology& topology, double batches) {
  return embedding::frequent_threshold(
      {*layer.hybrid(), config.solver.batchsize, batches, topology.nodes(), topology.ranks()});
}

LayerPlacement hybrid_placement(const EmbeddingLayer& layer, const config::TrainConfig& config,
                                const comm::Topology& topology, const Statistics* statistics,
                                size_t index) {
  const embedding::HybridOptions& o = *layer.hybrid();
  const auto& layout = layer.layout();
  LayerPlacement result;
  if (!statistics) {
    result.placement = std::make_shared<RowPlacement>(
        RowPlacement::by_category(layout, embedding::CategoryModel(layout, topology.ranks())));
    result.explanation = fmt::format(
        "{}: {} rows spread over {} ranks; how many categories are "
        "frequent is found when a run starts",
        layer.name(), layout.total_rows, topology.ranks());
    return result;
  }
  const double threshold = threshold_of(layer, config, topology, statistics->batches);
  embedding::CategoryModel model(layout, topology.ranks(), statistics->of_layer[index], threshold,
                                 o.most_frequent(layout.total_rows));
  result.exchanged_share = 1 - model.frequent_share();
  if (o.most_infrequent_lookups >= 0) {
    const auto lookups = static_cast<double>(config.solver.batchsize * layer.layout().columns());
    result.exchanged_share = std::min(1.0, o.most_infrequent_lookups / lookups);
  }
  result.explanation = fmt::format(
      "{}: {} of {} categories are copied to all {} ranks (counted {:.1f} times or more in {}); "
      "they "
      "take {:.1f} % of the lookups",
      layer.name(), model.frequent().size(), layout.total_rows, topology.ranks(), threshold,
      statistics->source, 100 * model.frequent_share());
  result.placement =
      std::make_shared<RowPlacement>(RowPlacement::by_category(layout, std::move(model)));
  return result;
}

// What one rank's memory gets: copied tables and its shards.
int64_t bytes_of_rank(const EmbeddingLayer& layer, const std::vector<std::vector<int>>& shards,
                      int rank) {
  int64_t rows = 0;
  for (size_t s = 0; s < shards.size(); ++s) {
    const int64_t all = layer.layout().rows[s], n = std::ssize(shards[s]);
    if (n == 0) rows += all;
    for (int64_t i = 0; i < n; ++i)
      if (shards[s][static_cast<size_t>(i)] == rank) rows += (all - i + n - 1) / n;
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
  for (int64_t s = 0; s < layer.layout().slots(); ++s) {
    const int64_t rows = layer.layout().rows[static_cast<size_t>(s)];
    const auto keys = static_cast<double>(layer.layout().hotness(s));
    tables.push_back(
        {.name = embedding::table_name(layer.name(), s), .rows = rows, .lookups = keys});
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
      (all - small) / buckets / 2 * 3 + layer.layout().slots() * layer.row_bytes() + small;
  const int64_t capacity = limits.memory_bytes > 0 ? limits.memory_bytes * ranks_of_bucket : share;
  const embedding::ShardingPlan plan(std::move(tables),
                                     {.buckets = buckets,
                                      .capacity_bytes = capacity,
                                      .row_bytes = layer.row_bytes(),
                                      .replicate_below_bytes = copy_below,
                                      .shard_cost = limits.shard_cost(topology.nodes())});
  std::vector<std::vector<int>> shards;
  for (int64_t s = 0; s < layer.layout().slots(); ++s) {
    auto& ranks = shards.emplace_back();
    for (const int bucket : plan.shards(static_cast<size_t>(s)))
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
  std::vector<std::vector<int>> shards(static_cast<size_t>(layer.layout().slots()));
  if (layer.hashed()) {
    result.explanation =
        fmt::format("{}: {} on rank {} mod {}, up to {} rows a rank", layer.name(),
                    layer.by_slot() ? "table s" : "key k of every table",
                    layer.by_slot() ? "s" : "k", topology.ranks(), layer.hash_capacity());
    return result;  // the layer's own business
  }
  switch (layer.sharding()) {
    case Sharding::kSlot:
      for (size_t s = 0; s < shards.size(); ++s) shards[s] = {all[s % all.size()]};
      result.explanation =
          fmt::format("{}: table s on rank s mod {}", layer.name(), topology.ranks());
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

size_t count_embeddings(const config::TrainConfig& config) {
  size_t n = 0;
  while (n < config.layers.size() &&
         embedding::is_embedding_type(config.layers[n]->find("type")->string()))
    ++n;
  for (size_t i = n; i < config.layers.size(); ++i)
    if (embedding::is_embedding_type(config.layers[i]->find("type")->string())) {
      // What stands before it may be an embedding whose type has a slip.
      for (size_t before = n; before < i; ++before)
        network::make_layers(*config.layers[before], config.strict);
      config::fail_at(*config.layers[i],
                      "expected embedding layers directly behind the data layer, found one after a "
                      "dense layer");
    }
  return n;
}

std::vector<int64_t> slot_rows_of(const config::TrainConfig& config, const Layers& embeddings) {
  std::vector<int64_t> rows(config.data.key_layout().hotness.size(), 0);
  for (const auto& e : embeddings)
    for (int64_t s = 0; s < e->layout().slots(); ++s) {
      int64_t& of_slot = rows[static_cast<size_t>(e->layout().first_slot + s)];
      const int64_t own = e->layout().rows[static_cast<size_t>(s)];
      of_slot = of_slot == 0 ? own : std::min(of_slot, own);
    }
  for (size_t i = 0; i < config.data.sparse.size(); ++i)
    if (std::none_of(embeddings.begin(), embeddings.end(),
                     [i](const auto& e) { return e->input() == i; }))
      config::fail_at(
          *config.root.find("layers"),
          fmt::format("expected an embedding layer on the sparse input \"{}\", found none",
                      config.data.sparse[i].top));
  return rows;
}

comm::Topology topology_of(const config::SolverConfig& solver) {
  std::vector<int> rows;
  for (const auto& row : solver.gpu) rows.push_back(static_cast<int>(row.size()));
  return comm::Topology(std::move(rows), solver.node_first);
}

namespace {

Layers embedding_layers(const config::TrainConfig& config) {
  Layers layers;
  for (size_t i = 0; i < count_embeddings(config); ++i)
    layers.push_back(std::make_unique<EmbeddingLayer>(*config.layers[i], config));
  return layers;
}

std::vector<LayerPlacement> place(const Layers& layers, const config::TrainConfig& config,
                                  const comm::Topology& topology, const Statistics* statistics) {
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
  const Layers layers = embedding_layers(config);
  const bool hybrid = std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
    return layer->sharding() == embedding::Sharding::kFrequency;
  });
  std::optional<Statistics> statistics;
  if (hybrid && read_data) {
    statistics = from_manifest(config, layers);
    if (!statistics) statistics = from_batches(config, layers);
  }
  return place(layers, config, topology, statistics ? &*statistics : nullptr);
}

ExpectedPlacements expect_placements(const config::TrainConfig& config,
                                     const comm::Topology& topology, AssumedKeys keys,
                                     bool copies) {
  using embedding::KeyFrequencies;
  // As if so many batches had been counted: enough to tell rates apart.
  constexpr double kBatches = 1e6;
  const Layers layers = embedding_layers(config);
  const auto batch = static_cast<double>(config.solver.batchsize);
  std::optional<Statistics> statistics;
  if (keys == AssumedKeys::kCountedElseCriteo) statistics = from_manifest(config, layers);
  const bool counted = statistics.has_value();
  if (!counted)
    statistics = Statistics{.of_layer = {},
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
    thresholds.push_back(layers[i]->sharding() == embedding::Sharding::kFrequency && copies
                             ? threshold_of(*layers[i], config, topology, 1) / batch
                             : KeyFrequencies::kAny);
    if (!counted)  // a model of categories rounds the number of the frequent ones up
      statistics->of_layer.push_back(
          frequencies[i].as_statistics(layout, thresholds[i], kBatches * batch, topology.ranks()));
  }
  ExpectedPlacements expected;
  expected.source = statistics->source;
  if (topology.ranks() > 1)
    expected.placements = place(layers, config, topology, copies ? &*statistics : nullptr);
  else
    expected.placements.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerPlacement& p = expected.placements[i];
    const double samples = batch / topology.ranks(), rare = frequencies[i].lookups(thresholds[i]);
    if (layers[i]->sharding() == embedding::Sharding::kFrequency)
      p.exchanged_share = rare / frequencies[i].lookups();
    if (rare > 0)
      p.rows_per_lookup = frequencies[i].distinct(samples, thresholds[i]) / (samples * rare);
  }
  return expected;
}

}  // namespace hlite::trainer
