#include "hugectr_lite/config/block.h"

#include <algorithm>

#include "hugectr_lite/core/log.h"

namespace hlite::config {
namespace {

template <typename Range>
std::string json_of(const char* type, const Range& range, bool without_min, bool without_max) {
  const Range whole;
  std::string json = fmt::format("\"type\":\"{}\"", type);
  if (range.min != whole.min)
    json += fmt::format(",\"{}inimum\":{}", without_min ? "exclusiveM" : "m", range.min);
  if (range.max != whole.max)
    json += fmt::format(",\"{}aximum\":{}", without_max ? "exclusiveM" : "m", range.max);
  return json;
}
std::string json_of(const IntegerRange& range) { return json_of("integer", range, false, false); }
std::string json_of(const NumberRange& range) {
  return json_of("number", range, range.without_min, range.without_max);
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Block::Block(const JsonNode& node, bool strict, Problems& problems, bool others)
    : node_(&node),
      problems_(&problems),
      strict_(strict),
      others_(others),
      problems_before_(problems.size()) {
  if (node.kind() == JsonNode::Kind::kObject) return;
  problems.collect([&] { fail_expected(node, "an object"); });
  node_ = nullptr;
}

Block::~Block() {
  if (std::uncaught_exceptions() == exceptions_) finish();
}

void Block::finish() {
  if (!node_ || finished_) return;
  finished_ = true;
  for (const auto& [key, value] : node_->members()) {
    if (contains(known_, key)) continue;
    const std::string like = closest(key, known_);
    const bool slip = contains(missing_, like);  // of a required key's name
    std::erase(missing_, like);
    if (others_ && !slip) continue;
    std::vector<std::string> names = known_;
    std::sort(names.begin(), names.end());
    const std::string message =
        like.empty() ? fmt::format("unknown key; known keys: {}", fmt::join(names, ", "))
                     : fmt::format("unknown key; did you mean \"{}\"?", like);
    if (strict_ || slip)
      problems_->add(value, message);
    else
      log::warning("{}: {}: {}", value.where(), value.path(), message);
  }
  for (const std::string& key : missing_)
    problems_->add(*node_, fmt::format("missing key \"{}\"", key));
}

void Block::about(std::string_view text) {
  if (schema_) schema_->text = text;
}

const JsonNode* Block::find(const char* key, const Takes& takes, const Said& said,
                            std::shared_ptr<BlockSchema> block) {
  const Need& need = said.need;
  if (schema_)
    schema_->keys.push_back({key,
                             takes.text,
                             takes.json,
                             said.meaning,
                             need.required || *need.otherwise != '\0' ? "" : said.otherwise,
                             need.otherwise,
                             need.required,
                             need.variant,
                             std::move(block),
                             {}});
  if (!node_) return nullptr;
  known_.emplace_back(key);
  const JsonNode* found = node_->find(key);
  if (!found && need.required) missing_.emplace_back(key);
  return found;
}

bool Block::read_integer(const char* key, int64_t* value, const IntegerRange& range,
                         const Said& said) {
  const JsonNode* found = find(key, {range_text(range), json_of(range)}, said);
  return found && problems_->collect([&] { *value = to_integer(*found, range); });
}

bool Block::read_number(const char* key, double* value, const NumberRange& range,
                        const Said& said) {
  const JsonNode* found = find(key, {range_text(range), json_of(range)}, said);
  return found && problems_->collect([&] { *value = to_number(*found, range); });
}

bool Block::read_boolean(const char* key, bool* value, const Said& said) {
  const JsonNode* found = find(key, {"true or false", R"("type":"boolean")"}, said);
  return found && problems_->collect([&] { *value = to_boolean(*found); });
}

bool Block::read_choice(const char* key, std::string* value,
                        const std::vector<std::string>& choices, const Said& said) {
  const Takes takes{choice_text(choices),
                    fmt::format("\"enum\":[\"{}\"]", fmt::join(choices, "\",\""))};
  const JsonNode* found = find(key, takes, said);
  return found && problems_->collect([&] { *value = to_choice(*found, choices); });
}

static std::string quoted(const std::string& text) {
  return text.empty() ? "" : fmt::format("\"{}\"", text);
}

bool Block::text(const char* key, std::string* field, const char* meaning, const Need& need) {
  const JsonNode* found =
      find(key, {"a string", R"("type":"string")"}, {meaning, quoted(*field), need});
  return found && problems_->collect([&] { *field = to_string(*found); });
}

bool Block::name(const char* key, std::string* field, const char* meaning, const Need& need) {
  const JsonNode* found = find(key, {"a non-empty string", R"("type":"string","minLength":1)"},
                               {meaning, quoted(*field), need});
  return found && problems_->collect([&] { *field = to_name(*found); });
}

bool Block::integers(const char* key, std::vector<int64_t>* field, const IntegerRange& range,
                     const char* meaning, const Need& need) {
  const JsonNode* found = find(key,
                               {"a list of integers; each " + range_text(range),
                                fmt::format(R"("type":"array","items":{{{}}})", json_of(range))},
                               {meaning, "", need});
  return found && problems_->collect([&] { *field = to_integers(*found, range); });
}

bool Block::strings(const char* key, std::vector<std::string>* field, const char* meaning,
                    const Need& need) {
  const JsonNode* found = find(
      key,
      {"a string or a list of strings", R"("type":["string","array"],"items":{"type":"string"})"},
      {meaning, "", need});
  return found && problems_->collect([&] { *field = to_strings(*found); });
}

std::optional<Block> Block::object(const char* key, const char* meaning, const Need& need) {
  const auto inner = schema_ ? std::make_shared<BlockSchema>() : nullptr;
  const JsonNode* found = find(key, {"an object", ""}, {meaning, "", need}, inner);
  if (inner) return std::optional<Block>(std::in_place, *inner);
  if (!found) return std::nullopt;
  if (!problems_->collect([&] { to_object(*found); })) return std::nullopt;
  return std::optional<Block>(std::in_place, *found, strict_, *problems_, others_);
}

std::optional<Block> Block::object_or(const char* key, const char* word, bool* is_word,
                                      const char* meaning) {
  const auto inner = schema_ ? std::make_shared<BlockSchema>() : nullptr;
  const std::string takes = fmt::format("\"{}\" or an object", word);
  const JsonNode* found = find(key, {takes, ""}, {meaning, "", {}}, inner);
  if (inner) {
    schema_->keys.back().word = word;
    return std::optional<Block>(std::in_place, *inner);
  }
  if (!found) return std::nullopt;
  *is_word = found->kind() == JsonNode::Kind::kString && found->string() == word;
  if (*is_word) return std::nullopt;
  const bool read = problems_->collect([&] {
    if (found->kind() != JsonNode::Kind::kObject) fail_expected(*found, takes);
  });
  if (!read) return std::nullopt;
  return std::optional<Block>(std::in_place, *found, strict_, *problems_, others_);
}

const JsonNode* Block::find_list(const char* key, const char* takes, const Said& said,
                                 BlockSchema** of_each) {
  const auto inner = schema_ ? std::make_shared<BlockSchema>() : nullptr;
  *of_each = inner.get();  // which the schema owns
  const JsonNode* found = find(key, {takes, R"("type":"array","minItems":1)"}, said, inner);
  if (found && (found->kind() != JsonNode::Kind::kArray || found->elements().empty())) {
    problems_->collect([&] { fail_expected(*found, takes); });
    return nullptr;
  }
  return found;
}

void Block::accept(const char* key, const char* meaning) {
  find(key, {"anything", ""}, {meaning, "", {}});
}

void Block::unsupported(const char* key, const char* instead) {
  if (schema_) schema_->refused.emplace_back(key, instead);
  if (!has(key)) return;
  problems_->add(*node_->find(key), fmt::format("known but not supported: {}", instead));
  known_.emplace_back(key);
}

const JsonNode& Block::at(std::string_view key) const {
  const JsonNode* found = node_->find(key);
  return found ? *found : *node_;
}

void Block::refuse(std::string_view key, std::string_view message) {
  if (node_) problems_->add(at(key), message);
}

void Block::expected(std::string_view key, std::string_view expected) {
  if (node_) problems_->collect([&] { fail_expected(at(key), expected); });
}

void Block::missing(const char* key) {
  if (node_ && !has(key)) missing_.emplace_back(key);
}

}  // namespace hlite::config
