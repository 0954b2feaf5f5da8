// The preparation engine: text files to numbered rows in three stages, each by all threads, in
// bounded memory, and each able to go on where a killed run stopped.
//
//   parse    lines -> one append-only file a column in <out>/.prep, rows in the order of the input
//   number   each key column -> ids, by a recipe (numbering.h); the ids' frequencies
//   write    rows, column by column, -> the files of a split (split_writer.h); the manifest
//
// The results depend on the inputs and the options alone: not on threads, memory, or on how often
// the run was interrupted. Calling the same stages again with the same options goes on; whatever
// throws leaves the work folder as it is; finish() removes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tools/prep/column_rows.h"
#include "tools/prep/numbering.h"
#include "tools/prep/prep_options.h"
#include "tools/prep/row_parser.h"
#include "tools/prep/split_writer.h"

namespace hlite::tools {

class PrepEngine {
 public:
  // Opens (and locks) the work folder. Throws ConfigError when it holds an unfinished run of other
  // options or inputs, saying what differs; FileError.
  PrepEngine(const PrepOptions& options, RowParser& parser);
  ~PrepEngine();

  // Throws DataError "<file>:<line>: ..." for a malformed row beyond max_bad_rows, for a file
  // without a row; FileError; Interrupted.
  void parse();
  // Throws DataError for a column that does not fit the memory; FileError; Interrupted.
  void number(const NumberingRecipe& recipe);

  // After parse():
  [[nodiscard]] const std::vector<data::ManifestSource>& sources() const;
  [[nodiscard]] int64_t rows() const;        // of all files
  [[nodiscard]] int64_t train_rows() const;  // the first ones
  // Values of dense column k, from all rows: RowLayout::dense_bytes each.
  [[nodiscard]] ReadFile dense_column(int k) const;
  // After number():
  [[nodiscard]] const std::vector<data::ManifestColumn>& columns() const;
  // Rows [first, first + rows).
  [[nodiscard]] ColumnRows numbered_rows(int64_t first, int64_t rows,
                                         DenseFinish finish = {}) const;
  // Distinct keys of a slot in the order of their ids,
  // RowLayout::key_bytes each: with NumberingRecipe::keep_keys.
  [[nodiscard]] ReadFile keys_of_ids(int slot) const;

  // Writes the frequencies of all ids to <out>/key_counts.bin, under a temporary name, and says so
  // in the manifest, where it also sets slot_sizes, sources and columns. To be committed together
  // with the splits.
  std::unique_ptr<OutputFile> write_key_counts(data::Manifest& manifest) const;
  [[nodiscard]] ThreadPool& pool();
  // Memory, scratch folder and progress for write_split().
  [[nodiscard]] SplitResources split_resources(const std::string& role);
  // The results are published: removes the work folder.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hlite::tools
