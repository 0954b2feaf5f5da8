// The one list of dense layers. A new layer is layers/x.cpp, a line in layer_registry.cpp, and a
// case in the tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

// Makes the layer described by `node`, or those that it stands for. Throws ConfigError for a type
// that does not exist (with a did-you-mean) or that the dialect has but this version does not
// support, and for bad keys, a line each.
std::vector<std::unique_ptr<Layer>> make_layers(const config::JsonNode& node, bool strict);

// Types make_layers() knows.
std::vector<std::string> layer_types();
// The keys of one of them.
config::BlockSchema describe_layer(const std::string& type);

}  // namespace hlite::network
