// What the keys of a config mean, in words. Everything else that docs/configs.md says of them
// (which there are, what they take, what an absent one stands for) is asked of the parser.
#pragma once

#include <vector>

namespace hlite::trainer {

struct KeyMeaning {
  const char* key;
  const char* text;            // Markdown
  const char* otherwise = "";  // what an absent one stands for, where the parser cannot say it
};

// Keys of one kind of object: "" the config itself, "embedding" an embedding layer, a dense layer
// by its type, "hparam" any optimizer's hyper-parameters; every other object by its own key.
struct BlockMeaning {
  const char* block;
  const char* title;
  const char* text;
  std::vector<KeyMeaning> keys;  // in the order of the reference
};

// A type of dense layers, and a layer of it that is complete, but for `name`, `type` and `top`
// where that is one name. Its keys are those of the blocks `type` and, where it has such, of its
// objects.
struct LayerMeaning {
  const char* type;
  const char* text;
  const char* sample;
};

// Of all but dense layers, and of those; both in the order of the reference.
const std::vector<BlockMeaning>& config_meanings();
const std::vector<BlockMeaning>& layer_block_meanings();
const std::vector<LayerMeaning>& layer_meanings();

}  // namespace hlite::trainer
