// Models that read histories: the inputs of their data, and their layers, as lines of JSON.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/preparation/models/prepared.h"

namespace hlite::prep {

// What a caller may choose.
struct HistorySizes {
  int64_t width = 16;  // of a vector
  std::vector<int64_t> attention = {80, 40}, hidden = {200, 80};
  bool softmax = true;
  int64_t heads = 4, blocks = 1;
  double dropout = 0.1, learning_rate = 0.001;
  // `sizes`: an object with some of those that the model has. Throws ConfigError.
  static HistorySizes of(const std::string& model, const config::JsonNode* sizes = nullptr);
};

bool reads_histories(const std::string& model);

// Slots side by side, one sparse input.
struct SlotRun {
  std::string top;
  int64_t first, count;
};

struct HistoryInputs {
  // Events that are asked for, in the order of the history's columns, and all other slots.
  std::vector<SlotRun> targets, context;
  SlotRun history;
};

// Of data with one history. Throws ConfigError for others, and where it is not known which slot has
// the target of a column of the history: one of the same table, of several that of its name without
// "_history".
HistoryInputs history_inputs(const PreparedData& data);

// The layers of one of the models from the embedding to "logit". `penalty`: lambda of L2 on tables.
std::string history_layers(const std::string& model, const PreparedData& data, double penalty,
                           const HistorySizes& sizes);

}  // namespace hlite::prep
