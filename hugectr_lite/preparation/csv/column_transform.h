// Features as functions of the fields of a line:
//
//   number     a field, or the age of a date -> clipped -> double; NaN: missing
//   category   a field, a part of a date, the bucket of a number, or a cross of such -> token; the
//              empty token: missing. Or a field of several values -> a token of each
//
// Preparation, its vocabulary files, predict, serve and the Python package read numbers and tokens
// by these functions alone, so that what a column is made of cannot differ between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/csv/category_type.h"
#include "hugectr_lite/preparation/csv/date_format.h"

namespace hlite::prep {

// A column of the file.
struct CsvColumn {
  int64_t index = -1;       // -1: to be found in the header by...
  std::string header_name;  // ...this name
  std::string name;         // for messages
  std::vector<std::string>
      missing;  // texts that stand for no value, in addition to the empty one...
  std::vector<std::string> own_missing;  // ...and those among them that other columns need not have
  std::vector<double> missing_numbers;   // those that are numbers: -999 is missing where -999.0 is
};

inline bool is_missing(const CsvColumn& column, std::string_view field) {
  if (field.empty()) return true;
  for (const std::string& text : column.missing)
    if (field == text) return true;
  return false;
}

inline bool is_missing_number(const CsvColumn& column, double x) {
  return std::find(column.missing_numbers.begin(), column.missing_numbers.end(), x) !=
         column.missing_numbers.end();
}

// Closed range that numbers are cut to.
struct Clip {
  double low = 0, high = 0;
};

struct DateRule {
  DateFormat format;
  bool malformed_is_missing = false;  // else a date that does not follow the format is an error
};

// Days or hours from another date to that of the column.
struct DateAge {
  DateRule date;
  bool hours = false;
  double since = 0;                     // in seconds since 1970, or...
  std::optional<CsvColumn> other = {};  // ...the date of this column
  DateRule other_date = {};
};

struct NumberColumn {
  CsvColumn column;
  std::optional<DateAge> age;  // the column has dates
  std::optional<Clip> clip;
};

// Half-open intervals of numbers: below the first edge, [edge, next edge), from the last edge on.
class Buckets {
 public:
  Buckets() = default;
  explicit Buckets(std::vector<double> ascending_edges);
  [[nodiscard]] const std::vector<double>& edges() const { return edges_; }
  // "[-inf, 0)", "[0, 10)", "[10, inf)".
  [[nodiscard]] const std::string& token(double x) const {
    return tokens_[static_cast<size_t>(std::upper_bound(edges_.begin(), edges_.end(), x) -
                                       edges_.begin())];
  }

