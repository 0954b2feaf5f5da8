// One line of a CSV file to its fields. A field that begins with a double quote extends to the next
// single one; "" inside it is one quote. A quoted field ends on its line.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hlite::tools {

class CsvSplitter {
 public:
  // trim: blanks (space, tab) around fields, and before an opening quote, are dropped.
  CsvSplitter(char separator, bool trim) : separator_(separator), trim_(trim) {}

  // Splits a line without its line feed; a carriage return at its end is dropped. Returns what is
  // wrong with it, or nothing; then fields() holds the fields until the next call. They point into
  // `line` or into the splitter.
  std::optional<std::string> split(std::string_view line);
  [[nodiscard]] const std::vector<std::string_view>& fields() const { return fields_; }

 private:
  char separator_;
  bool trim_;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unescaped_;
};

// `text` without blanks at its ends.
std::string_view trimmed(std::string_view text);

}  // namespace hlite::tools
