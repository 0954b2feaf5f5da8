// All keys that a config may have, as its blocks and layers declare them (config/block.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/config/block_schema.h"

namespace hlite::trainer {

// Blocks, each with the value of its `type`: "SGD", "InnerProduct".
using TypedBlocks = std::vector<std::pair<std::string, config::BlockSchema>>;

struct ConfigKeys {
  config::BlockSchema config, data;  // the whole file, and its Data layer (layers[0])
  TypedBlocks embeddings, layers;    // embedding layers and dense layers
};
ConfigKeys config_keys();

// Returns true for the keys that every dense layer has: `type`, `name`, `bottom` and `top`.
bool is_wiring(const config::KeySchema& key);

}  // namespace hlite::trainer
