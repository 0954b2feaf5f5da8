// What the fields of a column have in common, gathered row by row: what a guess (csv_guess.h) of
// the column's kind goes by.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/preparation/csv/category_type.h"

namespace hlite::prep {

// Nothing but digits, of which there is one at least.
bool is_digits(std::string_view text);

class ColumnFacts {
 public:
  // A column of more values than this is one of many.
  static constexpr size_t kFewValues = 20;

  void add(std::string_view field, int64_t line);

  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t present() const { return present_; }  // rows that have a value
  [[nodiscard]] int64_t numbers() const { return numbers_; }  // rows that have a finite number
  // All values are finite numbers, none with leading zeros, which only codes have.
  [[nodiscard]] bool is_numeric() const { return present_ > 0 && numbers_ == present_ && !coded_; }
  // What the values are as categories. Numbers that are told apart by their spelling ("1.1" and
  // "1.10", "007", "1e5") are texts.
  [[nodiscard]] CategoryType type() const;
  // A column of codes, of numbers that have leading zeros.
  [[nodiscard]] bool is_coded() const { return coded_; }
  [[nodiscard]] int64_t distinct() const;
  [[nodiscard]] bool has_few_values() const { return counts_.size() <= kFewValues; }
  // Every row has a value of its own.
  [[nodiscard]] bool all_differ() const { return present_ == rows_ && distinct() == rows_; }
  // Every row has the whole number that follows the last row's.
  [[nodiscard]] bool counts_up() const { return counts_up_ && rows_ > 1 && numbers_ == rows_; }
  // The smallest and the largest number.
  [[nodiscard]] double min() const { return min_; }
  [[nodiscard]] double max() const { return max_; }
  // A value is digits alone: not all numbers are written with a sign, a point or an exponent.
  [[nodiscard]] bool has_digits() const { return digits_; }
  // Standard deviation and skewness of the numbers, and whether none is negative.
  [[nodiscard]] double deviation() const;
  [[nodiscard]] double skewness() const;
  [[nodiscard]] bool never_negative() const { return min_ >= 0; }
  // Values by text, with the rows that have them, if there are few.
  [[nodiscard]] const std::map<std::string, int64_t>& counts() const { return counts_; }
  // The first text that is not a number, and its line, if there is one.
  [[nodiscard]] const std::string& first_text() const { return first_text_; }
  [[nodiscard]] int64_t first_text_line() const { return first_text_line_; }
  // Rows that have a number as people write it ("1,234", "$5", "12%", "0,5"), which is read as a
  // text, the first one and its line.
  [[nodiscard]] int64_t written() const { return written_; }
  [[nodiscard]] const std::string& first_written() const { return first_written_; }
  [[nodiscard]] int64_t first_written_line() const { return first_written_line_; }
  // The spellings of missing values that were found.
  [[nodiscard]] const std::map<std::string, int64_t>& missing() const { return missing_; }

 private:
  void add_number(double x);
  void add_spelling(std::string_view field, double x);

  int64_t rows_ = 0, present_ = 0, numbers_ = 0;
  double min_ = 0, max_ = 0, last_ = 0;
  double mean_ = 0, squares_ = 0, cubes_ = 0;  // sums of powers of deviations
  bool coded_ = false, digits_ = false, counts_up_ = true;
  int64_t words_ = 0;                // rows that have true or false
  bool whole_ = true, bits_ = true;  // all numbers are whole, are 0 and 1
  bool shortest_ = true;  // all numbers are spelled as write_number() has them, or Python: "3.0"
  bool hexadecimal_ = false;               // some number may be one: "1e5"
  int64_t decimals_ = -1;                  // of all numbers; -2: they differ
  std::vector<uint64_t> hashes_;           // of all values
  std::map<std::string, int64_t> counts_;  // up to kFewValues + 1
  std::map<std::string, int64_t> missing_;
  std::string first_text_, first_written_;
  int64_t first_text_line_ = 0, first_written_line_ = 0, written_ = 0;
};

}  // namespace hlite::prep
