// Everything that a config may say, as its blocks and layers declare it (config/block.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/config/block_schema.h"

namespace hlite::trainer {

// A block by the type that it has: "SGD", "InnerProduct".
using TypedBlocks = std::vector<std::pair<std::string, config::BlockSchema>>;

struct ConfigKeys {
  config::BlockSchema config, data;  // the file; layers[0]
  TypedBlocks embeddings, layers;    // the others
};
ConfigKeys config_keys();

// The keys that every dense layer has.
bool is_wiring(const config::KeySchema& key);

}  // namespace hlite::trainer
