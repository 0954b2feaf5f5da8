#include "hugectr_lite/config/object_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/log.h"

namespace hlite::config {
namespace {

// "an integer >= 1", "a number in [0, 1]".
template <typename Range>
std::string range_text(const char* kind, const Range& range) {
  const Range whole;
  if (range.min == range.max) return fmt::format("{} = {}", kind, range.min);
  if (range.min != whole.min && range.max != whole.max) {
    return fmt::format("{} in [{}, {}]", kind, range.min, range.max);
  }
  if (range.min != whole.min) return fmt::format("{} >= {}", kind, range.min);
  if (range.max != whole.max) return fmt::format("{} <= {}", kind, range.max);
  return kind;
}

std::string choice_text(const std::vector<std::string>& choices) {
  std::string text = choices.size() > 1 ? "one of " : "";
  for (const std::string& choice : choices) {
    text += fmt::format("{}\"{}\"", &choice == choices.data() ? "" : ", ", choice);
  }
  return text;
}

int64_t to_integer(const JsonNode& node, const IntegerRange& range) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  const double number = node.is_number() ? node.number() : 0.5;
  int64_t value = 0;
  if (node.kind() == JsonNode::Kind::kInteger) {
    value = node.integer();
  } else if (std::floor(number) == number && number >= -kTwoTo63 && number < kTwoTo63) {
    value = static_cast<int64_t>(number);  // 8.0
  } else {
    fail_expected(node, range_text("an integer", range));
  }
  if (value < range.min || value > range.max) fail_expected(node, range_text("an integer", range));
  return value;
}

double to_number(const JsonNode& node, const NumberRange& range) {
  if (!node.is_number() || node.number() < range.min || node.number() > range.max) {
    fail_expected(node, range_text("a number", range));
  }
  return node.number();
}

bool to_boolean(const JsonNode& node) {
  if (node.kind() != JsonNode::Kind::kBool) fail_expected(node, "true or false");
  return node.boolean();
}

const std::string& to_string(const JsonNode& node) {
  if (node.kind() != JsonNode::Kind::kString) fail_expected(node, "a string");
  return node.string();
}

std::string to_choice(const JsonNode& node, const std::vector<std::string>& choices) {
  if (node.kind() != JsonNode::Kind::kString ||
      std::find(choices.begin(), choices.end(), node.string()) == choices.end()) {
    fail_expected(node, choice_text(choices));
  }
  return node.string();
}

std::vector<int64_t> to_integers(const JsonNode& node, const IntegerRange& range) {
  if (node.kind() != JsonNode::Kind::kArray) fail_expected(node, "a list of integers");
  std::vector<int64_t> values;
  values.reserve(node.elements().size());
  for (const JsonNode& element : node.elements()) values.push_back(to_integer(element, range));
  return values;
}

// beta1 and beta2 are one letter apart and still no slip of the keyboard.
bool differ_in_last_digit_only(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return a.size() == b.size() && !a.empty() && is_digit(a.back()) && is_digit(b.back()) &&
         a.substr(0, a.size() - 1) == b.substr(0, b.size() - 1);
}

}  // namespace

ObjectReader::ObjectReader(const JsonNode& node, bool strict) : node_(node), strict_(strict) {
  if (node.kind() != JsonNode::Kind::kObject) fail_expected(node, "an object");
}

const JsonNode* ObjectReader::find(std::string_view key, std::string otherwise) {
  KeyRecord::add(node_.path(), key, std::move(otherwise));
  return find(key);
}

const JsonNode* ObjectReader::find(std::string_view key) {
  accept(key);
  return node_.find(key);
}

const std::vector<JsonNode>& ObjectReader::list_or_empty(std::string_view key) {
  static const std::vector<JsonNode> kNone;
  const JsonNode* node = find(key);
  if (node == nullptr) return kNone;
  if (node->kind() != JsonNode::Kind::kArray) fail_expected(*node, "a list");
  return node->elements();
}

const JsonNode& ObjectReader::require(std::string_view key) {
  if (const JsonNode* found = find(key)) return *found;
  // A slip in a required key shows here before finish() can name it.
  std::vector<std::string> unasked;
  for (const auto& [name, value] : node_.members()) {
    const bool asked = std::find(known_.begin(), known_.end(), name) != known_.end();
    if (!asked && !differ_in_last_digit_only(name, key)) unasked.push_back(name);
  }
  // Close seen from both sides, else a missing "type" would be found in a sound "top".
  const std::string slip = closest(key, unasked);
  if (!slip.empty() && !closest(slip, {std::string(key)}).empty()) {
    fail_at(*node_.find(slip), fmt::format("unknown key; did you mean \"{}\"?", key));
  }
  fail_at(node_, fmt::format("missing key \"{}\"", key));
}

