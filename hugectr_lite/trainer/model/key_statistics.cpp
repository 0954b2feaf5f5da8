#include "hugectr_lite/trainer/model/key_statistics.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "data_reader/manifest.h"
#include "data_reader/open_source.h"
#include "embedding/key_frequencies.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"

namespace hlite::trainer {
namespace {

using embedding::EmbeddingLayer, embedding::FrequencyStatistics;

// Returns the count of each row of a layer's tables, added up over the slots that share a table.
std::vector<uint32_t> counts_of(const EmbeddingLayer& layer, const data::Manifest& manifest,
                                const ReadFile& file) {
  const embedding::SlotLayout& layout = layer.layout();
  constexpr uint32_t kMax = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> counts(static_cast<size_t>(layout.total_rows)), of_slot;
  const auto sizes = manifest.slot_sizes.begin();
  for (const embedding::LookedUpSlot& of : layer.data_slots()) {
    const int64_t at = std::accumulate(sizes, sizes + of.slot, int64_t{0}) *
                       static_cast<int64_t>(sizeof(uint32_t));
    of_slot.resize(static_cast<size_t>(of.rows));
    const auto bytes = std::as_writable_bytes(std::span(of_slot));
    if (at + std::ssize(bytes) > file.size())
      raise<DataError>("{}: expected at least {} bytes, found {}", file.name(),
                       at + std::ssize(bytes), file.size());
    file.read(at, bytes);
    uint32_t* const of_table = counts.data() + layout.table_offset[static_cast<size_t>(of.table)];
    for (size_t key = 0; key < of_slot.size(); ++key)
      of_table[key] += std::min(of_slot[key], kMax - of_table[key]);
  }
  return counts;
}

// The manifest of the tool that wrote the training data, if it has the counts of these tables.
std::optional<data::ManifestEntry> manifest_with_counts(const config::TrainConfig& config,
                                                        const EmbeddingLayers& layers) {
  auto entry = data::find_manifest_of(config.resolve(config.data.source));
  if (!entry || entry->file.role != "train" || entry->manifest.key_counts_name.empty())
    return std::nullopt;
  const data::Manifest& manifest = entry->manifest;
  // Multi-hot lists are made from the ids that were counted: their counts are others.
  const bool one_hot = std::all_of(manifest.hotness.begin(), manifest.hotness.end(),
                                   [](int64_t n) { return n == 1; });
  const auto same_sizes = [&](const auto& layer) {
    return std::all_of(layer->data_slots().begin(), layer->data_slots().end(),
                       [&](const embedding::LookedUpSlot& of) {
                         return of.rows == manifest.slot_sizes[static_cast<size_t>(of.slot)];
                       });
  };
  if (!one_hot || manifest.slot_sizes.size() != config.data.key_layout().hotness.size() ||
      !config.data.key_layout().is_one_hot() ||
      !std::all_of(layers.begin(), layers.end(), same_sizes))
    return std::nullopt;
  return entry;
}

std::string counts_path(const data::ManifestEntry& entry) {
  return (std::filesystem::path(entry.path).parent_path() / entry.manifest.key_counts_name)
      .string();
}

// Returns (count, rows with that count) of a layer. Tables with one slot each are read a piece at a
// time.
std::vector<std::pair<int64_t, int64_t>> histogram_of(const EmbeddingLayer& layer,
                                                      const data::Manifest& manifest,
                                                      const ReadFile& file) {
  const embedding::SlotLayout& layout = layer.layout();
  std::unordered_map<uint32_t, int64_t> categories;
  const auto add = [&](std::span<const uint32_t> counts) {
    for (const uint32_t count : counts) ++categories[count];
  };
  if (layout.tables() < layout.slots() || layer.tops().size() > 1) {
    add(counts_of(layer, manifest, file));
  } else {
    constexpr int64_t kPiece = 1 << 18;
    std::vector<uint32_t> piece;
    const auto sizes = manifest.slot_sizes.begin();
    const int64_t begin = std::accumulate(sizes, sizes + layer.data_slots()[0].slot, int64_t{0});
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

std::optional<KeyStatistics> counted_statistics(const config::TrainConfig& config,
                                                const EmbeddingLayers& layers) {
  const auto entry = manifest_with_counts(config, layers);
  if (!entry) return std::nullopt;
  const ReadFile counts_file(counts_path(*entry));
  KeyStatistics statistics;
  statistics.batches =
      static_cast<double>(entry->file.rows) / static_cast<double>(config.solver.batchsize);
  statistics.source = counts_file.name();
  for (const auto& layer : layers) {
    statistics.of_layer.push_back(
        FrequencyStatistics::of_counts(counts_of(*layer, entry->manifest, counts_file)));
  }
  return statistics;
}

KeyStatistics first_batches_statistics(const config::TrainConfig& config,
                                       const EmbeddingLayers& layers) {
  int64_t most = 1;
  for (const auto& layer : layers)
    if (layer->hybrid()) most = std::max(most, layer->hybrid()->statistics_batches);
  data::SourceOptions options;
  options.repeat = false;
  options.max_samples = most * config.solver.batchsize;
  const auto source =
      data::open_source(config.data, config.resolve(config.data.source), data::Split::kTrain,
                        config.solver.batchsize, slot_rows_of(config, layers), options);
  const KeyLayout keys = config.data.key_layout();
  std::vector<std::vector<int64_t>> lookups(layers.size());
  KeyStatistics statistics;
  while (true) {
    const data::HostBatch& batch = source->next();
    if (batch.size == 0) break;
    statistics.batches +=
        static_cast<double>(batch.size) / static_cast<double>(config.solver.batchsize);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto& offsets = layers[i]->layout().table_offset;
      for (int64_t b = 0; b < batch.size; ++b)
        for (const embedding::LookedUpSlot& of : layers[i]->data_slots()) {
          const auto slot = static_cast<size_t>(of.slot);
          const int64_t first = keys.first_column[slot];
          for (int64_t c = first; c < first + keys.hotness[slot]; ++c)
            if (const uint32_t key = batch.keys(b, c); key != kNoKey)
              lookups[i].push_back(offsets[static_cast<size_t>(of.table)] + key);
        }
    }
  }
  for (auto& l : lookups)
    statistics.of_layer.push_back(FrequencyStatistics::of_lookups(std::move(l)));
  statistics.source = fmt::format("the first {:.0f} batches", statistics.batches);
  return statistics;
}

LayerKeys expected_keys(const config::TrainConfig& config) {
  const EmbeddingLayers layers = embedding_layers(config);
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
    keys[i] = std::make_shared<const embedding::ExpectedKeys>(
        embedding::ExpectedKeys{.frequencies = embedding::KeyFrequencies::counted(
                                    histogram_of(*layers[i], entry->manifest, file), samples),
                                .run_batches = batches});
  return keys;
}

}  // namespace hlite::trainer
