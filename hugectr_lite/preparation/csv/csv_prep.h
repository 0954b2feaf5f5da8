// CSV files to files for training with float labels and dense features, on the preparation engine.
//
//   record := float32 label (0 or 1), float32 dense[], uint32 key[]     (raw; see split_writer.h)
//
// What is fitted (means, deviations, the categories of a column) comes from the training files
// alone. In every table row 0 stands for a missing value, a category that training never saw and
// one that it saw fewer than min_count times; the others follow in order of first appearance.
// Columns of one vocabulary are counted and numbered together, row by row (numbering.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/preparation/csv/row_split.h"
#include "hugectr_lite/preparation/engine/output_options.h"
#include "hugectr_lite/preparation/engine/prep_options.h"

namespace hlite::prep {

struct CsvPrepOptions {
  std::string schema;                   // path; "": that of the preparation that is continued
  bool guessed = false;                 // the schema is csv_guess.h's: messages say so
  std::vector<std::string> train = {};  // plain, gzip or zstd; read twice
  std::vector<std::string> val = {};    // "-": standard input
  std::vector<std::string> test = {};   // the same
  int64_t min_count = 1;
  // Folder of a preparation whose ids and transforms are kept (engine/predecessor.h); "": none. Its
  // min_count counts.
  std::string continue_from = {};
  SplitOptions split = {};  // of the training files
  OutputOptions output = {};
  // Threads, memory, sample and the like. The members inputs, out, seed and identity are filled in.
  PrepOptions run = {};
};

// Writes the splits train, val and test (when there are such rows), the text of all categories
// (csv_vocabulary.h), key_counts.bin and manifest.json into output.folder; the manifest's
// "features" holds everything that was fitted, texts of columns of many categories aside. Blank
// lines are skipped. Goes on with a run of the same options that was killed. Throws ConfigError for
// a bad schema, DataError "<file>:<line>: ..." for a bad row, and what PrepEngine throws. On any
// error no file appears under its final name.
data::Manifest csv_prep(const CsvPrepOptions& options);

// The preparation of each of options.split.folds folds, in <folder>/fold_0, fold_1, ...: its rows
// are the split val, those of the other folds are training rows, from which alone everything is
// fitted. Folds that a killed run of the same options has finished are left as they are. Throws
// what csv_prep() throws.
std::vector<data::Manifest> csv_prep_folds(const CsvPrepOptions& options);

}  // namespace hlite::prep
