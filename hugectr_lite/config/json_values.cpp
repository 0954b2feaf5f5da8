#include "hugectr_lite/config/json_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hlite::config {

using Kind = JsonNode::Kind;

std::string range_text(const IntegerRange& range) {
  const IntegerRange whole;
  if (range.min == range.max) return fmt::format("an integer = {}", range.min);
  if (range.min != whole.min && range.max != whole.max)
    return fmt::format("an integer in [{}, {}]", range.min, range.max);
  if (range.min != whole.min) return fmt::format("an integer >= {}", range.min);
  if (range.max != whole.max) return fmt::format("an integer <= {}", range.max);
  return "an integer";
}

std::string range_text(const NumberRange& range) {
  const bool above = std::isfinite(range.min), below = std::isfinite(range.max);
  if (above && below && range.without_min && range.without_max)
    return fmt::format("a number between {} and {}", range.min, range.max);
  if (above && below)
    return fmt::format("a number in {}{}, {}{}", range.without_min ? '(' : '[', range.min,
                       range.max, range.without_max ? ')' : ']');
  if (above) return fmt::format("a number {} {}", range.without_min ? ">" : ">=", range.min);
  if (below) return fmt::format("a number {} {}", range.without_max ? "<" : "<=", range.max);
  return "a number";
}

std::string choice_text(const std::vector<std::string>& choices) {
  return fmt::format("{}\"{}\"", choices.size() > 1 ? "one of " : "", fmt::join(choices, "\", \""));
}

int64_t to_integer(const JsonNode& node, const IntegerRange& range) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  const double number = node.is_number() ? node.number() : 0.5;
  int64_t value = 0;
  if (node.kind() == Kind::kInteger) {
    value = node.integer();
  } else if (std::floor(number) == number && number >= -kTwoTo63 && number < kTwoTo63) {
    value = static_cast<int64_t>(number);  // 8.0
  } else {
    fail_expected(node, range_text(range));
  }
  if (value < range.min || value > range.max) fail_expected(node, range_text(range));
  return value;
}

double to_number(const JsonNode& node, const NumberRange& range) {
  const double value = node.is_number() ? node.number() : std::nan("");
  if (!(range.without_min ? value > range.min : value >= range.min) ||
      !(range.without_max ? value < range.max : value <= range.max))
    fail_expected(node, range_text(range));
  return value;
}

bool to_boolean(const JsonNode& node) {
  if (node.kind() != Kind::kBool) fail_expected(node, "true or false");
  return node.boolean();
}

std::string to_string(const JsonNode& node) {
  if (node.kind() != Kind::kString) fail_expected(node, "a string");
  return node.string();
}

std::string to_name(const JsonNode& node) {
  if (node.kind() != Kind::kString || node.string().empty())
    fail_expected(node, "a non-empty string");
  return node.string();
}

std::string to_choice(const JsonNode& node, const std::vector<std::string>& choices) {
  if (node.kind() != Kind::kString ||
      std::find(choices.begin(), choices.end(), node.string()) == choices.end())
    fail_expected(node, choice_text(choices));
  return node.string();
}

std::vector<int64_t> to_integers(const JsonNode& node, const IntegerRange& range) {
  if (node.kind() != Kind::kArray) fail_expected(node, "a list of integers");
  std::vector<int64_t> values;
  values.reserve(node.elements().size());
  for (const JsonNode& element : node.elements()) values.push_back(to_integer(element, range));
  return values;
}

std::vector<std::string> to_strings(const JsonNode& node) {
  if (node.kind() == Kind::kString) return {node.string()};
  if (node.kind() != Kind::kArray) fail_expected(node, "a string or a list of strings");
  std::vector<std::string> values;
  values.reserve(node.elements().size());
  for (const JsonNode& element : node.elements()) values.push_back(to_string(element));
  return values;
}

const std::vector<JsonNode>& to_list(const JsonNode& node) {
  if (node.kind() != Kind::kArray) fail_expected(node, "a list");
  return node.elements();
}

const std::vector<JsonNode::Member>& to_object(const JsonNode& node) {
  if (node.kind() != Kind::kObject) fail_expected(node, "an object");
  return node.members();
}

const JsonNode& member(const JsonNode& node, std::string_view key) {
  to_object(node);
  const JsonNode* found = node.find(key);
  if (!found) fail_at(node, fmt::format("missing key \"{}\"", key));
  return *found;
}

}  // namespace hlite::config
