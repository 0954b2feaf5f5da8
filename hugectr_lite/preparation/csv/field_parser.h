// The fields of a row to its label, numbers and keys, as a schema says. Whatever has rows, of lines
// or of a table's columns, reads them by this.
//
//   dense column    double: the number, after the logarithm if the schema wants it; NaN: missing
//   key column      uint64: token_key() of the category; 0: missing. Of quantiles that are not
//                   known yet: ordered_bits() of the number. Of a list: those of its values, or 0
//                   if there are none, and kAbsentKey up to its most values
//
// A key stands for its category: two categories of a column fall together when their hashes do, for
// n categories with probability n^2 / 2^65 (a million: 3e-8; 400 million: 0.4%).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data_reader/text/line_parser.h"
#include "hugectr_lite/preparation/csv/csv_schema.h"

namespace hlite::prep {

// A row before it goes to the columns. Reused from row to row.
struct FieldValues {
  uint32_t label = 0;  // 0 or 1, or the bits of a float
  std::vector<double> dense;
  std::vector<uint64_t> keys;  // CategoryColumn::max_values() of each slot
};

// The columns of the rows of `schema`.
data::RowLayout row_layout(const CsvSchema& schema);

class FieldParser {
 public:
  // A schema whose columns are found (CsvSchema::resolve()). It must outlive this.
  explicit FieldParser(const CsvSchema& schema);
  // Returns what is wrong with the fields, or nothing. REQUIRES schema.columns_needed() fields.
  [[nodiscard]] ColumnProblem read(FieldsOfLine fields, FieldValues& row) const;
  // Writes element `row` of the arrays, of row_layout().
  void put(const FieldValues& values, const data::ColumnArrays& out, int64_t row) const;

 private:
  [[nodiscard]] ColumnProblem read_weight(FieldsOfLine fields, double& weight) const;
  [[nodiscard]] ColumnProblem read_real_label(FieldsOfLine fields, uint32_t& label) const;
  // Label number `l`.
  [[nodiscard]] ColumnProblem read_label(FieldsOfLine fields, size_t l, uint32_t& label) const;
  [[nodiscard]] ColumnProblem read_dense(const CsvSchema::Dense& dense, FieldsOfLine fields,
                                         double& x) const;
  [[nodiscard]] std::string advice(const char* what) const;

  // Of the texts of a label.
  struct LabelNumbers {
    explicit LabelNumbers(const LabelTexts& texts);
    std::vector<double> positive, negative;  // NaN: a text that is none
    bool plain = true;  // those that are numbers are spelled so that equal ones have one text
  };

  const CsvSchema& schema_;
  std::vector<LabelNumbers> label_numbers_;
};

}  // namespace hlite::prep
