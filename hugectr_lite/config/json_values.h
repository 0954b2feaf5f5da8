// Values of a JsonNode, checked: each function throws ConfigError "expected ..., found ...".
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/config/json_node.h"

namespace hlite::config {

// Closed ranges, printed as ">= 1", "in [0, 1]".
struct IntegerRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};
struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool without_min = false, without_max = false;  // the bound itself is outside
};

// The expected values in the words of messages: "an integer >= 1", `one of "a", "b"`.
std::string range_text(const IntegerRange& range);
std::string range_text(const NumberRange& range);
std::string choice_text(const std::vector<std::string>& choices);

int64_t to_integer(const JsonNode& node, const IntegerRange& range = {});  // takes 8.0
double to_number(const JsonNode& node, const NumberRange& range = {});
bool to_boolean(const JsonNode& node);
std::string to_string(const JsonNode& node);
std::string to_name(const JsonNode& node);  // a non-empty string
std::string to_choice(const JsonNode& node, const std::vector<std::string>& choices);
std::vector<int64_t> to_integers(const JsonNode& node, const IntegerRange& range = {});
std::vector<std::string> to_strings(const JsonNode& node);  // a string or a list of strings
const std::vector<JsonNode>& to_list(const JsonNode& node);
const std::vector<JsonNode::Member>& to_object(const JsonNode& node);

// The member of an object that must have it.
const JsonNode& member(const JsonNode& node, std::string_view key);

}  // namespace hlite::config
