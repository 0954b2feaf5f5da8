// Small configs and layers which together have every key that there is, or the object that it
// would be in.
#pragma once

#include <nlohmann/json.hpp>

#include <vector>

namespace hlite::trainer {

using Json = nlohmann::ordered_json;

// Whole configs but for dense layers: every format, optimizer, embedding.
std::vector<Json> config_samples();
// A dense layer of each type, several where keys exclude each other. Throws Error for a type
// without a line in layer_meanings().
std::vector<Json> layer_samples();

}  // namespace hlite::trainer
