// The layers of a config: embedding layers and the dense network after them, wired and checked.
#pragma once

#include <memory>
#include <vector>

#include "embedding/embedding_layer.h"
#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/network/network.h"
#include "hugectr_lite/trainer/model/key_statistics.h"
#include "hugectr_lite/trainer/model/placements.h"

namespace hlite::trainer {

// The tiers in which rows lie, and the known frequencies of their keys.
struct RowTiers {
  // The decision of "embedding_memory": "auto"; nullopt: all rows are in memory.
  std::optional<config::EmbeddingMemoryConfig> memory = {};
  bool in_memory = false;  // all rows are, whatever the config says
  LayerKeys keys = {};     // none: not known
};
// Returns the setting of the config, or the decision of "auto"; nullopt: all rows are in memory.
std::optional<config::EmbeddingMemoryConfig> row_memory(const config::TrainConfig& config,
                                                        const RowTiers& tiers);

// The settings that the layers are built for.
struct LayerSetup {
  embedding::TablesPlace place = {};            // of all tables, but for what placements say
  std::vector<LayerPlacement> placements = {};  // of the embedding layers; none on one rank
  RowTiers tiers = {};
  // Of a model that is only read from it: its hash tables have as many rows. Null: as many as the
  // config says.
  const checkpoint::SafetensorsReader* weights = nullptr;
  bool steps_of_gpu = false;  // memory is that of GPUs, also if the tables are made for the CPU
  uint64_t seed = 0;
};

struct ModelLayers {
  std::vector<std::unique_ptr<embedding::EmbeddingLayer>> embeddings;
  // Rows of each slot's table, of all sparse inputs one after another.
  std::vector<int64_t> slot_rows;
  // Its inputs: labels, dense features, lengths of histories, then the embedding layers' tops.
  std::unique_ptr<network::Network> network;
  std::vector<size_t> histories;  // sparse inputs that name their lengths
  std::vector<size_t> first_top;  // of each embedding layer, among the network's inputs

  // The gradient of an embedding layer's vectors; kNoBuffer where nothing trained depends on them.
  [[nodiscard]] plan::BufferId vector_gradients(size_t embedding) const;
  // Returns true if steps of the network check them for NaN and infinity.
  [[nodiscard]] bool finds_gradient_overflow(size_t embedding) const;
};

// `config` must outlive the layers. Throws ConfigError with all faults when they do not fit
// together. Collective when setup.place.ranks.world is given.
ModelLayers build_layers(const config::TrainConfig& config, const LayerSetup& setup);

// Throws ConfigError with all faults of a config that read_train_config() has read: those of its
// blocks, and those of its layers if their wiring is known.
void require_valid(const config::TrainConfig& config);

}  // namespace hlite::trainer
