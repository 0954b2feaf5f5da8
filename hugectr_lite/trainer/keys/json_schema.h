// A JSON Schema (draft 7) of configs, for editors: what `train --keys --json-schema` prints.
#pragma once

#include <string>

namespace hlite::trainer {

// Keys, types, ranges, names and defaults are in it; what keys must be together is not.
std::string config_json_schema();

}  // namespace hlite::trainer
