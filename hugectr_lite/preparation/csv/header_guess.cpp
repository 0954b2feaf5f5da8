#include "hugectr_lite/preparation/csv/header_guess.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "hugectr_lite/core/parse_number.h"

namespace hlite::prep {

namespace {

// A row may be the only one of its kind in fewer rows, and in one column, by chance.
constexpr int64_t kMinRows = 10;
constexpr int kMinOdd = 2;

// A column whose rows say what may be in it.
bool repeats(const ColumnFacts& column) {
  return column.has_few_values() && 2 * column.distinct() <= column.present();
}

// A number that is not of the type or the range of the column below.
bool is_odd(const std::string& field, double x, const ColumnFacts& column) {
  if (column.present() < kMinRows) return false;
  if (repeats(column)) return !column.counts().contains(field);
  if (!column.is_numeric()) return column.numbers() == 0;
  const double width = column.max() - column.min();
  return (is_digits(field) && !column.has_digits()) || x < column.min() - width ||
         x > column.max() + width;
}

}  // namespace

FirstLine guess_first_line(std::span<const std::string> fields,
                           std::span<const ColumnFacts> columns) {
  if (fields.empty() || columns[0].rows() == 0) return FirstLine::kRow;
  std::vector<double> numbers;
  bool whole = true, above_numbers = false;
  int odd = 0;
  for (size_t c = 0; c < fields.size(); ++c) {
    const std::string& field = fields[c];
    const ColumnFacts& column = columns[c];
    if (is_missing_spelling(field) || (field.empty() && c > 0)) return FirstLine::kRow;
    if (field.empty()) {  // pandas leaves its index without a name
      above_numbers = column.counts_up();
    } else if (const auto number = parse_number<double>(field)) {
      numbers.push_back(*number);
      whole = whole && is_digits(field);
      odd += is_odd(field, *number, column);
    } else {
      if (repeats(column) && column.counts().contains(field)) return FirstLine::kRow;
      above_numbers = above_numbers || column.is_numeric();
      odd += repeats(column);
    }
  }
  if (numbers.empty()) return above_numbers || odd > 0 ? FirstLine::kNames : FirstLine::kUnclear;
  std::vector<double> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return FirstLine::kRow;
  const bool ascending = numbers == sorted;
  if (above_numbers || (odd >= kMinOdd && whole && ascending)) return FirstLine::kNames;
  const bool descending = std::is_sorted(numbers.begin(), numbers.end(), std::greater<>());
  return odd > 0 || whole || ascending || descending ? FirstLine::kUnclear : FirstLine::kRow;
}

}  // namespace hlite::prep
