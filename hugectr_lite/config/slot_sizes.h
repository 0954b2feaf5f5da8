// `slot_size_array`: rows of each slot's table, of the Data layer and of embedding layers. A list
// of integers, or (ours) the path of a manifest.json whose slot_size_array is taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hugectr_lite/config/object_reader.h"

namespace hlite::config {

// `reader`: of the block. `directory`: of the config file. REQUIRES the key to be there or asked
// for as a required one. Throws ConfigError; what is wrong inside of a manifest is named with the
// place in the config and the place in the manifest.
std::vector<int64_t> read_slot_sizes(ObjectReader& reader, const std::string& directory);

}  // namespace hlite::config
