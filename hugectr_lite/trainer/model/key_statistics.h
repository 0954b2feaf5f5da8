// Counts of the keys of the training data, from its manifest or from its first batches.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "embedding/frequency.h"
#include "embedding/key_frequencies.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/model/embedding_layers.h"

namespace hlite::trainer {

struct KeyStatistics {
  std::vector<embedding::FrequencyStatistics> of_layer;
  double batches = 0;  // number of batches that were counted
  std::string source;
};

// Returns the counts that preparation stored with the training data; nullopt if its manifest has
// none for these tables. Throws DataError for a file that is too short.
std::optional<KeyStatistics> counted_statistics(const config::TrainConfig& config,
                                                const EmbeddingLayers& layers);
// Counts the first batches, in the order of the file: as many as the hybrid layers request.
KeyStatistics first_batches_statistics(const config::TrainConfig& config,
                                       const EmbeddingLayers& layers);

// Returns the expected keys of each embedding layer, by the counts in the manifest of the training
// data and the length of the run; null if there are no counts. Reads all counts.
using LayerKeys = std::vector<std::shared_ptr<const embedding::ExpectedKeys>>;
LayerKeys expected_keys(const config::TrainConfig& config);

}  // namespace hlite::trainer
