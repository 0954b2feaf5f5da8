// The parsers of the single blocks, for train_config.cpp (parse_optimizer is public). Each throws
// ConfigError for a key or value it does not take.
#pragma once

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/config/train_config.h"

namespace hlite::config {

SolverConfig parse_solver(const JsonNode& node, bool strict);
AllReduceConfig parse_all_reduce(const JsonNode& node, bool strict);
// `node` is layers[0], `directory` that of the config file.
DataConfig parse_data(const JsonNode& node, bool strict, const std::string& directory);
// `inputs` is the Data layer's list `sparse`; `raw`: its records have a fixed number of keys.
std::vector<SparseInputConfig> parse_sparse_inputs(const JsonNode& inputs, bool raw, bool strict);
// A non-empty string.
std::string parse_name(ObjectReader& reader, std::string_view key);

}  // namespace hlite::config
