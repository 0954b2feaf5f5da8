// The layers of a config: embedding layers and the dense network behind them, wired and checked.
#pragma once

#include <memory>
#include <vector>

#include "embedding/embedding_layer.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/network/network.h"
#include "hugectr_lite/trainer/model/placements.h"

namespace hlite::trainer {

// What the layers are built for.
struct LayerSetup {
  embedding::TablesPlace place = {};            // of all tables, but for what placements say
  std::vector<LayerPlacement> placements = {};  // of the embedding layers; none on one rank
  uint64_t seed = 0;
};

struct ModelLayers {
  std::vector<std::unique_ptr<embedding::EmbeddingLayer>> embeddings;
  // Rows of each slot's table, of all sparse inputs one after another.
  std::vector<int64_t> slot_rows;
  // Its inputs: labels, dense features, then the embedding layers' vectors.
  std::unique_ptr<network::Network> network;
  static constexpr size_t kFirstEmbedding = 2;
};

// `config` must outlive the layers. Throws ConfigError when they do not fit together. Collective
// when setup.place.ranks.world is given.
ModelLayers build_layers(const config::TrainConfig& config, const LayerSetup& setup);

}  // namespace hlite::trainer
