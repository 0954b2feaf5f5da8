// Decides how csv_prep splits the training files, by one pass over them in bounded memory: how many
// rows each split gets, and for a split by time from which time on rows are in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hugectr_lite/preparation/csv/csv_schema.h"
#include "hugectr_lite/preparation/csv/row_split.h"

namespace hlite::prep {

// With SplitOptions::default_share files of fewer rows are not split.
inline constexpr int64_t kRowsToSplit = 1000;

struct SplitPlan {
  RowSplit split;
  int64_t rows = 0;                      // of all files; bad ones count
  int64_t train = 0, val = 0, test = 0;  // with folds: 0
  std::vector<int64_t> rows_of_folds;
};

// REQUIRES options.splits(), checked options. `folder`: for a file of 8 bytes a row while times are
// put in order. `block_bytes`: the longest row. Throws DataError for files too small to give every
// split a row, unless they are too small for default_share; ConfigError for a column that is not
// there; FileError; Interrupted.
SplitPlan plan_split(const std::vector<std::string>& train, const CsvSchema& schema,
                     const SplitOptions& options, uint64_t seed, const std::string& folder,
                     size_t block_bytes);

// Throws ConfigError for options that contradict each other.
void check_split(const SplitOptions& options);

}  // namespace hlite::prep
