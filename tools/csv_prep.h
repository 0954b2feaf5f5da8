// CSV files to raw files with float labels and dense features (float_label_dense).
//
//   record := float32 label (0 or 1), float32 dense[], uint32 key[]
//
// What is fitted (means, deviations, the categories of a column) comes from the training files
// alone. In every table row 0 stands for a missing value or a category that training never saw; the
// categories follow in order of first appearance.
#pragma once

#include <string>
#include <vector>

#include "tools/csv_schema.h"
#include "tools/raw_manifest.h"

namespace hlite::tools {

struct CsvPrepOptions {
  std::string schema;                   // path
  std::vector<std::string> train = {};  // plain or gzip, read twice
  std::vector<std::string> val = {};
  std::string out = ".";
};

// Writes train.bin, val.bin (when there are `val` files) and manifest.json into `out`; the
// manifest's "features" holds everything that was fitted. Blank lines are skipped. Throws
// ConfigError for a bad schema, DataError "<file>:<line>: ..." for a bad row, FileError. On any
// error no file appears under its final name.
RawManifest csv_prep(const CsvPrepOptions& options);

}  // namespace hlite::tools
