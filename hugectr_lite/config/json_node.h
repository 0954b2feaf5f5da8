// JsonNode: a parsed JSON value that knows where it came from.
//
// Parsed with nlohmann::json's SAX interface, because a DOM forgets lines and silently keeps the
// last of two equal keys. Comments (// and /* */) are allowed. Objects keep the order of the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hlite::config {

// Nested objects and lists, at most: bounds every recursion over a JsonNode.
constexpr size_t kMaxJsonDepth = 64;

class JsonNode {
 public:
  enum class Kind { kNull, kBool, kInteger, kReal, kString, kArray, kObject };
  using Member = std::pair<std::string, JsonNode>;

  // Throws ConfigError "<name>:<line>:<column>: ..." on bad JSON, duplicate keys, numbers out of
  // the range of int64/double, nesting deeper than 64. `name` stands for the file in every message.
  static JsonNode parse(std::string_view text, const std::string& name);
  // Reads and parses a file; ConfigError when it cannot be read.
  static JsonNode parse_file(const std::string& path);
  // Parses text that the program writes itself; all of it has the place of `at` in the file.
  static JsonNode parse_at(std::string_view text, const JsonNode& at);

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_number() const { return kind_ == Kind::kInteger || kind_ == Kind::kReal; }
  // REQUIRES the matching kind (number() takes both number kinds).
  [[nodiscard]] bool boolean() const { return boolean_; }
  [[nodiscard]] int64_t integer() const { return integer_; }
  [[nodiscard]] double number() const {
    return kind_ == Kind::kInteger ? static_cast<double>(integer_) : real_;
  }
  [[nodiscard]] const std::string& string() const { return string_; }
  [[nodiscard]] const std::vector<JsonNode>& elements() const { return elements_; }
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  // For translations between forms of a config: nodes that are moved keep their places.
  [[nodiscard]] std::vector<JsonNode>& elements() { return elements_; }
  [[nodiscard]] std::vector<Member>& members() { return members_; }
  // Member `key` of an object, null when absent (or when this is no object).
  [[nodiscard]] const JsonNode* find(std::string_view key) const;

  // Path from the root: "layers[3].fc_param.num_output"; "" for the root itself.
  [[nodiscard]] const std::string& path() const { return path_; }
  // "dlrm.json:42", or "--set solver.batchsize" for a value given on the command line.
  [[nodiscard]] const std::string& where() const { return where_; }
  // The value as a person would recognise it, cut short: `"abc"`, `-4`, `an object`, `a list of 3`.
  [[nodiscard]] std::string found() const;
  // Compact JSON text of the whole value (what a checkpoint keeps of its config).
  [[nodiscard]] std::string dump() const;
  // The same for a person: what fits on a line of 100 columns is on one, and all else has a line for
  // each member or element. Ends with a newline. Comments are lost.
  [[nodiscard]] std::string text() const;

  // Applies one `--set PATH=VALUE`. PATH is dotted; list elements by their "name" member or index
  // (`layers.data.source`, `layers[0].source` or `layers.0.source`). VALUE is JSON, else a string.
  // Missing objects on the way are created (one may set `all_reduce.grouped` where there is no
  // all_reduce); a missing list element is an error naming the elements there are. `PATH=` removes
  // a key, which must be there.
  void set(std::string_view path_equals_value);
  // Adds the members of another file's object to this one's; they keep their places. Throws
  // ConfigError if either is no object, or where both have a key.
  void add_members(JsonNode other);

 private:
  friend class JsonBuilder;
  JsonNode* child(std::string_view word, bool bracket, std::string_view path);
  void remove(std::string_view path);
  // Gives this value and everything below it a new place.
  void relocate(const std::string& path, const std::string& where);

  Kind kind_ = Kind::kNull;
  bool boolean_ = false;
  int64_t integer_ = 0;
  double real_ = 0;
  std::string string_;
  std::vector<JsonNode> elements_;
  std::vector<Member> members_;
  std::string path_;
  std::string where_;
};

// Throws ConfigError "<where>: <path>: expected <expected>, found <node.found()>".
[[noreturn]] void fail_expected(const JsonNode& node, std::string_view expected);
// Throws ConfigError "<where>: <path>: <message>".
[[noreturn]] void fail_at(const JsonNode& node, std::string_view message);

// The path of member `key` of the object at `path`.
std::string member_path(const std::string& path, std::string_view key);

// The candidate most like `word` (edit distance at most a third of its length, rounded up), or "".
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace hlite::config
