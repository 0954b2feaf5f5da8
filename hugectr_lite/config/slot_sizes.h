// `slot_size_array`: rows of each slot's table, of the Data layer and of embedding layers. A list
// of integers, or (ours) the path of a manifest.json whose slot_size_array is taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hugectr_lite/config/block.h"

namespace hlite::config {

// The sizes that `node`, the value of the key, stands for. `directory`: of the config file. Throws
// ConfigError.
std::vector<int64_t> read_slot_sizes(const JsonNode& node, const std::string& directory,
                                     int64_t least = 1);
// Declares the key, each size of a list at least `least`. Returns whether the key is there with a
// value that it may have. A fault inside a manifest is named with the place in the config and the
// place in the manifest.
bool declare_slot_sizes(Block& s, const std::string& directory, std::vector<int64_t>* sizes,
                        const char* meaning, const Need& need = {}, int64_t least = 1);

}  // namespace hlite::config
