// A schema (csv_schema.h) for a CSV file that has none, guessed from its first rows.
//
//   separator   see CsvSample
//   header      the first row has names: no numbers, over a column of numbers or of few values
//   label       the column that is asked for, else the last one of two values
//   dense       numbers of more than ColumnFacts::kFewValues values; log1p_standardize where none
//   is
//               negative and their skewness is above 3, else standardize
//   categorical all others, also numbers with leading zeros or under a name such as user_id
//   type        of categories: ColumnFacts::type()
//   left out    columns with another value in every row: texts, ids, and numbers that count up
//   missing     the texts of is_missing_spelling() that are found
//   comment     see CsvSample, of all files
//
// The rows after those may contradict it: the preparation then says where, and which file to edit.
#pragma once

#include <string>
#include <vector>

namespace hlite::tools {

struct CsvGuessOptions {
  std::string label = {};                  // name of the header, or number; "": by the rule above
  std::vector<std::string> positive = {};  // texts of label 1; empty: of two values, the larger
                                           // number, "yes" and the like, "> ...", or the rarer one
  std::vector<std::string> left_out = {};  // columns, by name or number, that are no features
};

struct CsvGuess {
  std::string schema;                // JSON, a column a line
  std::vector<std::string> summary;  // lines for a person
};

// `train`: its first rows decide. `others`: files of other splits, whose labels may have a full
// stop more, and which may have comments. Throws DataError for a file that no schema fits,
// ConfigError for options that do not fit it; FileError.
CsvGuess guess_schema(const std::string& train, const std::vector<std::string>& others,
                      const CsvGuessOptions& options);

}  // namespace hlite::tools
