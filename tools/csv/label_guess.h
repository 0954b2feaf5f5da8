// The label of a CSV file without a schema: which column, and which texts are 1.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/csv/column_facts.h"
#include "tools/csv/csv_sample.h"

namespace hlite::tools {

struct LabelGuess {
  size_t column = 0;
  std::vector<std::string> positive, negative;  // negative empty: all others
  std::optional<double> positive_share;         // of the rows, if the column has few values
};

// `asked`: the column; without it the last one of two values. `positive`: see CsvGuessOptions.
// Throws ConfigError, naming `file`, where the column does not have two values, or none of
// `positive`.
LabelGuess guess_label(const std::string& file, const std::vector<ColumnFacts>& columns,
                       std::optional<size_t> asked, const std::vector<std::string>& positive);

// Adds the texts of the labels of another file that are known ones followed by a full stop,
// as in UCI Adult's test file. `name`: of the label's column in the header; "": there is none.
void add_spellings(const CsvSample& other, const std::string& name, LabelGuess& label);

}  // namespace hlite::tools
