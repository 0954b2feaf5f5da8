// The reference of all keys of a config, docs/configs.md: what `train --keys` prints.
#pragma once

#include <string>

#include "hugectr_lite/trainer/keys/config_keys.h"

namespace hlite::trainer {

std::string key_reference();  // Markdown

// The table of a block that exists in several types. What differs is said by type:
// "required (Adam); `1e-08` (AdaGrad)".
std::string key_table(const TypedBlocks& blocks);

}  // namespace hlite::trainer
