// JSON text -> JsonNode. The grammar is nlohmann's SAX parser; this file adds what it lacks: where
// each value starts, duplicate keys, and messages with expected and found.
//
// Events do not say where their token started, and numbers are reported one character late. So the
// builder remembers where the previous token ended (done_) and, on each event, walks over blanks,
// comments and the one separator that may stand there: that is where the new token starts.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/utf8.h"

namespace hlite::config {
// Named, not anonymous: JsonNode's friend below has members of these types.
namespace parsing {

constexpr size_t kShownBytes = 40;

// Position that nlohmann's lexer has read up to. `hit_end`: it asked for a character after the
// last one.
struct Cursor {
  std::string_view text;
  size_t consumed = 0;
  bool hit_end = false;
};

// Iterates over Cursor::text and records the progress there; without a cursor it is the end.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit CountingIterator(Cursor* cursor = nullptr) : cursor_(cursor) {}
  reference operator*() const { return cursor_->text[cursor_->consumed]; }
  CountingIterator& operator++() {
    ++cursor_->consumed;
    return *this;
  }
  bool operator==(const CountingIterator& end) const {
    if (cursor_ == end.cursor_) return true;
    if (cursor_->consumed == cursor_->text.size()) cursor_->hit_end = true;
    return cursor_->hit_end;
  }
  bool operator!=(const CountingIterator& end) const { return !(*this == end); }

 private:
  Cursor* cursor_;
};

// Says what may follow a token: a separator (or a closing bracket) and then something, or, without
// a separator, something at once.
struct Expectation {
  char separator;
  const char* at_separator;
  const char* text_after;
};
constexpr Expectation kAtStart{0, "", "a value"};
constexpr Expectation kAfterRoot{0, "", "the end of the text"};
constexpr Expectation kAfterOpenObject{0, "", "a key or '}'"};
constexpr Expectation kAfterOpenList{0, "", "a value or ']'"};
constexpr Expectation kAfterKey{':', "':'", "a value"};
constexpr Expectation kAfterMember{',', "',' or '}'", "a key"};
constexpr Expectation kAfterElement{',', "',' or ']'", "a value"};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '+' || c == '-';
}

}  // namespace parsing

using namespace parsing;

class JsonBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonBuilder(std::string_view text, const std::string& name) : name_(name) {
    cursor_.text = text;
    // A byte-order mark stands before the first token.
    if (text.substr(0, 3) == "\xEF\xBB\xBF") done_ = line_start_ = counted_ = 3;
  }

  JsonNode build() {
    check_encoding();
    nlohmann::json::sax_parse(CountingIterator(&cursor_), CountingIterator(), this,
                              nlohmann::json::input_format_t::json, /*strict=*/true,
                              /*ignore_comments=*/true);
    return std::move(root_);
  }

  bool null() override {
    add(JsonNode::Kind::kNull);
    return end_value();
  }
  bool boolean(bool value) override {
    add(JsonNode::Kind::kBool).boolean_ = value;
    return end_value();
  }
  bool number_integer(number_integer_t value) override {
    add(JsonNode::Kind::kInteger).integer_ = value;
    return end_number();
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) fail_integer();
    return number_integer(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    // nlohmann turns integers too long for 64 bits into floats.
    if (text.find_first_of(".eE") == std::string::npos) fail_integer();
    add(JsonNode::Kind::kReal).real_ = value;
    return end_number();
  }
  bool string(string_t& value) override {
    add(JsonNode::Kind::kString).string_ = std::move(value);
    return end_value();
  }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool start_object(std::size_t) override { return open(JsonNode::Kind::kObject); }
  bool start_array(std::size_t) override { return open(JsonNode::Kind::kArray); }
  bool end_object() override {
    open_.pop_back();
    keys_.pop_back();
    return end_value();
  }
  bool end_array() override { return end_object(); }

  bool key(string_t& key) override {
    const JsonNode& object = *open_.back();
    const size_t start = token().start;
    if (!keys_.back().insert(key).second) {
      const JsonNode* first = object.find(key);
      fail(start, fmt::format("{}: expected each key once, found it again (first: {})",
                              first->path(), first->where()));
    }
    key_ = std::move(key);
    done_ = cursor_.consumed;
    next_ = kAfterKey;
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    const auto [start, expected] = token();
    if (error.id == kNumberOverflow) {
      fail_expected_at(start, "a number in the range of a double", shown(start));
    }
    const bool string_allowed = expected == next_.text_after && next_.text_after[0] == 'a';
    if (string_allowed && start < cursor_.text.size() && cursor_.text[start] == '"') {
      fail_string(start, expected);
    }
    fail_expected_at(start, expected, shown(start));
  }

 private:
  struct Token {
    size_t start;
    const char* expected;  // what may stand there
  };

  // The token after done_.
  [[nodiscard]] Token token() const {
    size_t at = skip_blank(done_);
    if (next_.separator == 0) return {at, next_.text_after};
    if (at == cursor_.text.size() || cursor_.text[at] != next_.separator) {
      return {at, next_.at_separator};
    }
    return {skip_blank(at + 1), next_.text_after};
  }

  [[nodiscard]] size_t skip_blank(size_t at) const {
    const std::string_view text = cursor_.text;
    for (;;) {
      at = std::min(text.find_first_not_of(" \t\r\n", at), text.size());
      size_t end = std::string_view::npos;
      if (text.substr(at, 2) == "//") {
        end = std::min(text.find_first_of("\r\n", at), text.size());
      } else if (text.substr(at, 2) == "/*") {
        end = text.find("*/", at + 2);
        if (end != std::string_view::npos) end += 2;
      }
      if (end == std::string_view::npos) return at;
      at = end;
    }
  }

  // A new value in the innermost open list or object.
  JsonNode& add(JsonNode::Kind kind) {
    const size_t start = token().start;
    JsonNode* node = &root_;
    if (!open_.empty() && open_.back()->kind_ == JsonNode::Kind::kArray) {
      auto& elements = open_.back()->elements_;
      node = &elements.emplace_back();
      node->path_ = fmt::format("{}[{}]", open_.back()->path_, elements.size() - 1);
    } else if (!open_.empty()) {
      node = &open_.back()->members_.emplace_back(key_, JsonNode()).second;
      node->path_ = member_path(open_.back()->path_, key_);
    }
    node->kind_ = kind;
    node->where_ = fmt::format("{}:{}", name_, line_of(start));
    return *node;
  }

  bool open(JsonNode::Kind kind) {
    if (open_.size() == kMaxJsonDepth) {
      fail_expected_at(token().start, fmt::format("at most {} nested levels", kMaxJsonDepth),
                       "one more");
    }
    open_.push_back(&add(kind));
    keys_.emplace_back();
    done_ = cursor_.consumed;
    next_ = kind == JsonNode::Kind::kArray ? kAfterOpenList : kAfterOpenObject;
    return true;
  }

  bool end_value() {
    done_ = cursor_.consumed;
    if (open_.empty()) {
      next_ = kAfterRoot;
    } else {
      next_ = open_.back()->kind_ == JsonNode::Kind::kArray ? kAfterElement : kAfterMember;
    }
    return true;
  }

  // The lexer sees the end of a number only by reading the character after it.
  bool end_number() {
    end_value();
    if (!cursor_.hit_end) --done_;
    return true;
  }

  // Line (from 1) of text[offset]. Offsets must not decrease from call to call.
  size_t line_of(size_t offset) {
    for (; counted_ < offset; ++counted_) {
      if (cursor_.text[counted_] == '\n') {
        ++line_;
        line_start_ = counted_ + 1;
      }
    }
    return line_;
  }

  [[noreturn]] void fail(size_t offset, const std::string& message) {
    const size_t line = line_of(offset);
    const std::string_view before = cursor_.text.substr(line_start_, offset - line_start_);
    const auto column = 1 + std::count_if(before.begin(), before.end(), [](char c) {
                          return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
                        });
    raise<ConfigError>("{}:{}:{}: {}", name_, line, column, message);
  }
  [[noreturn]] void fail_expected_at(size_t offset, std::string_view expected,
                                     std::string_view found) {
    fail(offset, fmt::format("expected {}, found {}", expected, found));
  }
  [[noreturn]] void fail_integer() {
    const size_t start = token().start;
    fail_expected_at(start, "an integer that fits in 64 bits with its sign", shown(start));
  }

  // A string that the lexer refused: the last character it read is the reason.
  [[noreturn]] void fail_string(size_t start, const char* expected) {
    if (cursor_.hit_end) fail_expected_at(start, expected, "a string without an end");
    const size_t bad = cursor_.consumed - 1;
    const char c = cursor_.text[bad];
    const char* found = "a string with an invalid escape";
    if (c == '\n' || c == '\r') {
      found = "a string with a line break";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      found = "a string with an unescaped control character";
    }
    fail_expected_at(bad, expected, found);
  }

  // The token at `start` for a message.
  [[nodiscard]] std::string shown(size_t start) const {
    const std::string_view text = cursor_.text;
    if (start == text.size()) return "the end of the text";
    if (text.substr(start, 2) == "/*") return "a comment without an end";
    size_t end = start;
    if (text[start] == '"') {
      do {
        end += text[end] == '\\' ? 2 : 1;
      } while (end < text.size() && text[end] != '"' && text[end] != '\n');
      end = std::min(end, text.size());
      return fmt::format("the string {}\"", cut(start, end));
    }
    while (end < text.size() && is_word(text[end])) ++end;
    if (end == start) end += utf8_length(text, start);
    if (static_cast<unsigned char>(text[start]) < 0x20) return "a control character";
    return fmt::format("'{}'", cut(start, end));
  }
  [[nodiscard]] std::string cut(size_t start, size_t end) const {
    const std::string_view text = cursor_.text;
    if (end - start <= kShownBytes) return std::string(text.substr(start, end - start));
    end = start + kShownBytes;
    while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return std::string(text.substr(start, end - start)) + "...";
  }

  // nlohmann takes a zero byte for the end of the text and does not look inside comments.
  void check_encoding() {
    const std::string_view text = cursor_.text;
    for (size_t at = 0; at < text.size();) {
      const size_t length = utf8_length(text, at);
      if (length == 0 || text[at] == '\0') {
        const auto byte = static_cast<unsigned>(static_cast<unsigned char>(text[at]));
        fail_expected_at(at, "UTF-8 text", fmt::format("the byte 0x{:02X}", byte));
      }
      at += length;
    }
  }

  const std::string& name_;
  Cursor cursor_;
  JsonNode root_;
  // Open lists and objects, outermost first. Pointers stay valid: only the innermost one grows.
  std::vector<JsonNode*> open_;
  std::vector<std::unordered_set<std::string>>
      keys_;         // of each of these, so that many are no matter
  std::string key_;  // of the member to come
  size_t done_ = 0;  // where the last token ended
  Expectation next_ = kAtStart;
  size_t line_ = 1, line_start_ = 0, counted_ = 0;
};

JsonNode JsonNode::parse(std::string_view text, const std::string& name) {
  return JsonBuilder(text, name).build();
}

JsonNode JsonNode::parse_at(std::string_view text, const JsonNode& at) {
  JsonNode node = parse(text, at.where_);
  node.relocate(at.path_, at.where_);
  return node;
}

JsonNode JsonNode::parse_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    raise<ConfigError>("{}: expected a readable JSON file, found a directory", path);
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    raise<ConfigError>("{}: expected a readable JSON file, found: {}", path, std::strerror(errno));
  }
  return parse(text, path);
}

}  // namespace hlite::config
