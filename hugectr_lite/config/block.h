// Block: a JSON object of a config or of a data file, whose keys are declared once.
//
//   s.integer("display", &solver.display, {.min = 0},
//             "Iterations between progress lines; 0 disables them.", kRequired);
//
// A declaration reads and checks the key, and the value that the field has before is the default.
// The same function, run on a Block that describes, adds the key to a BlockSchema, from which the
// reference and the JSON Schema are made. Faults are collected in Problems: a key that is wrong
// leaves its field as it is, and what is declared after it is still checked.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hugectr_lite/config/block_schema.h"
#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/config/problems.h"

namespace hlite::config {

// States whether a key may be absent.
struct Need {
  bool required = false;
  const char* otherwise = "";  // meaning of an absent key, if its field does not show it
  const char* variant = "";    // KeySchema::variant
};
inline constexpr Need kRequired{.required = true};
constexpr Need otherwise(const char* text) { return {.otherwise = text}; }

// The values that a key takes, in words and as members of a JSON Schema ("\"type\":\"string\"").
struct Takes {
  std::string text, json;
};

template <typename Value>
using Choices = std::vector<std::pair<std::string, Value>>;

class Block {
 public:
  // Reads `node`, which must outlive the block. Unknown keys are faults if `strict`, else warnings.
  // `others`: as accept_others().
  Block(const JsonNode& node, bool strict, Problems& problems, bool others = false);
  // Describes the keys in `schema`: reads nothing, and changes no field.
  explicit Block(BlockSchema& schema) : schema_(&schema) {}
  // Reports keys that are missing, and those that were not declared.
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] const JsonNode* node() const { return node_; }  // null if it describes
  [[nodiscard]] bool strict() const { return strict_; }
  void about(std::string_view text);  // Markdown: BlockSchema::text

  // Each returns whether the key is there with a valid value. T: an integer type, a
  // floating-point type, bool or an enumeration, or an optional of it.
  template <typename T>
  bool integer(const char* key, T* field, const IntegerRange& range, const char* meaning = "",
               const Need& need = {}) {
    int64_t value = 0;
    return read_integer(key, &value, range, {meaning, default_of(*field), need}) &&
           assign(field, value);
  }
  template <typename T>
  bool number(const char* key, T* field, const NumberRange& range, const char* meaning = "",
              const Need& need = {}) {
    double value = 0;
    return read_number(key, &value, range, {meaning, default_of(*field), need}) &&
           assign(field, value);
  }
  template <typename T>
  bool boolean(const char* key, T* field, const char* meaning = "", const Need& need = {}) {
    bool value = false;
    return read_boolean(key, &value, {meaning, default_of(*field), need}) && assign(field, value);
  }
  // Sets the field to the value of the name that is found.
  template <typename T>
  bool choice(const char* key, T* field, const Choices<std::type_identity_t<T>>& choices,
              const char* meaning = "", const Need& need = {}) {
    std::vector<std::string> names;
    std::string is;
    for (const auto& [name, value] : choices) {
      names.push_back(name);
      if (*field == value) is = fmt::format("\"{}\"", name);
    }
    std::string found;
    if (!read_choice(key, &found, names, {meaning, is, need})) return false;
    for (const auto& [name, value] : choices)
      if (name == found) *field = value;
    return true;
  }
  bool text(const char* key, std::string* field, const char* meaning = "", const Need& need = {});
  bool name(const char* key, std::string* field, const char* meaning = "", const Need& need = {});
  bool integers(const char* key, std::vector<int64_t>* field, const IntegerRange& range,
                const char* meaning = "", const Need& need = {});
  bool strings(const char* key, std::vector<std::string>* field, const char* meaning = "",
               const Need& need = {});  // a string or a list of strings
  // A value that `read(node)` takes; it throws ConfigError if it does not. Keys of data files,
  // which nothing describes, need no words.
  template <typename Read>
  bool value(const char* key, const Need& need, Read&& read) {
    return value(key, {}, "", need, std::forward<Read>(read));
  }
  template <typename Read>
  bool value(const char* key, const Takes& takes, const char* meaning, const Need& need,
             Read&& read) {
    const JsonNode* found = find(key, takes, {meaning, "", need});
    return found && problems_->collect([&] { read(*found); });
  }
  // An object. Nothing is returned if there is none to read or describe.
  std::optional<Block> object(const char* key, const char* meaning = "", const Need& need = {});
  // An object or `word`, which sets `is_word`. Nothing is returned for the word.
  std::optional<Block> object_or(const char* key, const char* word, bool* is_word,
                                 const char* meaning = "");
  // A list of objects, each declared by `declare(block)`; describes one.
  template <typename Declare>
  bool objects(const char* key, const char* takes, const char* meaning, const Need& need,
               Declare&& declare) {
    BlockSchema* of_each = nullptr;
    const JsonNode* found = find_list(key, takes, {meaning, "", need}, &of_each);
    if (of_each) {
      Block each(*of_each);
      declare(each);
    }
    if (!found) return false;
    for (const JsonNode& element : found->elements()) {
      Block each(element, strict_, *problems_);
      if (each.node_) declare(each);
    }
    return true;
  }
  // Ignores keys that were not declared, also in inner objects: a later version of a data file may
  // have them.
  void accept_others() { others_ = true; }
  // Declares a key of HugeCTR that has no effect here.
  void accept(const char* key, const char* meaning);
  // Refuses a key of another version of HugeCTR; the error says what to do `instead`.
  void unsupported(const char* key, const char* instead);

