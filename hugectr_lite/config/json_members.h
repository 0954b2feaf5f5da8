// Members of a config that is rewritten before its blocks read it (hugectr_2_0.h, hugectr_slips.h).
#pragma once

#include <string>
#include <string_view>

#include "hugectr_lite/config/json_node.h"

namespace hlite::config {

// Member `key` of an object, to be changed; null when absent.
inline JsonNode* member(JsonNode& object, std::string_view key) {
  for (auto& [name, value] : object.members())
    if (name == key) return &value;
  return nullptr;
}

// The text of member `key`; "" if it is absent or no string.
inline std::string text_at(const JsonNode& object, std::string_view key) {
  const JsonNode* const node = object.find(key);
  return node && node->kind() == JsonNode::Kind::kString ? node->string() : "";
}

}  // namespace hlite::config
