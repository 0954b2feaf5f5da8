#include "hugectr_lite/config/json_node.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

namespace hlite::config {
namespace {

// Characters (not bytes) of a string that found() shows.
constexpr size_t kShownCharacters = 40;

// A JSON string literal; `limit` cuts it after that many characters (UTF-8 stays whole).
std::string quoted(std::string_view text, size_t limit = std::string_view::npos) {
  std::string out = "\"";
  size_t characters = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) != 0x80 && characters++ == limit) return out + "...\"";
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Shortest text that reads back as the same double and stays a real number.
std::string real_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// What stands after each element but the last, and after each key.
struct Spacing {
  const char *comma, *colon;
};

void append_json(const JsonNode& node, const Spacing& spacing, std::string& out) {
  switch (node.kind()) {
    case JsonNode::Kind::kNull:
      out += "null";
      break;
    case JsonNode::Kind::kBool:
      out += node.boolean() ? "true" : "false";
      break;
    case JsonNode::Kind::kInteger:
      out += fmt::format("{}", node.integer());
      break;
    case JsonNode::Kind::kReal:
      out += real_text(node.number());
      break;
    case JsonNode::Kind::kString:
      out += quoted(node.string());
      break;
    case JsonNode::Kind::kArray: {
      const char* separator = "[";
      for (const JsonNode& element : node.elements()) {
        out += separator;
        append_json(element, spacing, out);
        separator = spacing.comma;
      }
      out += node.elements().empty() ? "[]" : "]";
      break;
    }
    case JsonNode::Kind::kObject: {
      const char* separator = "{";
      for (const auto& [key, value] : node.members()) {
        (out += separator) += quoted(key);
        out += spacing.colon;
        append_json(value, spacing, out);
        separator = spacing.comma;
      }
      out += node.members().empty() ? "{}" : "}";
      break;
    }
  }
}

// On one line where all of it fits behind `out`'s last line, with `after` characters to follow.
void append_lines(const JsonNode& node, size_t indent, size_t after, std::string& out) {
  constexpr size_t kColumns = 100;
  std::string line;
  append_json(node, {", ", ": "}, line);
  const size_t column = out.size() - (out.rfind('\n') + 1);  // npos + 1 is 0
  const bool list = node.kind() == JsonNode::Kind::kArray;
  const size_t count = list ? node.elements().size() : node.members().size();
  if (count == 0 || (indent > 0 && column + line.size() + after <= kColumns)) {
    out += line;
    return;
  }
  const std::string next = '\n' + std::string(indent + 2, ' ');
  out += list ? '[' : '{';
  for (size_t i = 0; i < count; ++i) {
    out += next;
    if (!list) out += quoted(node.members()[i].first) + ": ";
    append_lines(list ? node.elements()[i] : node.members()[i].second, indent + 2, 1, out);
    if (i + 1 < count) out += ',';
  }
  (out += '\n') += std::string(indent, ' ');
  out += list ? ']' : '}';
}

// Levenshtein distance, one row of the table at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

const JsonNode* JsonNode::find(std::string_view key) const {
  for (const auto& [name, value] : members_) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string JsonNode::found() const {
  switch (kind_) {
    case Kind::kObject:
      return "an object";
    case Kind::kArray:
      return elements_.empty() ? "an empty list" : fmt::format("a list of {}", elements_.size());
    case Kind::kString:
      return quoted(string_, kShownCharacters);
    default:
      return dump();
  }
}

std::string JsonNode::dump() const {
  std::string out;
  append_json(*this, {",", ":"}, out);
  return out;
}

std::string JsonNode::text() const {
  std::string out;
  append_lines(*this, 0, 0, out);
  return out + '\n';
}

void JsonNode::relocate(const std::string& path, const std::string& where) {
  path_ = path;
  where_ = where;
  for (size_t i = 0; i < elements_.size(); ++i) {
    elements_[i].relocate(fmt::format("{}[{}]", path, i), where);
  }
  for (auto& [key, value] : members_) value.relocate(member_path(path, key), where);
}

std::string member_path(const std::string& path, std::string_view key) {
  const bool plain = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  if (!plain) return fmt::format("{}[{}]", path, quoted(key, kShownCharacters));
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

void fail_expected(const JsonNode& node, std::string_view expected) {
  fail_at(node, fmt::format("expected {}, found {}", expected, node.found()));
}

void fail_at(const JsonNode& node, std::string_view message) {
  if (node.path().empty()) raise<ConfigError>("{}: {}", node.where(), message);
  raise<ConfigError>("{}: {}: {}", node.where(), node.path(), message);
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  const size_t limit = (word.size() + 2) / 3;
  std::string best;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    // The lengths alone bound the distance from below; very long words are not worth the table.
    const size_t shorter = std::min(word.size(), candidate.size());
    const size_t longer = std::max(word.size(), candidate.size());
    if (longer - shorter >= best_distance || longer > 256) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace hlite::config