  // Returns whether the key is there, with any value; false if the block describes.
  [[nodiscard]] bool has(std::string_view key) const { return node_ && node_->find(key); }
  // Returns the node of the key, or the block's if there is none. REQUIRES a block that reads.
  [[nodiscard]] const JsonNode& at(std::string_view key) const;
  // Report faults of keys; they do nothing on a block that describes.
  void refuse(std::string_view key, std::string_view message);     // at the key, else the block
  void expected(std::string_view key, std::string_view expected);  // "expected ..., found ..."
  void missing(const char* key);                                   // a key that other keys require
  // Reports missing and unknown keys now, for checks that would only repeat them. Call it after the
  // last declaration.
  void finish();
  // Checks several keys together: runs `check`, which throws ConfigError for a fault, if the block
  // is being read and has no fault so far.
  template <typename Check>
  void check(Check&& check) {
    if (node_ && (finished_ || missing_.empty()) && problems_->size() == problems_before_)
      problems_->collect(check);
  }

 private:
  struct Said {
    const char* meaning;
    std::string otherwise;  // JSON: the field's value before
    Need need;
  };
  template <typename T>
  static std::string default_of(const std::optional<T>& field) {
    return field ? default_of(*field) : "";
  }
  template <typename T>
  static std::string default_of(const T& field) {
    return fmt::format("{}", field);
  }
  template <typename T, typename Value>
  static bool assign(std::optional<T>* field, Value value) {
    *field = static_cast<T>(value);
    return true;
  }
  template <typename T, typename Value>
  static bool assign(T* field, Value value) {
    *field = static_cast<T>(value);
    return true;
  }

  bool read_integer(const char* key, int64_t* value, const IntegerRange& range, const Said& said);
  bool read_number(const char* key, double* value, const NumberRange& range, const Said& said);
  bool read_boolean(const char* key, bool* value, const Said& said);
  bool read_choice(const char* key, std::string* value, const std::vector<std::string>& choices,
                   const Said& said);
  // Declares a key. Returns its node if it is there and the block reads.
  const JsonNode* find(const char* key, const Takes& takes, const Said& said,
                       std::shared_ptr<BlockSchema> block = nullptr);
  const JsonNode* find_list(const char* key, const char* takes, const Said& said,
                            BlockSchema** of_each);

  const JsonNode* node_ = nullptr;
  BlockSchema* schema_ = nullptr;
  Problems* problems_ = nullptr;
  bool strict_ = true, others_ = false, finished_ = false;
  size_t problems_before_ = 0;
  std::vector<std::string> known_, missing_;
  int exceptions_ = std::uncaught_exceptions();
};

// Runs declare(block) on an object; throws ConfigError with all its faults.
template <typename Declare>
void read_object(const JsonNode& node, Declare&& declare, bool strict = true) {
  Problems problems;
  {
    Block block(node, strict, problems);
    if (block.node()) declare(block);
  }
  problems.raise();
}

// A config struct of which a function declare(Block&, Config&) knows the keys.
template <typename Config>
Config read_block(const JsonNode& node, bool strict = true) {
  Config config;
  read_object(
      node, [&](Block& block) { declare(block, config); }, strict);
  return config;
}

// Calls `read` for JSON in data files, and throws its ConfigError as a DataError.
template <typename Read>
auto as_data_error(Read&& read) {
  try {
    return read();
  } catch (const ConfigError& error) {
    throw DataError(error.what());
  }
}

}  // namespace hlite::config
