// What the columns of a CSV file are, as a small JSON file:
//
//   {"separator": ",", "header": false, "trim": true, "missing": ["?", "NA"], "comment": ["#"],
//    "label": {"column": 14, "positive": [">50K"], "negative": ["<=50K"]},
//    "dense": [{"column": 0, "name": "age", "transform": "standardize"}],
//    "categorical": [{"column": 1, "name": "workclass"}]}
//
// Categorical columns with the same "vocabulary", a name, share the ids of their categories.
//
// A column is a number from 0 or, in files with a header, a name of it. Without "negative" every
// label that is not positive is negative. Defaults: separator ",", no header, no trim, nothing
// missing but empty fields, no comments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/config/json_node.h"

namespace hlite::tools {

// What becomes of a number x; mean and deviation are those of the training rows (of log(1 + x) in
// the last case). A missing value becomes 0, in the standardised cases thus the mean.
enum class DenseTransform { kNone, kLog1p, kStandardize, kLog1pStandardize };
const char* transform_name(DenseTransform transform);
inline bool is_standardized(DenseTransform transform) {
  return transform == DenseTransform::kStandardize ||
         transform == DenseTransform::kLog1pStandardize;
}

struct CsvColumn {
  int64_t index = -1;       // -1: to be found in the header by...
  std::string header_name;  // ...this name
  std::string name;         // for messages and the manifest
  std::string vocabulary;   // name of a shared one, of a categorical column
};

struct CsvSchema {
  struct Dense {
    CsvColumn column;
    DenseTransform transform = DenseTransform::kNone;
  };
  char separator = ',';
  bool header = false;
  bool trim = false;                 // blanks around fields are dropped
  std::vector<std::string> missing;  // texts of no value; an empty field is missing as well
  std::vector<std::string> comment;  // lines that begin with one of these are no rows
  CsvColumn label;
  std::vector<std::string> positive, negative;  // negative empty: all others
  std::vector<Dense> dense;
  std::vector<CsvColumn> categorical;

  // File of a schema that was guessed, for messages about rows that contradict it; "": none.
  std::string guessed_file = {};

  // Throws ConfigError with file, line, JSON path, expected and found.
  static CsvSchema parse(const config::JsonNode& node);
  // Finds columns given by name. Throws DataError naming the column and `where`,
  // the header's place.
  void resolve(const std::vector<std::string_view>& header, const std::string& where);
  // For files that lack the label's column: those behind it move up.
  void remove_label();
  [[nodiscard]] bool has_label() const { return !positive.empty(); }
  // The table of each categorical column as in slot_tables.h; empty: none shares a vocabulary.
  [[nodiscard]] std::vector<int64_t> slot_tables() const;
  // The columns of a line that the schema needs at least.
  [[nodiscard]] int64_t columns_needed() const;
};

}  // namespace hlite::tools
