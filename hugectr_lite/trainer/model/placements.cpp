#include "hugectr_lite/trainer/model/placements.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>

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

// Returns the count of each row of a layer's tables, added up over the slots that share a table.
std::vector<uint32_t> counts_of(const embedding::SlotLayout& layout, const data::Manifest& manifest,
                                const ReadFile& file) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> counts(static_cast<size_t>(layout.total_rows)), of_slot;
  const auto sizes = manifest.slot_sizes.begin();
  int64_t at = std::accumulate(sizes, sizes + layout.first_slot, int64_t{0}) *
               static_cast<int64_t>(sizeof(uint32_t));
  for (size_t s = 0; s < layout.rows.size(); ++s) {
    of_slot.resize(static_cast<size_t>(layout.rows[s]));
    const auto bytes = std::as_writable_bytes(std::span(of_slot));
    if (at + std::ssize(bytes) > file.size())
      raise<DataError>("{}: expected at least {} bytes, found {}", file.name(),
                       at + std::ssize(bytes), file.size());
    file.read(at, bytes);
    at += std::ssize(bytes);
    uint32_t* const of_table = counts.data() + layout.offset[s];
    for (size_t key = 0; key < of_slot.size(); ++key)
      of_table[key] += std::min(of_slot[key], kMost - of_table[key]);
  }
  return counts;
}

// The manifest of the tool that wrote the training data, if it has the counts of these tables.
std::optional<data::ManifestEntry> manifest_with_counts(const config::TrainConfig& config,
                                                        const Layers& layers) {
  auto entry = data::find_manifest_of(config.resolve(config.data.source));
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
  return entry;
}

std::string counts_path(const data::ManifestEntry& entry) {
  return (std::filesystem::path(entry.path).parent_path() / entry.manifest.key_counts_name)
      .string();
}

std::optional<Statistics> from_manifest(const config::TrainConfig& config, const Layers& layers) {
  const auto entry = manifest_with_counts(config, layers);
  if (!entry) return std::nullopt;
  const ReadFile counts_file(counts_path(*entry));
  Statistics statistics;
  statistics.batches =
      static_cast<double>(entry->file.rows) / static_cast<double>(config.solver.batchsize);
  statistics.source = counts_file.name();
  for (const auto& layer : layers) {
    statistics.of_layer.push_back(
        FrequencyStatistics::of_counts(counts_of(layer->layout(), entry->manifest, counts_file)));
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
        "{}: {} rows spread over {} ranks; {}", layer.name(), layout.total_rows, topology.ranks(),
        config.data.follow ? "without counts of a folder that is followed, no category is frequent"
                           : "how many categories are frequent is found when a run starts");
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
    result.explanation =
        fmt::format("{}: {} on rank {} mod {}, up to {} rows a rank", layer.name(),
                    layer.by_slot() ? "table t" : "key k of every table",
                    layer.by_slot() ? "t" : "k", topology.ranks(), layer.hash_capacity());
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

// Returns (count, rows with that count) of a layer. Tables with one slot each are read a piece at a
// time.
std::vector<std::pair<int64_t, int64_t>> histogram_of(const embedding::SlotLayout& layout,
                                                      const data::Manifest& manifest,
                                                      const ReadFile& file) {
  std::unordered_map<uint32_t, int64_t> categories;
  const auto add = [&](std::span<const uint32_t> counts) {
    for (const uint32_t count : counts) ++categories[count];
  };
  if (layout.tables() < layout.slots()) {
    add(counts_of(layout, manifest, file));
  } else {
    constexpr int64_t kPiece = 1 << 18;
    std::vector<uint32_t> piece;
    const auto sizes = manifest.slot_sizes.begin();
    const int64_t begin = std::accumulate(sizes, sizes + layout.first_slot, int64_t{0});
    for (int64_t row = 0; row < layout.total_rows; row += kPiece) {
      piece.resize(static_cast<size_t>(std::min(kPiece, layout.total_rows - row)));
      const auto bytes = std::as_writable_bytes(std::span(piece));
      const int64_t at = (begin + row) * static_cast<int64_t>(sizeof(uint32_t));
      if (at + std::ssize(bytes) > file.size())
        raise<DataError>("{}: expected at least {} bytes, found {}", file.name(),
                         at + std::ssize(bytes), file.size());
      file.read(at, bytes);
      add(piece);
    }
  }
  return {categories.begin(), categories.end()};
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
  if (hybrid && read_data && !config.data.follow) {
    statistics = from_manifest(config, layers);
    if (!statistics) statistics = from_batches(config, layers);
  }
  return place(layers, config, topology, statistics ? &*statistics : nullptr);
}

LayerKeys expected_keys(const config::TrainConfig& config) {
  const Layers layers = embedding_layers(config);
  LayerKeys keys(layers.size());
  const auto entry = manifest_with_counts(config, layers);
  if (!entry) return keys;
  const ReadFile file(counts_path(*entry));
  const auto samples = static_cast<double>(entry->file.rows),
             batch = static_cast<double>(config.solver.batchsize);
  const auto batches =
      config.solver.max_iter
          ? static_cast<double>(*config.solver.max_iter)
          : static_cast<double>(config.solver.num_epochs.value_or(1)) * std::ceil(samples / batch);
  for (size_t i = 0; i < layers.size(); ++i)
    keys[i] = std::make_shared<const embedding::ExpectedKeys>(embedding::ExpectedKeys{
        .frequencies = embedding::KeyFrequencies::counted(
            histogram_of(layers[i]->layout(), entry->manifest, file), samples),
        .run_batches = batches});
  return keys;
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
    p.keys = std::make_shared<const embedding::ExpectedKeys>(
        embedding::ExpectedKeys{.frequencies = frequencies[i], .run_batches = 0});
    if (rare > 0)
      p.rows_per_lookup = frequencies[i].distinct(samples, thresholds[i]) / (samples * rare);
  }
  return expected;
}

}  // namespace hlite::trainer