int64_t ObjectReader::integer(std::string_view key, IntegerRange range) {
  return to_integer(require(key), range);
}
double ObjectReader::number(std::string_view key, NumberRange range) {
  return to_number(require(key), range);
}
bool ObjectReader::boolean(std::string_view key) { return to_boolean(require(key)); }
std::string ObjectReader::string(std::string_view key) { return to_string(require(key)); }
std::string ObjectReader::choice(std::string_view key, const std::vector<std::string>& choices) {
  return to_choice(require(key), choices);
}
std::vector<int64_t> ObjectReader::integers(std::string_view key, IntegerRange range) {
  return to_integers(require(key), range);
}

std::vector<std::string> ObjectReader::strings(std::string_view key) {
  const JsonNode& node = require(key);
  if (node.kind() == JsonNode::Kind::kString) return {node.string()};
  if (node.kind() != JsonNode::Kind::kArray) fail_expected(node, "a string or a list of strings");
  std::vector<std::string> values;
  values.reserve(node.elements().size());
  for (const JsonNode& element : node.elements()) values.push_back(to_string(element));
  return values;
}

const JsonNode& ObjectReader::member(std::string_view key) { return require(key); }
ObjectReader ObjectReader::object(std::string_view key) {
  return ObjectReader(require(key), strict_);
}

int64_t ObjectReader::integer_or(std::string_view key, int64_t otherwise, IntegerRange range) {
  const JsonNode* node = find(key, std::to_string(otherwise));
  return node != nullptr ? to_integer(*node, range) : otherwise;
}
double ObjectReader::number_or(std::string_view key, double otherwise, NumberRange range) {
  const JsonNode* node = find(key, fmt::format("{}", otherwise));
  return node != nullptr ? to_number(*node, range) : otherwise;
}
bool ObjectReader::boolean_or(std::string_view key, bool otherwise) {
  const JsonNode* node = find(key, otherwise ? "true" : "false");
  return node != nullptr ? to_boolean(*node) : otherwise;
}
std::string ObjectReader::string_or(std::string_view key, const std::string& otherwise) {
  const JsonNode* node = find(key, fmt::format("\"{}\"", otherwise));
  return node != nullptr ? to_string(*node) : otherwise;
}
std::string ObjectReader::choice_or(std::string_view key, const std::string& otherwise,
                                    const std::vector<std::string>& choices) {
  const JsonNode* node = find(key, fmt::format("\"{}\"", otherwise));
  return node != nullptr ? to_choice(*node, choices) : otherwise;
}
std::vector<int64_t> ObjectReader::integers_or(std::string_view key, std::vector<int64_t> otherwise,
                                               IntegerRange range) {
  const JsonNode* node = find(key, fmt::format("[{}]", fmt::join(otherwise, ", ")));
  return node != nullptr ? to_integers(*node, range) : std::move(otherwise);
}

void ObjectReader::accept(std::string_view key) {
  KeyRecord::add(node_.path(), key);
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
}

void ObjectReader::unsupported(std::string_view key, std::string_view why) {
  KeyRecord::add_refused(node_.path(), key, why);
  if (const JsonNode* node = node_.find(key)) {
    fail_at(*node, fmt::format("known but not supported: {}", why));
  }
}

void ObjectReader::finish() {
  std::string report;
  for (const auto& [key, value] : node_.members()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    std::string line = fmt::format("{}: {}: unknown key; ", value.where(), value.path());
    if (const std::string like = closest(key, known_); !like.empty()) {
      line += fmt::format("did you mean \"{}\"?", like);
    } else {
      std::vector<std::string> names = known_;
      std::sort(names.begin(), names.end());
      line += fmt::format("known keys: {}", fmt::join(names, ", "));
    }
    if (strict_) {
      report += (report.empty() ? "" : "\n") + line;
    } else {
      log::warning("{}", line);
    }
  }
  if (!report.empty()) throw ConfigError(report);
}

}  // namespace hlite::config
