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
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tools/prep/column_rows.h"
#include "tools/prep/numbering.h"
#include "tools/prep/row_parser.h"
#include "tools/prep/split_writer.h"

namespace hlite::tools {

// SIGINT or SIGTERM: what was done is kept.
class Interrupted final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const override { return kExitInterrupted; }
};

struct PrepInput {
  std::string path;  // "-": standard input
  std::string role;  // of the manifest's source; rows of "train" are training rows
};

struct PrepOptions {
  std::vector<PrepInput> inputs;  // those with role "train" come first
  std::string out = ".";
  // What else decides the results, as a JSON object: a run goes on only under the same.
  std::string identity = "{}";
  int64_t max_bad_rows = 0;  // malformed rows to skip, over all files, before giving up
  double sample = 1;         // share of the lines to keep, drawn by (seed, file, line)
  uint64_t seed = 0;
  int threads = 0;       // 0: all that this process may use
  int64_t memory = 0;    // bytes; 0: half of what the machine has available
  bool restart = false;  // forget an unfinished run
  bool quiet = false;
  int64_t block_bytes = 1 << 20;  // of text parsed as one piece; also the longest line

  // For tests. Called at every point where a crash could matter, by the thread that is there, with
  // a name for the point; may throw or end the process.
  std::function<void(std::string_view point)> at_point;
  double checkpoint_seconds = 1;  // 0: after every block
};

// Memory that these options allow, in bytes. Throws ConfigError for too little.
int64_t allowed_memory(const PrepOptions& options);

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
  [[nodiscard]] const std::vector<data::ManifestColumn>& columns() const;  // unnamed
  // Rows [first, first + rows).
  [[nodiscard]] ColumnRows numbered_rows(int64_t first, int64_t rows,
                                         DenseFinish finish = {}) const;
  // Distinct keys of a slot in the order of their ids, RowLayout::key_bytes each: with
  // NumberingRecipe::keep_keys.
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
