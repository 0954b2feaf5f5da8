// The keys that a config may have, as its blocks declare them (block.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hlite::config {

struct BlockSchema;

struct KeySchema {
  std::string name;
  std::string takes;      // "an integer >= 1", in the words of error messages
  std::string json;       // the same as members of a JSON Schema: "\"type\":\"integer\""
  std::string meaning;    // Markdown
  std::string otherwise;  // the default as JSON; empty: none, or `in_words`
  std::string in_words;   // the default in words, as Markdown
  bool required = false;
  // The key belongs to one value of the block's `type` alone, as sgd_hparam does; empty: to all.
  std::string variant;
  std::shared_ptr<BlockSchema> block;  // keys of an object, or of each object of a list
  std::string word = {};  // a string that may stand in place of that object; empty: none
};

struct BlockSchema {
  std::string text;  // Markdown
  std::vector<KeySchema> keys;
  std::vector<std::pair<std::string, std::string>> refused;  // key, what to do instead
};

}  // namespace hlite::config
