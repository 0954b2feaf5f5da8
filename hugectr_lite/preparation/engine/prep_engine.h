// The preparation engine: text files to numbered rows in three stages, each by all threads, in
// bounded memory. A later run goes on after the last input file or column that a killed one saved.
//
//   parse    lines -> one append-only file a column in <out>/.prep, rows in the order of the input
//   number   the key columns of each table -> ids, by a recipe (numbering.h); frequencies of ids
//   write    rows, column by column, -> the files of a split (split_writer.h); the manifest
//
// Where format, recipe and memory allow it, the first stage numbers the rows as well and writes
// rows (one_pass.h), and the others do what is left.
//
// The results depend on the inputs and the options alone: not on threads, memory, or on how often
// the run was interrupted. Calling the same stages again with the same options goes on; whatever
// throws leaves the work folder as it is; publish() removes it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/engine/column_rows.h"
#include "hugectr_lite/preparation/engine/numbering.h"
#include "hugectr_lite/preparation/engine/one_pass.h"
#include "hugectr_lite/preparation/engine/prep_options.h"
#include "hugectr_lite/preparation/engine/prep_state.h"
#include "hugectr_lite/preparation/engine/row_parser.h"
#include "hugectr_lite/preparation/engine/split_writer.h"
#include "hugectr_lite/preparation/engine/work_folder.h"
#include "hugectr_lite/preparation/io/stage_progress.h"

namespace hlite::prep {

class PrepEngine {
 public:
  // Opens (and locks) the work folder. The members out and seed of `run` are filled in from
  // `output`. Throws ConfigError when the folder holds an unfinished run of other options or
  // inputs, saying what differs, or results of another run, naming them (without
  // PrepOptions::force), or one of the inputs under the name of a result; FileError.
  PrepEngine(PrepOptions run, OutputOptions output, RowParser& parser);

  // The manifest, where this very run is complete: its results are all there, and there is nothing
  // left to do. Not with PrepOptions::force or restart, nor of standard input.
  [[nodiscard]] std::optional<data::Manifest> complete() const;

  // Throws DataError "<file>:<line>: ..." for a malformed row beyond max_bad_rows, for a file
  // without a row; FileError; Interrupted. `recipe`: of number(), if that is known.
  void parse(const NumberingRecipe* recipe = nullptr);
  // `splits`: training rows first. Says how many values of the others training does not have.
  // Throws DataError for a column that does not fit the memory, or of which more than
  // PrepOptions::max_unknown of a split's values are unknown; FileError; Interrupted.
  void number(const NumberingRecipe& recipe, std::vector<SplitRows> splits);

  // After parse():
  [[nodiscard]] int64_t rows() const { return done_.parse.rows; }  // of all files
  [[nodiscard]] int64_t rows_of(std::string_view role) const;
  // Values of dense column k, from all rows: RowLayout::dense_bytes each.
  [[nodiscard]] ReadFile dense_column(int k) const { return ReadFile(column(1 + k)); }
  // What the first stage stored for a slot, until number() has numbered it: RowLayout::key_bytes
  // a key.
  [[nodiscard]] ReadFile stored_keys(int slot) const { return ReadFile(key_column(slot)); }
  // What the caller has measured on these columns, which a resumed run finds again; null: nothing.
  [[nodiscard]] const nlohmann::ordered_json& kept() const { return done_.fitted; }
  // Throws FileError.
  void keep(nlohmann::ordered_json fitted);
  // After number(). Rows of each slot's table.
  [[nodiscard]] const std::vector<int64_t>& slot_sizes() const { return slot_sizes_; }
  // After number(). Distinct keys of a table in the order of their ids, RowLayout::key_bytes each:
  // with NumberingRecipe::keep_keys. `slot`: the first of the table.
  [[nodiscard]] ReadFile keys_of_ids(int slot) const { return ReadFile(slot_file("keys", slot)); }
  [[nodiscard]] ThreadPool& pool() { return pool_; }

  // The rows of all splits, under temporary names. Throws what write_split() does; Interrupted.
  void write(const DenseFinish& finish = {});
  // A finished file of the results other than the splits.
  void add(std::unique_ptr<OutputFile> file) { others_.push_back(std::move(file)); }
  // Gives all files their names: the splits, what was added, key_counts.bin with the frequencies of
  // all ids, and the manifest, in which it sets files, sources, columns, slot_sizes and key_counts.
  // Removes the work folder.
  void publish(data::Manifest& manifest);

 private:
  [[nodiscard]] std::string column(int c) const;
  [[nodiscard]] std::string slot_file(const char* kind, int slot) const;
  [[nodiscard]] std::string key_column(int slot) const {
    return column(layout_.first_key() + slot);
  }
  // Returns what is left of the memory for a stage that shares it out.
  [[nodiscard]] int64_t budget() const;
  void at_point(std::string_view name) const {
    if (options_.at_point) options_.at_point(name);
  }

  void load();
  [[nodiscard]] std::string completed(const nlohmann::ordered_json& run) const;
  bool resume(const nlohmann::ordered_json& run);
  void check_output_folder();
  void save();
  void save_now();
  bool number_table(const NumberingRecipe& recipe, const std::vector<int>& slots,
                    MemoryBudget& budget, bool alone);
  void write_key_counts();
  void report_unknown() const;
  void write(const SplitRows& split, DenseFinish finish);
  [[nodiscard]] bool fits_one_pass(const NumberingRecipe& recipe) const;
  [[nodiscard]] bool result_is_rows() const;
  void parse_by_columns();
  void parse_in_one_pass(const NumberingRecipe& recipe);
  void parse(BlockSink& sink, const std::function<void(const ParseState&)>& before_save);
  void forget_run();
  [[nodiscard]] StoredRows stored_rows(const SplitRows& split) const;
  void count_split_values(const NumberingRecipe& recipe);
  WrittenSplit stored_result();

  const PrepOptions options_;
  const OutputOptions output_;
  RowParser& parser_;
  const RowLayout layout_;
  const int64_t memory_;
  WorkFolder folder_;
  PrepState done_;
  bool complete_ = false;
  StageProgress progress_;
  ThreadPool pool_;
  std::mutex mutex_;                    // of done_ and what follows, in the second stage
  std::unique_ptr<OutputFile> result_;  // of one pass
  Clock::time_point saved_at_ = Clock::now();
  std::vector<SplitRows> split_rows_;
  // The results:
  std::vector<int64_t> slot_sizes_;
  std::unique_ptr<OutputFile> key_counts_;
  std::vector<WrittenSplit> splits_;
  std::vector<std::unique_ptr<OutputFile>> others_;
};

}  // namespace hlite::prep
