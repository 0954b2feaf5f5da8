// The layers of a first config's model, as lines of JSON.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/preparation/models/history_layers.h"

namespace hlite::prep {

// What the size of the data decides about layers.
struct LayerSizes {
  int64_t width = 8;  // of a vector
  std::vector<int64_t> hidden = {128, 64};
  double dropout = 0.1;
  bool normalized = false;  // batches, by BatchNorm
  double penalty = 0;       // lambda of L2 on tables; 0: none
  HistorySizes histories = {};
};

// The models that there are layers of: those of several tasks after others, those of histories last.
const std::vector<std::string>& first_config_models();
// Whether the model has a score for each of several labels.
bool has_tasks(const std::string& model);

// The layers of one of first_config_models(), from the embedding to "logit", [B, labels].
std::string model_layers(const std::string& model, const PreparedData& data,
                         const LayerSizes& sizes);

}  // namespace hlite::prep
