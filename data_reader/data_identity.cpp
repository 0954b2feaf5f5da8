#include "data_reader/data_identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::data {

namespace {

using config::Block;
using config::JsonNode;
using nlohmann::ordered_json;
using IdentityPart = DataIdentity::IdentityPart;
using Parts = std::vector<IdentityPart>;

constexpr const char* kVocabulary = "vocabulary";
constexpr const char* kTransform = "transform";
constexpr const char* kValue = "value";
constexpr size_t kNamesShown = 5;

std::string some_of(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  const size_t shown = std::min(names.size(), kNamesShown);
  const std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

std::vector<std::string> names_of(const Parts& parts) {
  std::vector<std::string> names;
  for (const IdentityPart& part : parts) names.push_back(part.name);
  return names;
}

// Describes how the names differ, or the values of parts with the same names.
std::string difference_of(const char* what, const char* value, const Parts& a, const Parts& b) {
  const std::vector<std::string> left = names_of(a), right = names_of(b);
  if (left != right) {
    // The common prefix and suffix do not help the reader.
    const auto at = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
    std::vector<std::string> there(at.first, left.end()), here(at.second, right.end());
    const auto from = at.first - left.begin();
    while (!there.empty() && !here.empty() && there.back() == here.back()) {
      there.pop_back();
      here.pop_back();
    }
    const bool permuted = std::is_permutation(left.begin(), left.end(), right.begin(), right.end());
    return permuted ? fmt::format("order of {}s: {}, here {}", what, some_of(there), some_of(here))
                    : fmt::format("{}s: {}, here {} (from number {} on)", what, some_of(there),
                                  some_of(here), from);
  }
  std::vector<std::string> names;
  const IdentityPart *expected = nullptr, *found = nullptr;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].value == b[i].value) continue;
    if (names.empty()) expected = &a[i], found = &b[i];
    names.push_back(a[i].name);
  }
  if (names.empty()) return {};
  std::string text =
      fmt::format("{} of {}{} {}", value, what, names.size() > 1 ? "s" : "", some_of(names));
  // Digits say nothing to a person.
  if (value != kVocabulary || expected->value.find(' ') != std::string::npos)
    text += fmt::format(" ({}{}, here {})", names.size() > 1 ? names[0] + ": " : "",
                        expected->value, found->value);
  return text;
}

}  // namespace

ordered_json parts_json(const Parts& parts, const char* value) {
  auto json = ordered_json::array();
  for (const IdentityPart& part : parts) json.push_back({{"name", part.name}, {value, part.value}});
  return json;
}

void declare_parts(Block& s, const char* key, const char* value, Parts& parts) {
  s.value(key, {}, [&](const JsonNode& list) {
    for (const JsonNode& node : config::to_list(list))
      parts.push_back({.name = config::to_string(config::member(node, "name")),
                       .value = config::to_string(config::member(node, value))});
  });
}

static ordered_json identity_json(const DataIdentity& identity) {
  return {{"slots", parts_json(identity.slots, kVocabulary)},
          {"dense", parts_json(identity.dense, kTransform)},
          {"rules", parts_json(identity.rules, kValue)}};
}

std::string digits_of(const DataIdentity& identity) {
  const std::string text =
      identity_json(identity).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  Checksum sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.sum().digits();
}

bool TrainedOn::continues_from(const DataIdentity& earlier) const {
  return std::find(continues.begin(), continues.end(), digits_of(earlier)) != continues.end();
}

std::string difference(const DataIdentity& expected, const DataIdentity& found) {
  std::string text;
  for (const std::string& part :
       {difference_of("slot", kVocabulary, expected.slots, found.slots),
        difference_of("dense feature", kTransform, expected.dense, found.dense),
        difference_of("rule", kValue, expected.rules, found.rules)})
    if (!part.empty()) text += (text.empty() ? "" : "; ") + part;
  return text;
}

std::string TrainedOn::to_text() const {
  if (!identity.known()) return {};
  ordered_json json = {{"file", {{"name", file}, {"rows", rows}, {"xxh3", xxh3}}}};
  json.update(identity_json(identity));
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

TrainedOn TrainedOn::parse(const std::string& text, const std::string& place) {
  if (text.empty()) return {};
  return config::as_data_error([&] {
    const JsonNode root = JsonNode::parse(text, place);
    TrainedOn on;
    config::read_object(root, [&](Block& s) {
      s.accept_others();
      if (auto file = s.object("file", "", config::kRequired)) {
        file->text("name", &on.file, "", config::kRequired);
        file->integer("rows", &on.rows, {.min = 0}, "", config::kRequired);
        file->text("xxh3", &on.xxh3, "", config::kRequired);
      }
      declare_parts(s, "slots", kVocabulary, on.identity.slots);
      declare_parts(s, "dense", kTransform, on.identity.dense);
      declare_parts(s, "rules", kValue, on.identity.rules);
    });
    return on;
  });
}

void check_same_data(const DataIdentity& expected, const std::string& model,
                     const DataIdentity& found, const std::string& place, OtherData other) {
  if (!expected.known() || !found.known()) return;
  const std::string differs = difference(expected, found);
  if (differs.empty()) return;
  const std::string text =
      fmt::format("{}: expected data prepared as those that {} was trained on, found others: {}",
                  place, model, differs);
  if (other == OtherData::kRefuse)
    raise<DataError>("{} (--allow-other-data goes on with them)", text);
  log::warning("{}", text);
}

}  // namespace hlite::data
