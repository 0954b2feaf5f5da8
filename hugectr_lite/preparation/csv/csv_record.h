// One line of a CSV file to its fields. A field that begins with a double quote extends to the next
// single one; "" inside it is one quote. A quoted field ends on its line.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hlite::prep {

// The fields of a line: they point into it or into `unescaped`. Reused from line to line.
struct CsvFields {
  std::vector<std::string_view> fields;
  std::deque<std::string> unescaped;
};

struct CsvDialect {
  char separator = ',';
  bool trim = false;  // blanks (space, tab) around fields, and before an opening quote, are dropped
};

// Splits a line without its line feed; a carriage return at its end is dropped. Returns what is
// wrong with it, or nothing.
std::optional<std::string> split_csv(const CsvDialect& dialect, std::string_view line,
                                     CsvFields& out);

// Appends a field to a line of comma-separated text, in quotes where it needs them.
void append_csv_field(std::string_view field, std::string& line);

// `text` without blanks at its ends.
std::string_view trimmed(std::string_view text);

// Nothing but blanks, a carriage return aside.
bool is_blank_line(std::string_view line);

}  // namespace hlite::prep
