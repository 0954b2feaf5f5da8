#include "hugectr_lite/trainer/keys/config_keys.h"

#include <algorithm>

#include "embedding/embedding_config.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/network/layer_registry.h"

namespace hlite::trainer {

ConfigKeys config_keys() {
  ConfigKeys keys{config::describe_config(), config::describe_data_layer(), {}, {}};
  for (const auto& known : config::kEmbeddingTypes)
    keys.embeddings.emplace_back(known.name, embedding::describe_embedding(known.type));
  for (const std::string& type : network::layer_types())
    keys.layers.emplace_back(type, network::describe_layer(type));
  return keys;
}

bool is_wiring(const config::KeySchema& key) {
  const auto wiring = {"type", "name", "bottom", "top"};
  return std::find(wiring.begin(), wiring.end(), key.name) != wiring.end();
}

}  // namespace hlite::trainer