 private:
  std::vector<double> edges_;
  std::vector<std::string> tokens_ = {"[-inf, inf)"};
};

// The values of a field that has several. Missing ones are left out, so that a field of none is a
// missing value.
struct ValueList {
  std::string separator;  // between them
  int64_t max_values = 2;
  bool truncates = false;  // takes the first ones of more; else more are an error
  bool latest = false;     // with truncates: the last ones
  // The name of the history that the column is of, if any: its columns have equally many values in
  // a row, and none is no missing value.
  std::string history = {};
  bool trim = false;  // blanks around them are dropped
};

struct CategoryColumn {
  enum class Kind { kField, kNumber, kDatePart, kCross };
  Kind kind = Kind::kField;
  std::string name;        // of the slot, in messages and the manifest
  std::string vocabulary;  // name of a shared one
  CsvColumn column;        // kField, kDatePart
  // kField: of its values. Schemas of earlier versions have none: text.
  std::optional<CategoryType> type = {};
  std::optional<ValueList> list = {};  // kField
  NumberColumn number;                 // kNumber
  // There are so many buckets of as many training rows each; 0: the edges are the schema's. Until
  // the training rows are known there are no buckets.
  int64_t quantiles = 0;
  std::optional<Buckets> buckets;
  DateRule date;  // kDatePart
  DatePart part = DatePart::kYear;
  // kCross: the tokens of these with "&" between them, a backslash before "&" and "\\" in them;
  // missing if one of them is. With `hash` "#" and that text's hash modulo `hash` instead.
  std::vector<CategoryColumn> of;
  int64_t hash = 0;
  int64_t limit = 1'000'000;  // categories that training rows may give
  [[nodiscard]] bool is_fitted() const { return kind != Kind::kNumber || buckets; }
  [[nodiscard]] bool is_text() const { return !type || *type == CategoryType::kText; }
  [[nodiscard]] int64_t max_values() const { return list ? list->max_values : 1; }
  [[nodiscard]] bool is_history() const { return list && !list->history.empty(); }
};

using FieldsOfLine = std::span<const std::string_view>;
// What is wrong with a field: "column 3 (age): expected ..., found ...".
using ColumnProblem = std::optional<std::string>;

ColumnProblem read_number(const NumberColumn& number, FieldsOfLine fields, double& x);

// Of a column of another type than text. `token`: the field, and then its token.
ColumnProblem read_typed_token(const CategoryColumn& category, std::string_view& token);
ColumnProblem read_derived_token(const CategoryColumn& category, FieldsOfLine fields,
                                 std::string_view& token);
// `token` points into a field or the category, or holds until the thread's next call. REQUIRES
// category.is_fitted(), and no list.
[[gnu::always_inline]] inline ColumnProblem read_token(const CategoryColumn& category,
                                                       FieldsOfLine fields,
                                                       std::string_view& token) {
  if (category.kind != CategoryColumn::Kind::kField)
    return read_derived_token(category, fields, token);
  token = fields[static_cast<size_t>(category.column.index)];
  if (is_missing(category.column, token)) token = {};
  if (category.is_text() || token.empty()) return std::nullopt;
  if (*category.type == CategoryType::kInteger && category.column.missing_numbers.empty() &&
      is_plain_integer(token))
    return std::nullopt;
  return read_typed_token(category, token);
}

ColumnProblem for_each_of_list(const CategoryColumn& category, FieldsOfLine fields,
                               FunctionRef<void(std::string_view)> visit, int64_t* found);
// Calls visit(token) for each value of a category; for none where it is missing. `found`, unless
// null, becomes the number of values of a list in the field. REQUIRES category.is_fitted().
template <typename Visit>
ColumnProblem for_each_token(const CategoryColumn& category, FieldsOfLine fields, Visit&& visit,
                             int64_t* found = nullptr) {
  if (category.list) return for_each_of_list(category, fields, visit, found);
  std::string_view token;
  ColumnProblem problem = read_token(category, fields, token);
  if (!problem && !token.empty()) visit(token);
  return problem;
}

// Numbers that have to be compared with each other before they have a token, as keys of the first
// stage of a preparation: ordered like the numbers, 0 for a missing one.
uint64_t ordered_bits(double x);
double number_of_bits(uint64_t bits);

// Calls visit(column) for the columns of the file that a feature is read from.
template <typename Number, typename Visit>
void for_each_input_of_number(Number& number, Visit&& visit) {
  visit(number.column);
  if (number.age && number.age->other) visit(*number.age->other);
}
template <typename Category, typename Visit>
void for_each_input_of_category(Category& category, Visit&& visit) {
  if (category.kind == CategoryColumn::Kind::kCross) {
    for (auto& one : category.of) for_each_input_of_category(one, visit);
  } else if (category.kind == CategoryColumn::Kind::kNumber) {
    for_each_input_of_number(category.number, visit);
  } else {
    visit(category.column);
  }
}

// What is done to the values of a feature before it becomes a number or an id, for the data's
// identity; empty: nothing.
std::string describe_transform(const NumberColumn& number);
std::string describe_transform(const CategoryColumn& category);

}  // namespace hlite::prep
