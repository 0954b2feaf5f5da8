// What a run that goes on from a checkpoint may change of its config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/config/train_config.h"

namespace hlite::trainer {

enum class ResumeRule {
  kFree,      // where, how fast and how long it runs, what it shows; or another check knows better
  kLearning,  // how it learns from now on, often changed on purpose
  kData,      // which batches or rows it goes on with: the position is one of others
  kMetrics,   // what evaluations measure: what they have led to holds no more
  kFixed,     // refused: weights, states or positions would be those of another run
};

// The rule of a key, by its section and its blocks: "solver.batchsize", "data.label.real",
// "embedding.sparse_embedding_hparam.combiner", "layer.fc_param.num_output". Keys of a block that
// have none of their own have the block's. Nullopt for a key without any.
std::optional<ResumeRule> resume_rule(std::string_view key);
// All keys and blocks that have a rule of their own.
std::vector<std::string> ruled_keys();

struct ConfigChange {
  ResumeRule rule;
  std::string path;         // in the config: "layers[1].sparse_embedding_hparam.combiner"
  std::string before, now;  // JSON, or "nothing"
};

// The keys whose values are not those of the config `before`, which a checkpoint has. Absent keys
// have their defaults, layers are the same by name, and one without an optimizer has the config's.
std::vector<ConfigChange> changes_since(const config::JsonNode& before,
                                        const config::TrainConfig& config);

}  // namespace hlite::trainer
