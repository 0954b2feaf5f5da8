// Whether the first line of a table has the names of its columns, which may be numbers.
//
//   names     a text above a column of numbers, or fields of texts alone of which one is new to a
//             column of few values; whole numbers in ascending order, if two fields or more are
//             not of their column's type or range
//   a row     a text that comes again, a missing value, a number twice, fractions in any order
//   unclear   all else: whole or sorted numbers that the columns might have, texts above texts
#pragma once

#include <span>
#include <string>

#include "hugectr_lite/preparation/csv/column_facts.h"

namespace hlite::prep {

enum class FirstLine { kNames, kRow, kUnclear };

// `fields`: of the first line. `columns`: facts of the rows below it, of as many columns.
FirstLine guess_first_line(std::span<const std::string> fields,
                           std::span<const ColumnFacts> columns);

}  // namespace hlite::prep
