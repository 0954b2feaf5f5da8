// How the rows of a file that is no text (Parquet) are written as lines, for whatever reads lines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hlite::tools {

struct TextForm {
  char separator = ',';
  bool header = false;  // the first line has the names of the columns
  bool quotes =
      true;  // texts with a separator, a quote or a carriage return stand in double quotes
  // Which columns, in this order, of a file that has all of these; of any other one all of them.
  std::vector<std::string> names = {};
  // Columns, of those, from this one on have their integers written in hexadecimal digits; -1:
  // none.
  int64_t first_hexadecimal = -1;
  // Columns that are looked at: the others may be of any type, and their fields are left empty.
  // Unset: all.
  std::function<bool(int64_t index, const std::string& name)> wanted = {};
};

}  // namespace hlite::tools
