// The form of rows in text: the characters that separate them in a text file, and the text that is
// written for the rows of another file (Parquet).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hlite::prep {

struct TextForm {
  char separator = ',';
  bool header = false;  // the first line has the names of the columns
  // A field that begins with a double quote extends to the closing one, over separators, doubled
  // quotes and line feeds. Without it every line is a row.
  bool quotes = false;
  bool trim = false;  // blanks may stand before an opening quote
  // Lines that begin with one of these have no quotes: they are rows of their own, which no reader
  // looks into. Of text files alone.
  std::vector<std::string> comments = {};
  // Which columns, in this order, of a file that has all of these; of any other one all of them.
  std::vector<std::string> names = {};
  // Columns, of those, from this one on have their integers written in hexadecimal digits; -1:
  // none.
  int64_t first_hexadecimal = -1;
  // Columns that are looked at: the others may be of any type, and their fields are left empty.
  // Unset: all.
  std::function<bool(int64_t index, const std::string& name)> wanted = {};
};

}  // namespace hlite::prep
