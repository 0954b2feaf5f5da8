// A schema (csv_schema.h) for a CSV file that has none, guessed from its first rows.
//
//   separator   see CsvSample
//   header      see header_guess.h; where that is unclear, none, and the summary says so
//   label       the column that is asked for, else see label_guess.h
//   kinds       what is asked for, else see kind_guess.h; numbers by log1p_standardize where none is
//               negative and their skewness is above 3, else by standardize
//   type        of categories: ColumnFacts::type()
//   left out    as kind_guess.h says; of Parquet files also columns that are neither numbers nor
//               texts, or of nulls alone
//   missing     the texts of is_missing_spelling() that are found
//   comment     see CsvSample, of all files
//
// A label or a kind that rests on little is asked for: a ConfigError with the options to write.
//
// The rows after those may contradict it: the preparation then says where, and which file to edit.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hugectr_lite/preparation/csv/csv_sample.h"
#include "hugectr_lite/preparation/csv/label_guess.h"

namespace hlite::prep {

struct CsvGuessOptions {
  std::string label = {};                  // name of the header, or number; "": by the rule above
  std::vector<std::string> positive = {};  // texts of label 1; empty: of two values, the larger
                                           // number, "yes" and the like, "> ...", or the rarer one
  std::optional<bool> header = {};         // the first line has names; unset: by its fields
  std::vector<std::string> categorical = {}, dense = {};  // columns, by name or number, of a kind
  std::vector<std::string> left_out = {};                 // columns that are no features
  std::string command = {};  // as it was given; questions repeat it with their answers
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

enum class ColumnRole { kLabel, kNumber, kCategory, kLeftOut };

// The same of a table that need not be one to train on: it may have no label, or no features.
struct TableGuess {
  struct Column {
    std::string name;  // of the header, else "column 3"
    ColumnRole role = ColumnRole::kLeftOut;
  };
  bool header = false;
  std::vector<Column> columns;
  LabelGuess label;                  // of a column that is one
  std::set<std::string> missing;     // texts
  std::string shape;                 // "3 columns, no header, separator ...", for a person
  std::vector<std::string> summary;  // what else a person wants to know
};

// Throws DataError if the sample has no row.
TableGuess guess_table(const CsvSample& sample);

}  // namespace hlite::prep
