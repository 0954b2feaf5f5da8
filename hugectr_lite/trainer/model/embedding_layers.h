// The embedding layers of a config, before a model is built of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "embedding/embedding_layer.h"
#include "hugectr_lite/config/train_config.h"

namespace hlite::trainer {

using EmbeddingLayers = std::vector<std::unique_ptr<embedding::EmbeddingLayer>>;

// Returns how many embedding layers follow the data layer. Throws ConfigError for one further down.
size_t count_embeddings(const config::TrainConfig& config);
// Makes them. Throws ConfigError likewise.
EmbeddingLayers embedding_layers(const config::TrainConfig& config);
// Returns the rows of every slot's table, of all sparse inputs one after another: of the smallest
// table if several layers take an input. Throws ConfigError if none takes one.
std::vector<int64_t> slot_rows_of(const config::TrainConfig& config,
                                  const EmbeddingLayers& embeddings);

}  // namespace hlite::trainer
