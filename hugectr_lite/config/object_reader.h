// ObjectReader: strict access to the members of a JSON object.
//
// Each getter checks type and range and remembers the key; finish() then reports every key that
// nobody asked for, with a did-you-mean. With "strict": false at the config's top level unknown
// keys become warnings; wrong types and ranges stay errors.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/config/key_record.h"
#include "hugectr_lite/core/error.h"

namespace hlite::config {

// Closed ranges, printed as ">= 1", "in [0, 1]".
struct IntegerRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};
struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

class ObjectReader {
 public:
  // `node` must be an object (else ConfigError) and outlive the reader.
  explicit ObjectReader(const JsonNode& node, bool strict = true);

  [[nodiscard]] const JsonNode& node() const { return node_; }
  [[nodiscard]] bool strict() const { return strict_; }
  // Whether the member is there. Asking makes the key known, as every getter does.
  [[nodiscard]] bool has(std::string_view key) { return find(key) != nullptr; }

  // Required members: ConfigError "missing key ..." when absent.
  int64_t integer(std::string_view key, IntegerRange range = {});
  double number(std::string_view key, NumberRange range = {});
  bool boolean(std::string_view key);
  std::string string(std::string_view key);
  std::string choice(std::string_view key, const std::vector<std::string>& choices);
  std::vector<int64_t> integers(std::string_view key, IntegerRange range = {});
  std::vector<std::string> strings(std::string_view key);  // a string or a list of strings
  // The value that goes with the name; names are listed in messages.
  template <typename Value>
  Value value(std::string_view key, const std::vector<std::pair<std::string, Value>>& choices) {
    require(key);
    return named(key, choices.front().second, choices);
  }
  const JsonNode& member(std::string_view key);  // any type
  ObjectReader object(std::string_view key);

  // Optional members: the default, or nullptr, when absent.
  int64_t integer_or(std::string_view key, int64_t otherwise, IntegerRange range = {});
  double number_or(std::string_view key, double otherwise, NumberRange range = {});
  bool boolean_or(std::string_view key, bool otherwise);
  std::string string_or(std::string_view key, const std::string& otherwise);
  std::string choice_or(std::string_view key, const std::string& otherwise,
                        const std::vector<std::string>& choices);
  template <typename Value>
  Value value_or(std::string_view key, Value otherwise,
                 const std::vector<std::pair<std::string, Value>>& choices) {
    if (KeyRecord::lives())
      for (const auto& [name, value] : choices)
        if (value == otherwise) find(key, fmt::format("\"{}\"", name));
    return named(key, otherwise, choices);
  }
  std::vector<int64_t> integers_or(std::string_view key, std::vector<int64_t> otherwise,
                                   IntegerRange range = {});
  const JsonNode* find(std::string_view key);
  const std::vector<JsonNode>& list_or_empty(std::string_view key);

  // A key of the dialect that needs nothing here (for example `name`, or a GPU tuning knob).
  void accept(std::string_view key);
  // A key of the dialect that this version does not support: an error saying so when present.
  void unsupported(std::string_view key, std::string_view why);
  // Reports the keys that were not asked for. Call it last.
  void finish();

 private:
  const JsonNode& require(std::string_view key);
  template <typename Value>
  Value named(std::string_view key, Value otherwise,
              const std::vector<std::pair<std::string, Value>>& choices) {
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) names.push_back(name);
    const JsonNode* node = find(key);
    const std::string found = node != nullptr ? choice(key, names) : "";
    for (const auto& [name, value] : choices)
      if (name == found) return value;
    return otherwise;
  }
  // `otherwise`, as JSON: what an absent `key` stands for, for a KeyRecord.
  const JsonNode* find(std::string_view key, std::string otherwise);
  const JsonNode& node_;
  bool strict_;
  std::vector<std::string> known_;
};

// For JSON in files of data: a ConfigError of `read` is thrown on as a DataError.
template <typename Read>
auto as_data_error(Read&& read) {
  try {
    return read();
  } catch (const ConfigError& error) {
    throw DataError(error.what());
  }
}

}  // namespace hlite::config
