// What the columns of a CSV file are, as a small JSON file:
//
//   {"separator": ",", "header": false, "trim": true, "missing": ["?", "NA"], "comment": ["#"],
//    "label": {"column": 14, "positive": [">50K"], "negative": ["<=50K"]},
//    "dense": [{"column": 0, "name": "age", "transform": "standardize"}],
//    "categorical": [{"column": 1, "name": "workclass", "type": "text"}]}
//
// Categorical columns with the same "vocabulary", a name, share the ids of their categories.
// docs/data.md ("Columns as they are") lists what else a column may have (column_transform.h).
//
// "label": {"column": 14, "real": true} is a number to be predicted (MSELoss), and a list of labels
// has one for each task of a model. "weight": {"column": 15} is how much a row counts, a number >=
// 0.
//
// A column is a number from 0 or, in files with a header, a name of it. Without "negative" every
// label that is not positive is negative. Defaults: separator ",", no header, no trim, nothing
// missing but empty fields, no comments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/history_check.h"
#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/preparation/csv/column_transform.h"

namespace hlite::prep {

// Says what becomes of a number x; mean and deviation are those of the training rows (of log(1 + x)
// in the last case). A missing value becomes 0, in the standardised cases thus the mean.
enum class DenseTransform { kNone, kLog1p, kStandardize, kLog1pStandardize };
const char* transform_name(DenseTransform transform);
inline bool is_standardized(DenseTransform transform) {
  return transform == DenseTransform::kStandardize ||
         transform == DenseTransform::kLog1pStandardize;
}

// A column of the file as the rows of a table have to have it.
struct FeatureInput {
  CsvColumn column;
  bool is_number = false;
  std::optional<CategoryType> type = {};  // of a category
  std::string date_format = {};           // empty: no date
};

// The texts that mean label 1, and label 0; negative empty: all others.
struct LabelTexts {
  std::vector<std::string> positive, negative;
};

struct CsvSchema {
  struct Dense {
    NumberColumn number;
    DenseTransform transform = DenseTransform::kNone;
  };
  char separator = ',';
  bool header = false;
  bool trim = false;                     // blanks around fields are dropped
  std::vector<std::string> missing;      // of all columns; an empty field is missing as well
  std::vector<std::string> comment;      // lines that begin with one of these are no rows
  CsvColumn label;                       // the first one
  bool labelled = true;                  // lines have the labels, and the weight
  bool real_label = false;               // a number
  std::vector<LabelTexts> texts = {{}};  // of each label
  // The first of `dense` are the columns of further labels and the weight of the row, 0 and 1 in
  // unlabelled lines. Files have them in this order.
  bool weighted = false;
  std::vector<Dense> dense;
  std::vector<CategoryColumn> categorical;
  std::vector<CsvColumn> carry;  // copied next to the scores; not features

  // File of a schema that was guessed, for messages about rows that contradict it; "": none.
  std::string guessed_file = {};

  // Throws ConfigError with file, line, JSON path, expected and found.
  static CsvSchema parse(const config::JsonNode& node);
  // Finds columns given by name. Throws DataError naming the column and `where`, the header's
  // place, where there is none of that name, or more than one.
  void resolve(const std::vector<std::string_view>& header, const std::string& where);
  // Columns that are given by number are found by their name in this header from now on, in files
  // that have them in another order, too; one whose name another column has keeps its number.
  void find_by_name(const std::vector<std::string>& header);
  // Sets `carry` by names: of the header, or of the schema's columns, or numbers of columns. Throws
  // ConfigError "--carry: ...".
  void set_carry(const std::vector<std::string>& names);
  // For files that lack the columns of labels and weight: the columns after them move up. Throws
  // ConfigError where a label is to be carried.
  void remove_label();
  // Dense features: `dense` without labels and weight.
  [[nodiscard]] std::span<const Dense> features() const {
    return std::span(dense).subspan(no_features());
  }
  [[nodiscard]] size_t no_features() const { return texts.size() - 1 + (weighted ? 1 : 0); }
  // The table of each categorical column as in slot_tables.h; empty: none shares a vocabulary.
  [[nodiscard]] std::vector<int64_t> slot_tables() const;
  // The most values of each categorical column; empty: all have one.
  [[nodiscard]] std::vector<int64_t> hotness() const;
  [[nodiscard]] std::vector<data::History> histories() const;
  // The columns of a line that the schema needs at least.
  [[nodiscard]] int64_t columns_needed() const;
  // The columns that features are read from, those of numbers first; a column that is used twice
  // comes twice.
  [[nodiscard]] std::vector<FeatureInput> inputs() const;
  // Calls visit(column) for each of them.
  template <typename Visit>
  void for_each_input(Visit&& visit) {
    for (Dense& d : dense) for_each_input_of_number(d.number, visit);
    for (CategoryColumn& c : categorical) for_each_input_of_category(c, visit);
  }
  template <typename Visit>
  void for_each_input(Visit&& visit) const {
    for (const Dense& d : dense) for_each_input_of_number(d.number, visit);
    for (const CategoryColumn& c : categorical) for_each_input_of_category(c, visit);
  }
};

// What a preparation has measured of a column of quantiles, in its account of that column
// (Manifest::features_json): its edges under this name, and back. Throws ConfigError.
inline constexpr const char* kEdges = "edges";
Buckets saved_buckets(const config::JsonNode& feature);

}  // namespace hlite::prep
