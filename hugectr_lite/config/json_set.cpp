// --set PATH=VALUE: one change to a parsed config. PATH= removes a key.
#include <algorithm>
#include <utility>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::config {
namespace {

constexpr size_t kListedNames = 20;

// One step of a path: `.word`, or `[word]`, which must be an index.
struct Segment {
  std::string word;
  bool bracket = false;
};

[[noreturn]] void fail_path(std::string_view path, std::string_view message) {
  raise<ConfigError>("--set {}: {}", path, message);
}

// "layers[0].source" -> layers, [0], source.
std::vector<Segment> split(std::string_view path) {
  std::vector<Segment> segments;
  size_t at = 0;
  while (at < path.size()) {
    const bool bracket = path[at] == '[';
    if (!segments.empty() && !bracket) {
      if (path[at] != '.') fail_path(path, "expected '.' or '[' after ']'");
      ++at;
    }
    if (bracket) ++at;
    const size_t end = std::min(path.find_first_of(bracket ? "]" : ".[", at), path.size());
    if (end == at) fail_path(path, "expected a name between the dots, found nothing");
    if (bracket && end == path.size()) fail_path(path, "expected ']', found the end of the path");
    segments.push_back({std::string(path.substr(at, end - at)), bracket});
    at = bracket ? end + 1 : end;
    if (at + 1 == path.size() && path[at] == '.') {
      fail_path(path, "expected a name after the last dot, found nothing");
    }
  }
  if (segments.size() > kMaxJsonDepth) {
    fail_path(path,
              fmt::format("expected at most {} steps, found {}", kMaxJsonDepth, segments.size()));
  }
  return segments;
}

std::string element_name(const JsonNode& element) {
  const JsonNode* name = element.find("name");
  return name != nullptr && name->kind() == JsonNode::Kind::kString ? name->string() : "";
}

// The element of `list` that the segment means.
size_t find_element(const JsonNode& list, const Segment& segment, std::string_view path) {
  const auto& elements = list.elements();
  if (!segment.bracket) {
    for (size_t i = 0; i < elements.size(); ++i) {
      if (element_name(elements[i]) == segment.word) return i;
    }
  }
  const auto index = parse_number<size_t>(segment.word);
  if (index && *index < elements.size()) return *index;

  std::string names;
  for (size_t i = 0; i < std::min(elements.size(), kListedNames); ++i) {
    const std::string name = element_name(elements[i]);
    if (!name.empty()) names += (names.empty() ? "" : ", ") + name;
  }
  fail_path(path, fmt::format("{}: expected an index below {}{}{}, found \"{}\"", list.path(),
                              elements.size(), names.empty() ? "" : " or a name of ", names,
                              segment.word));
}

size_t depth(const JsonNode& node) {
  size_t below = 0;
  for (const JsonNode& element : node.elements()) below = std::max(below, depth(element));
  for (const auto& member : node.members()) below = std::max(below, depth(member.second));
  const bool nests =
      node.kind() == JsonNode::Kind::kArray || node.kind() == JsonNode::Kind::kObject;
  return below + (nests ? 1 : 0);
}

}  // namespace

// The member or element that a segment means; null: the object has no such member.
JsonNode* JsonNode::child(std::string_view word, bool bracket, std::string_view path) {
  if (kind_ == Kind::kArray)
    return &elements_[find_element(*this, {std::string(word), bracket}, path)];
  if (kind_ != Kind::kObject || bracket)
    fail_path(path, fmt::format("{}: expected {} to look up \"{}\" in, found {}", path_,
                                bracket ? "a list" : "an object or a list", word, found()));
  for (Member& member : members_)
    if (member.first == word) return &member.second;
  return nullptr;
}

void JsonNode::remove(std::string_view path) {
  std::vector<Segment> segments = split(path);
  const Segment last = segments.back();
  segments.pop_back();
  JsonNode* node = this;
  for (const Segment& segment : segments)
    if (node = node->child(segment.word, segment.bracket, path); !node)
      fail_path(path,
                fmt::format("expected the path of a key to remove, found no \"{}\"", segment.word));
  const JsonNode* const gone = node->child(last.word, last.bracket, path);
  if (!gone)
    fail_path(path,
              fmt::format("expected the path of a key to remove, found no \"{}\"", last.word));
  if (node->kind_ == Kind::kArray)
    fail_path(path, "expected the path of a key to remove, found that of a list's element");
  std::erase_if(node->members_, [&](const Member& member) { return &member.second == gone; });
}

void JsonNode::set(std::string_view path_equals_value) {
  const size_t equals = path_equals_value.find('=');
  if (equals == 0 || equals == std::string_view::npos) {
    raise<ConfigError>("--set: expected PATH=VALUE, found \"{}\"", path_equals_value);
  }
  const std::string_view path = path_equals_value.substr(0, equals);
  const std::string text(path_equals_value.substr(equals + 1));
  if (text.empty()) return remove(path);
  const std::string where = fmt::format("--set {}", path);

  JsonNode value;
  try {
    value = parse(text, where);
  } catch (const ConfigError&) {
    // A bare word is a string; what starts like a list, object or string is a slip.
    if (!text.empty() && std::string_view("[{\"").find(text[0]) != std::string_view::npos) throw;
    value.kind_ = Kind::kString;
    value.string_ = text;
  }
  const std::vector<Segment> segments = split(path);
  if (segments.size() + depth(value) > kMaxJsonDepth) {
    fail_path(path, fmt::format("expected at most {} nested levels", kMaxJsonDepth));
  }

  JsonNode* node = this;
  for (const Segment& segment : segments) {
    if (JsonNode* const found = node->child(segment.word, segment.bracket, path)) {
      node = found;
      continue;
    }
    JsonNode created;
    created.kind_ = Kind::kObject;
    created.relocate(member_path(node->path_, segment.word), where);
    node = &node->members_.emplace_back(segment.word, std::move(created)).second;
  }
  value.relocate(node->path_, where);
  *node = std::move(value);
}

void JsonNode::add_members(JsonNode other) {
  for (const JsonNode* node : {static_cast<const JsonNode*>(this), &std::as_const(other)})
    if (node->kind_ != Kind::kObject) fail_expected(*node, "an object");
  for (Member& member : other.members_) {
    if (const JsonNode* const mine = find(member.first))
      fail_at(member.second,
              fmt::format("expected it in one file, found it at {} too", mine->where()));
    members_.push_back(std::move(member));
  }
}

}  // namespace hlite::config
