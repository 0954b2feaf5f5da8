// The reference of all keys of a config, docs/configs.md: what `train --keys` prints.
#pragma once

#include <string>

#include "hugectr_lite/trainer/keys/key_facts.h"
#include "hugectr_lite/trainer/keys/key_meanings.h"

namespace hlite::trainer {

// Markdown. Throws Error naming every key that the parser knows and key_meanings.h does not, every
// meaning without a key, and every default that both say or none.
std::string key_reference();

// The part of a block; what is wrong is added to `problems`, a line each.
std::string block_reference(const BlockMeaning& meaning, const BlockFacts& facts,
                            std::string& problems);

}  // namespace hlite::trainer
