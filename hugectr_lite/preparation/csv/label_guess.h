// The label of a CSV file without a schema: which column, and which texts are 1.
//
// A column of two values is the label, and surely so,
//   - under a name of kLabelNames (in any case; the first of these),
//   - as the last column, if it looks like a label or no other column of two values does,
//   - as the first column, if it looks like a label and no other column of two values does,
//   - as the only column of two values, if it looks like a label.
// 0 and 1, -1 and 1, yes and no, true and false, and ">50K" look like a label's values; "F" and "M"
// do not. Else it is the last column of two values, which is not sure.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/preparation/csv/column_facts.h"
#include "hugectr_lite/preparation/csv/csv_sample.h"

namespace hlite::prep {

struct LabelGuess {
  size_t column = 0;
  bool sure = true;            // it was asked for, or it is by the rule above
  std::vector<size_t> others;  // columns that nothing but their place or name kept from being it
  std::vector<std::string> positive, negative;  // negative empty: all others
  std::optional<double> positive_share;         // of the rows, if the column has few values
};

// `asked`: the column. Without it none, where no column has two values. `names`: of the columns;
// none: there is no header. `no_label`: columns that are not to be taken. `positive`: see
// CsvGuessOptions. Throws ConfigError, naming `file`, where the column that was asked for does not
// have two values, or none of `positive`.
std::optional<LabelGuess> guess_label(const std::string& file,
                                      const std::vector<ColumnFacts>& columns,
                                      std::span<const std::string> names,
                                      std::optional<size_t> asked, const std::set<size_t>& no_label,
                                      const std::vector<std::string>& positive);

// Adds the texts of the labels of another file that are known ones followed by a full stop,
// as in UCI Adult's test file. `name`: of the label's column in the header; "": there is none.
void add_spellings(const CsvSample& other, const std::string& name, LabelGuess& label);

}  // namespace hlite::prep
